//! Clients for other origins than a site's own: they trust whom the site trusts, and show no certificate of ours.

use std::sync::{Arc, OnceLock};

use reqwest::{Client, Response, Url};

use super::proxy::Proxies;
use super::reach::{AddressError, Referrer, Zone, ZoneResolver};
use super::{ClientCertificate, ConnectionReuse, HttpVersion, build, build_tls_client, builder};
use crate::failure::RequestError;
use crate::transport::endpoint::{RemoteSite, Tls};

/// How to reach an address that a server named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transport) enum Route {
    /// At any address: the configuration names it, or a proxy finds it.
    Open,
    /// At the addresses to which a server of this zone may lead.
    Guarded(Zone),
}

/// The clients, each made when it is first needed. There is one for each zone, since a connection that one server may
/// lead to must not be used again for another that may not.
pub(in crate::transport) struct ForeignClients {
    site: RemoteSite,
    version: HttpVersion,
    proxies: Proxies,
    /// Those for `http`, which read no authorities, and those for `https`.
    clients: [[OnceLock<Client>; 6]; 2],
}

impl ForeignClients {
    /// Makes no client yet.
    pub(super) fn new(site: &RemoteSite, version: HttpVersion, proxies: Proxies) -> Self {
        ForeignClients { site: site.clone(), version, proxies, clients: Default::default() }
    }

    /// The clients for authorization servers, which may be anywhere.
    #[cfg(feature = "oauth")]
    pub(in crate::transport) fn for_auth_servers(site: &RemoteSite) -> Result<Self, RequestError> {
        Ok(Self::new(site, HttpVersion::Any, Proxies::from_variables(|name| std::env::var(name).ok())?))
    }

    /// The proxies on the way.
    pub(super) fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// The zone of whoever gave this answer: by the address that we are connected to. A proxy has another address, and
    /// then the name is all that is known.
    pub(in crate::transport) fn zone(&self, response: &Response) -> Zone {
        let direct = self.proxies.proxy_for(response.url()).is_none();
        let address = response.remote_addr().filter(|_| direct).map(|address| Zone::of(address.ip()));
        address.or_else(|| Zone::of_name(response.url())).unwrap_or(Zone::Public)
    }

    /// How to reach an address that these named, if they may name it.
    pub(in crate::transport) fn route(&self, referrer: Referrer, to: &Url) -> Result<Route, AddressError> {
        referrer.check(to)?;
        Ok(if self.proxies.proxy_for(to).is_some() { Route::Open } else { Route::Guarded(referrer.zone()) })
    }

    /// The client for this route to an address.
    pub(in crate::transport) async fn client(&self, route: Route, to: &Url) -> Result<&Client, RequestError> {
        let encrypted = to.scheme() == "https";
        let clients = &self.clients[usize::from(encrypted)];
        let place = match route {
            Route::Open => &clients[5],
            Route::Guarded(zone) => &clients[zone as usize],
        };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let builder = builder(self.version, self.site.connect_timeout, &self.proxies, ConnectionReuse::Reused);
        let builder = match route {
            Route::Open => builder,
            Route::Guarded(zone) => builder.dns_resolver(Arc::new(ZoneResolver(zone))),
        };
        let client = match encrypted {
            true => build_tls_client(builder, &self.site, ClientCertificate::Withheld).await?,
            false => build(builder.tls_certs_only([]), &Tls::default())?,
        };
        Ok(place.get_or_init(|| client))
    }
}
