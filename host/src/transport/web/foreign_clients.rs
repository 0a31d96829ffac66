//! HTTP clients for other origins: they use the site's TLS trust, but not its client certificate.

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
    /// At any address: the configuration names it, or a proxy resolves it.
    Open,
    /// Only at addresses that a server of this zone may refer to.
    Guarded(Zone),
}

/// The clients, each created when it is first needed. There is one per zone, because a connection that one server may
/// refer to must not be reused for another that may not.
pub(in crate::transport) struct ForeignClients {
    site: RemoteSite,
    version: HttpVersion,
    proxies: Proxies,
    /// The clients for `http`, which load no certificate authorities, and those for `https`.
    clients: [[OnceLock<Client>; 6]; 2],
}

impl ForeignClients {
    /// Creates the set without any client.
    pub(super) fn new(site: &RemoteSite, version: HttpVersion, proxies: Proxies) -> Self {
        ForeignClients { site: site.clone(), version, proxies, clients: Default::default() }
    }

    /// Creates the set for authorization servers, which may be anywhere.
    #[cfg(feature = "oauth")]
    pub(in crate::transport) fn for_auth_servers(site: &RemoteSite) -> Result<Self, RequestError> {
        Ok(Self::new(site, HttpVersion::Any, Proxies::from_variables(|name| std::env::var(name).ok())?))
    }

    /// Returns the proxies.
    pub(super) fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// Returns the zone of the server that sent a response, by the address of the connection. Behind a proxy only the
    /// name is known.
    pub(in crate::transport) fn zone(&self, response: &Response) -> Zone {
        let direct = self.proxies.proxy_for(response.url()).is_none();
        let address = response.remote_addr().filter(|_| direct).map(|address| Zone::of(address.ip()));
        address.or_else(|| Zone::of_name(response.url())).unwrap_or(Zone::Public)
    }

    /// Decides how to reach an address that the referrer named, if it may name it.
    pub(in crate::transport) fn route(&self, referrer: Referrer, to: &Url) -> Result<Route, AddressError> {
        referrer.check(to)?;
        Ok(if self.proxies.proxy_for(to).is_some() { Route::Open } else { Route::Guarded(referrer.zone()) })
    }

    /// Returns the client for this route to an address.
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
