//! HTTP clients for other origins: they use the site's TLS trust, but not its client certificate.

use std::sync::Arc;

use reqwest::{Response, Url};
use tokio::sync::OnceCell;

use super::client_builder::{self, HttpVersion, Pooling, SiteClient};
use super::direct_client::DirectClient;
use super::proxy::Proxies;
use super::reach::{AddressError, Referrer, Zone, ZoneResolver};
use super::site::{RemoteSite, Tls};
use crate::failure::RequestError;

/// How to reach an address that a server named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientRoute {
    /// At any address: the configuration names it, or a proxy resolves it.
    Open,
    /// Only at addresses that a server of this zone may refer to.
    Guarded(Zone),
}

/// The clients, each created when it is first needed. There is one per zone, because a connection that one server may
/// refer to must not be reused for another that may not.
pub(crate) struct ForeignClients {
    site: RemoteSite,
    version: HttpVersion,
    proxies: Proxies,
    /// The clients for `http`, which load no certificate authorities, and those for `https`.
    clients: [[OnceCell<SiteClient>; 7]; 2],
}

impl ForeignClients {
    /// Creates the set without any client.
    pub(super) fn new(site: &RemoteSite, version: HttpVersion, proxies: Proxies) -> Self {
        ForeignClients { site: site.clone(), version, proxies, clients: Default::default() }
    }

    /// Creates the set for authorization servers, which may be anywhere.
    #[cfg(feature = "oauth")]
    pub(crate) fn for_auth_servers(site: &RemoteSite) -> Result<Self, RequestError> {
        Ok(Self::new(site, HttpVersion::Any, Proxies::from_variables(|name| std::env::var(name).ok())?))
    }

    /// Returns the proxies.
    pub(super) fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// Returns the zone of the server that sent a response, by the address of the connection. Behind a proxy only the
    /// name is known.
    pub(crate) fn zone(&self, response: &Response) -> Zone {
        let direct = self.proxies.proxy_for(response.url()).is_none();
        let address = response.remote_addr().filter(|_| direct).map(|address| Zone::of(address.ip()));
        address.or_else(|| Zone::of_name(response.url())).unwrap_or(Zone::Public)
    }

    /// Decides how to reach an address that the referrer named, if it may name it.
    pub(crate) fn route(&self, referrer: Referrer, to: &Url) -> Result<ClientRoute, AddressError> {
        referrer.check(to)?;
        Ok(if self.proxies.proxy_for(to).is_some() { ClientRoute::Open } else { ClientRoute::Guarded(referrer.zone) })
    }

    /// Returns the client for this route to an address.
    pub(crate) async fn client(&self, route: ClientRoute, to: &Url) -> Result<&SiteClient, RequestError> {
        let encrypted = to.scheme() == "https";
        let clients = &self.clients[usize::from(encrypted)];
        let proxied = self.proxies.proxy_for(to).is_some();
        let place = match route {
            ClientRoute::Open if proxied => &clients[6],
            ClientRoute::Open => &clients[5],
            ClientRoute::Guarded(zone) => &clients[zone as usize],
        };
        let create = async || {
            if !encrypted && !proxied {
                let zone = match route {
                    ClientRoute::Open => None,
                    ClientRoute::Guarded(zone) => Some(zone),
                };
                let client = DirectClient::over_tcp(zone, self.site.connect_timeout, Pooling::Keep);
                return Ok(SiteClient::Direct(Box::new(client)));
            }
            let builder = client_builder::builder(&self.site, self.version, &self.proxies);
            let builder = match route {
                ClientRoute::Open => builder,
                ClientRoute::Guarded(zone) => builder.dns_resolver(Arc::new(ZoneResolver(zone))),
            };
            let tls = Tls { client_certificate: None, client_key: None, ..self.site.tls.clone() };
            match encrypted {
                true => client_builder::tls_client(builder, tls).await,
                false => client_builder::proxied_client(builder),
            }
        };
        place.get_or_try_init(create).await
    }
}
