//! Builds HTTP clients, which follow no redirect and repeat no request by themselves.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Request, Response, Url};
use tracing::warn;

use super::direct_client::DirectClient;
use super::errors::{connect_error, root_cause};
use super::proxy::Proxies;
use super::send_error::SendError;
use super::site::{RemoteSite, Tls};
use super::tls;
use crate::failure::RequestError;

/// The HTTP versions to offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    /// The version that the server prefers.
    Any,
    /// HTTP/1.1, the only version that can be upgraded to WebSocket here.
    Http1,
}

/// Whether connections are used for several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// They are kept for the next request.
    Keep,
    /// Each is used for one request.
    SingleUse,
}

/// A client of one site.
pub(crate) enum SiteClient {
    /// Without TLS and proxy.
    Direct(Box<DirectClient>),
    /// With TLS, or through a proxy.
    General(Client),
}

impl SiteClient {
    /// Sends a request, and returns the head of its response.
    pub(crate) async fn execute(&self, request: Request) -> Result<Response, SendError> {
        match self {
            SiteClient::Direct(client) => client.execute(request).await,
            SiteClient::General(client) => Ok(client.execute(request).await?),
        }
    }
}

/// Starts a client that leaves redirects and repetitions to its user.
pub(crate) fn plain_builder() -> ClientBuilder {
    // If the embedding program has installed another provider, that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().redirect(Policy::none()).retry(reqwest::retry::never().max_retries_per_request(0))
}

/// Starts a client for the requests of a site, to itself or to others.
pub(super) fn builder(site: &RemoteSite, version: HttpVersion, proxies: &Proxies) -> ClientBuilder {
    let builder =
        plain_builder().connect_timeout(site.connect_timeout).tcp_nodelay(true).pool_idle_timeout(IDLE).no_proxy();
    proxies.on(if version == HttpVersion::Http1 { builder.http1_only() } else { builder })
}

/// Creates a client for the site itself.
pub(super) async fn site_client(
    site: &RemoteSite,
    version: HttpVersion,
    proxies: &Proxies,
    address: &Url,
    pooling: Pooling,
) -> Result<SiteClient, RequestError> {
    let mut builder = builder(site, version, proxies);
    if pooling == Pooling::SingleUse {
        builder = builder.pool_max_idle_per_host(0);
    }
    if address.scheme() == "https" {
        return tls_client(builder, site.tls.clone()).await;
    }
    tls::check_files(&site.tls)?;
    if let Some(path) = &site.socket {
        let client = DirectClient::over_socket(path.clone(), site.connect_timeout, pooling);
        return Ok(SiteClient::Direct(Box::new(client)));
    }
    if proxies.proxy_for(address).is_none() {
        let client = DirectClient::over_tcp(None, site.connect_timeout, pooling);
        return Ok(SiteClient::Direct(Box::new(client)));
    }
    proxied_client(builder)
}

/// Creates a client for `http` through a proxy, which need not load the certificate authorities; an `https` URL is
/// another origin with its own client.
pub(super) fn proxied_client(builder: ClientBuilder) -> Result<SiteClient, RequestError> {
    build(builder.tls_certs_only([]), &Tls::default())
}

/// Creates a client that checks certificates and shows its own.
pub(super) async fn tls_client(builder: ClientBuilder, tls: Tls) -> Result<SiteClient, RequestError> {
    if !tls.verify {
        warn!("the server's certificate is not checked: anyone on the way can read and change what is sent");
    }
    // Loading the system's certificate authorities takes time, so it happens on another thread.
    let built = tokio::task::spawn_blocking(move || build(tls::show(tls::check(builder, &tls)?, &tls)?, &tls));
    built.await.map_err(|error| connect_error(format!("cannot create the HTTP client: {error}")))?
}

fn build(builder: ClientBuilder, tls: &Tls) -> Result<SiteClient, RequestError> {
    builder.build().map(SiteClient::General).map_err(|error| {
        let files = [&tls.ca, &tls.client_certificate, &tls.client_key].into_iter().flatten();
        let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
        let place = if files.is_empty() { "TLS".to_owned() } else { files.join(", ") };
        connect_error(format!("{place}: {}", root_cause(&error)))
    })
}

/// The name of this program in requests.
pub(crate) const USER_AGENT: &str = concat!("toolgate/", env!("CARGO_PKG_VERSION"));

/// Many servers close a connection that was idle for 5 s; a request sent at that moment has an unknown outcome.
pub(super) const IDLE: Duration = Duration::from_secs(4);
