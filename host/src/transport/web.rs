//! The HTTP client of the network transports: where requests may go, and which headers and credentials go with them.

pub(super) mod address;
pub(super) mod body;
pub(super) mod connection_tasks;
mod errors;
mod foreign_clients;
mod keep_alive;
mod proxy;
pub(super) mod reach;
pub(super) mod receiver;
mod tls;

use std::path::Path;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Request, Response, Url};
use tracing::warn;

use super::endpoint::{RemoteSite, Tls};
use crate::failure::{Failure, HttpError, RequestError};
pub(super) use errors::BODY;
#[cfg(feature = "oauth")]
pub(super) use errors::root_cause;
pub(super) use foreign_clients::{ForeignClients, Route};
use keep_alive::KeepAlive;
use proxy::Proxies;
use reach::{AddressError, Referrer, Zone};

/// The HTTP client of one site.
pub(super) struct WebClient {
    site: RemoteSite,
    version: HttpVersion,
    address: Url,
    /// The headers of each request to the site's own origin.
    headers: HeaderMap,
    client: Client,
    /// For the site itself, if its connections must not be reused.
    single_use_client: OnceLock<Client>,
    keep_alive: KeepAlive,
    /// For other origins that a redirect may lead to.
    foreign_clients: ForeignClients,
}

/// The authorization that a request was sent with.
#[derive(Debug, Clone, Copy)]
struct CredentialEdition(u64);

/// The HTTP versions to offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpVersion {
    /// The version that the server prefers.
    Any,
    /// HTTP/1.1, the only version that can be upgraded to WebSocket here.
    Http1,
}

/// One request.
pub(super) struct WebRequest<'a> {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// Builds the headers, including those of the site; called again for each redirect.
    pub headers: &'a (dyn Fn() -> HeaderMap + Sync),
    /// The body.
    pub body: Bytes,
    /// Whether it may arrive twice without harm.
    pub repeatable: bool,
}

impl WebClient {
    /// Reads the files that the site names and creates a client, without sending anything.
    pub(super) async fn open(site: &RemoteSite, version: HttpVersion) -> Result<Self, RequestError> {
        Self::open_with(site, version, |name| std::env::var(name).ok()).await
    }

    async fn open_with(
        site: &RemoteSite,
        version: HttpVersion,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, RequestError> {
        let address = address::parse(&site.url)?;
        // A local socket needs no proxy.
        let proxies = if site.socket.is_none() { Proxies::from_variables(variable)? } else { Proxies::default() };
        let client = site_client(site, &address, version, &proxies, ConnectionReuse::Reused).await?;
        let keep_alive = if site.socket.is_none() { KeepAlive::default() } else { KeepAlive::assumed() };
        let (address, authorization) = address::split_login(&client, address)?;
        let headers = headers(site, authorization)?;
        let (single_use_client, foreign) = (OnceLock::new(), ForeignClients::new(site, version, proxies));
        Ok(WebClient {
            site: site.clone(),
            version,
            address,
            headers,
            client,
            single_use_client,
            keep_alive,
            foreign_clients: foreign,
        })
    }

    /// Returns the site's URL, without a login.
    pub(super) fn address(&self) -> &Url {
        &self.address
    }

    /// Returns the site's headers, as a base for requests.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the maximum size of a message that the site may send.
    pub(super) fn max_message_bytes(&self) -> usize {
        self.site.max_message_bytes
    }

    /// Sends a request and follows redirects as far as [`reach`] allows: headers are not sent to another origin, and
    /// requests that carry messages never go to one.
    pub(super) async fn send(&self, ask: WebRequest<'_>) -> Result<Response, RequestError> {
        let WebRequest { method, mut url, headers, body, repeatable } = ask;
        let credential = match &self.site.authorize {
            Some(authorize) => authorize.credential().await?,
            None => None,
        };
        let mut away = false;
        let mut route = Route::Open;
        for hop in 0..=REDIRECTS {
            // Once a foreign server has chosen the target, no credentials go along, not even back to the site.
            away = away || !address::same_origin(&url, &self.address);
            let mut request = Request::new(method.clone(), url);
            *request.headers_mut() = if away { harmless(headers()) } else { headers() };
            if let Some(credential) = credential.as_ref().filter(|_| !away) {
                request.headers_mut().insert(header::AUTHORIZATION, credential.header.clone());
            }
            if !body.is_empty() {
                *request.body_mut() = Some(Body::from(body.clone()));
            }
            let asked = match away {
                true => self.foreign_clients.client(route, request.url()).await?.execute(request).await,
                false => self.send_to_site(request, repeatable).await?,
            };
            let mut response = asked.map_err(|error| {
                let url = error.url().unwrap_or(&self.address);
                let failed = errors::send_error(&error, &self.describe_address(url), self.site.connect_timeout);
                let failure = match failed.failure {
                    Failure::Closed if hop > 0 => Failure::Protocol(format!(
                        "it redirects to {}, which closed the connection",
                        self.display_url(url)
                    )),
                    failure => failure,
                };
                // A server that redirects has read the request.
                RequestError { sent: failed.sent || hop > 0, failure }
            })?;
            let status = response.status();
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                if let (Some(credential), Some(authorize)) = (credential.filter(|_| !away), &self.site.authorize) {
                    response.extensions_mut().insert(CredentialEdition(credential.edition));
                    if status != StatusCode::UNAUTHORIZED {
                        authorize.accepted(credential.edition);
                    }
                }
                return Ok(response);
            }
            let target = redirect_target(&response)?;
            let kept = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if method != Method::GET && !kept {
                let body = format!("it redirects to {}; use that address", self.display_url(&target));
                let error = HttpError { status: status.as_u16(), body, ..HttpError::default() };
                return Err(RequestError::sent(Failure::Http(error)));
            }
            // A WebSocket carries messages once it is open.
            let carries = method != Method::GET || self.version == HttpVersion::Http1;
            route = self.route(&response, &target, away, carries).map_err(|refused| {
                let body = format!("it redirects to {}, {refused}", self.display_url(&target));
                RequestError::sent(Failure::Http(HttpError { status: status.as_u16(), body, ..HttpError::default() }))
            })?;
            if !address::same_origin(response.url(), &target) {
                let origin = target.origin().ascii_serialization();
                warn!(origin, "redirected to another origin; headers and credentials are not sent there");
            }
            url = target;
        }
        let last = self.display_url(&url);
        Err(RequestError::sent(Failure::Protocol(format!("it redirects more than {REDIRECTS} times, last to {last}"))))
    }

    /// Decides how to follow a redirect, if that is allowed.
    fn route(&self, response: &Response, target: &Url, away: bool, carries: bool) -> Result<Route, AddressError> {
        let from = response.url();
        if carries && !reach::may_carry_messages(from, target) {
            return Err(AddressError::OtherOrigin);
        }
        // The configuration names this address. With a socket, it does not stand for a place on the network.
        if self.site.socket.is_none() && address::same_origin(target, &self.address) {
            return Ok(Route::Open);
        }
        let zone = match &self.site.socket {
            Some(_) if !away => Zone::Loopback,
            _ => self.foreign_clients.zone(response),
        };
        self.foreign_clients.route(Referrer::new(from, zone), target)
    }

    /// Describes an address, with the proxy on the way to it.
    fn describe_address(&self, url: &Url) -> String {
        match self.foreign_clients.proxies().proxy_for(url) {
            Some(proxy) => format!("{} through the proxy {proxy}", self.display_url(url)),
            None => self.display_url(url),
        }
    }

    /// Returns a URL for messages, with the scheme that the configuration uses.
    pub(super) fn display_url(&self, url: &Url) -> String {
        match self.version {
            HttpVersion::Any => address::display_url(url),
            HttpVersion::Http1 => address::display_socket_url(url),
        }
    }
}

/// Whether a connection is reused after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionReuse {
    /// Other requests use it.
    Reused,
    /// It is closed.
    Closed,
}

/// Creates a client for the site itself.
async fn site_client(
    site: &RemoteSite,
    address: &Url,
    version: HttpVersion,
    proxies: &Proxies,
    connections: ConnectionReuse,
) -> Result<Client, RequestError> {
    let builder = builder(version, site.connect_timeout, proxies, connections);
    if address.scheme() == "https" {
        return build_tls_client(builder, site, ClientCertificate::Sent).await;
    }
    // Without TLS, the certificate authorities need not be loaded; an `https` URL is another origin with its own
    // client.
    tls::check_files(&site.tls)?;
    build(by_socket(builder.tls_certs_only([]), site.socket.as_deref())?, &Tls::default())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientCertificate {
    Sent,
    Withheld,
}

/// Creates a client that checks certificates as the site says, with or without the client certificate.
async fn build_tls_client(
    builder: reqwest::ClientBuilder,
    site: &RemoteSite,
    certificate: ClientCertificate,
) -> Result<Client, RequestError> {
    if !site.tls.verify {
        warn!("the server's certificate is not checked: anyone on the way can read and change what is sent");
    }
    let tls = site.tls.clone();
    // Loading the system's certificate authorities takes time, so it happens on another thread.
    let built = tokio::task::spawn_blocking(move || {
        let builder = tls::check(builder, &tls)?;
        build(if certificate == ClientCertificate::Sent { tls::show(builder, &tls)? } else { builder }, &tls)
    });
    built.await.map_err(|error| connect_error(format!("cannot create the HTTP client: {error}")))?
}

fn builder(
    version: HttpVersion,
    timeout: std::time::Duration,
    proxies: &Proxies,
    connections: ConnectionReuse,
) -> reqwest::ClientBuilder {
    // If the embedding program has installed another provider, that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .redirect(Policy::none())
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE)
        .retry(no_retries())
        .no_proxy();
    let builder = if version == HttpVersion::Http1 { builder.http1_only() } else { builder };
    let builder = if connections == ConnectionReuse::Closed { builder.pool_max_idle_per_host(0) } else { builder };
    proxies.on(builder)
}

/// Disables retries: whether a request may be repeated is not for the HTTP client to decide.
pub(super) fn no_retries() -> reqwest::retry::Builder {
    reqwest::retry::never().max_retries_per_request(0)
}

/// Makes all connections use this socket, if there is one.
#[cfg(unix)]
fn by_socket(builder: reqwest::ClientBuilder, socket: Option<&Path>) -> Result<reqwest::ClientBuilder, RequestError> {
    Ok(match socket {
        Some(path) => builder.unix_socket(path),
        None => builder,
    })
}

#[cfg(not(unix))]
fn by_socket(builder: reqwest::ClientBuilder, socket: Option<&Path>) -> Result<reqwest::ClientBuilder, RequestError> {
    match socket {
        Some(path) => Err(connect_error(format!("{}: this system has no Unix sockets", path.display()))),
        None => Ok(builder),
    }
}

fn build(builder: reqwest::ClientBuilder, tls: &Tls) -> Result<Client, RequestError> {
    builder.build().map_err(|error| {
        let files: Vec<_> = [&tls.ca, &tls.client_certificate, &tls.client_key]
            .into_iter()
            .flatten()
            .map(|file| file.display().to_string())
            .collect();
        let place = if files.is_empty() { "TLS".to_owned() } else { files.join(", ") };
        connect_error(format!("{place}: {}", errors::root_cause(&error)))
    })
}

/// Builds the headers of each request to the site.
fn headers(site: &RemoteSite, authorization: Option<HeaderValue>) -> Result<HeaderMap, RequestError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    if let Some(value) = authorization {
        headers.insert(header::AUTHORIZATION, value);
    }
    let mut own = HeaderMap::new();
    for (name, value) in &site.headers {
        let bad = |what: &str| connect_error(format!("header {name:?}: {what}"));
        let parsed = HeaderName::try_from(name.as_str()).map_err(|_| bad("this is not a valid header name"))?;
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| bad("its value has characters that no header may have"))?;
        if OURS.contains(&parsed) {
            warn!(header = name, "this header is set by the protocol; the configured one is ignored");
            continue;
        }
        value.set_sensitive(true);
        own.append(parsed, value);
    }
    // The site's headers replace our defaults.
    headers.extend(own);
    Ok(headers)
}

/// Keeps only the headers that may go to another origin, without identity and content of the request.
fn harmless(mut headers: HeaderMap) -> HeaderMap {
    let keep = |name: &HeaderName| HARMLESS.contains(name) || name == "mcp-protocol-version";
    let names: Vec<_> = headers.keys().filter(|name| !keep(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    headers
}

fn redirect_target(response: &Response) -> Result<Url, RequestError> {
    let location = response.headers().get(header::LOCATION).and_then(|value| str::from_utf8(value.as_bytes()).ok());
    let target = location.and_then(|location| response.url().join(location).ok()).and_then(address::as_http);
    let target = target.and_then(address::without_login);
    target.ok_or_else(|| {
        let status = response.status().as_u16();
        let error = HttpError { status, body: "it redirects to an invalid address".to_owned(), ..HttpError::default() };
        RequestError::sent(Failure::Http(error))
    })
}

fn connect_error(why: String) -> RequestError {
    RequestError::unsent(Failure::Connect(why))
}

const REDIRECTS: usize = 5;
const USER_AGENT: &str = concat!("toolgate/", env!("CARGO_PKG_VERSION"));

/// Many servers close a connection that was idle for 5 s; a request sent at that moment has an unknown outcome.
const IDLE: std::time::Duration = std::time::Duration::from_secs(4);

const OURS: [HeaderName; 7] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    HeaderName::from_static("mcp-session-id"),
];

const HARMLESS: [HeaderName; 7] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
];

#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod tests;
