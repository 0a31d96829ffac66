//! The HTTP client of a configured site: where requests may go, and which headers and credentials go with them.

pub(crate) mod address;
pub mod authorize;
pub(crate) mod body;
pub(crate) mod client_builder;
mod direct_client;
pub(crate) mod errors;
mod foreign_clients;
mod keep_alive;
mod proxy;
pub(crate) mod reach;
mod send_error;
pub(crate) mod site;
mod tls;

use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use reqwest::{Body, Request, Response, Url};
use tokio::sync::OnceCell;
use tracing::{debug, warn};

use crate::failure::{Failure, HttpError, RequestError};
pub(crate) use client_builder::HttpVersion;
use client_builder::{Pooling, SiteClient, USER_AGENT, site_client};
use errors::{connect_error, http_failure, protocol_error};
pub(crate) use foreign_clients::{ClientRoute, ForeignClients};
use keep_alive::KeepAlive;
use proxy::Proxies;
use reach::{AddressError, Referrer, Zone};
use send_error::SendError;
use site::RemoteSite;

/// The HTTP client of one site.
pub(crate) struct WebClient {
    site: RemoteSite,
    version: HttpVersion,
    address: Url,
    /// The headers of each request to the site's own origin.
    headers: HeaderMap,
    client: SiteClient,
    /// For the site itself, if its connections must not be reused.
    single_use_client: OnceCell<SiteClient>,
    keep_alive: KeepAlive,
    /// For other origins that a redirect may lead to.
    foreign_clients: ForeignClients,
}

/// The authorization that a request was sent with.
#[derive(Debug, Clone, Copy)]
struct CredentialEdition(u64);

/// One request.
pub(crate) struct WebRequest<'a> {
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

impl<'a> WebRequest<'a> {
    /// Creates a request without a body, which may arrive twice.
    pub(crate) fn new(method: Method, url: &Url, headers: &'a (dyn Fn() -> HeaderMap + Sync)) -> Self {
        WebRequest { method, url: url.clone(), headers, body: Bytes::new(), repeatable: true }
    }
}

impl WebClient {
    /// Reads the files that the site names and creates a client, without sending anything.
    pub(crate) async fn open(site: &RemoteSite, version: HttpVersion) -> Result<Self, RequestError> {
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
        let client = site_client(site, version, &proxies, &address, Pooling::Keep).await?;
        let keep_alive = if site.socket.is_none() { KeepAlive::default() } else { KeepAlive::assumed() };
        let (address, authorization) = address::split_login(address)?;
        let headers = headers(site, authorization)?;
        let foreign_clients = ForeignClients::new(site, version, proxies);
        let (site, single_use_client) = (site.clone(), OnceCell::new());
        Ok(WebClient { site, version, address, headers, client, single_use_client, keep_alive, foreign_clients })
    }

    /// Returns the site's URL, without a login.
    pub(crate) fn address(&self) -> &Url {
        &self.address
    }

    /// Returns the site's headers, as a base for requests.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the maximum size of a message that the site may send.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.site.max_message_bytes
    }

    /// Sends a request and follows redirects as far as [`reach`] allows: headers are not sent to another origin, and
    /// requests that carry messages never go to one.
    pub(crate) async fn send(&self, ask: WebRequest<'_>) -> Result<Response, RequestError> {
        let WebRequest { method, mut url, headers, body, repeatable } = ask;
        let credential = match &self.site.authorize {
            Some(authorize) => authorize.credential().await?,
            None => None,
        };
        let mut away = false;
        let mut route = ClientRoute::Open;
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
                return Err(redirect_error(status, body));
            }
            // A WebSocket carries messages once it is open.
            let carries = method != Method::GET || self.version == HttpVersion::Http1;
            route = self.route(&response, &target, away, carries).map_err(|refused| {
                redirect_error(status, format!("it redirects to {}, {refused}", self.display_url(&target)))
            })?;
            if !address::same_origin(response.url(), &target) {
                let origin = target.origin().ascii_serialization();
                warn!(origin, "redirected to another origin; headers and credentials are not sent there");
            }
            url = target;
        }
        let last = self.display_url(&url);
        Err(protocol_error(format!("it redirects more than {REDIRECTS} times, last to {last}")))
    }

    /// Sends a request to the site itself; if the connection was lost and the request is repeatable, sends it again on
    /// a new one.
    async fn send_to_site(
        &self,
        request: Request,
        repeatable: bool,
    ) -> Result<Result<Response, SendError>, RequestError> {
        if !self.keep_alive.may_share(repeatable) {
            return Ok(self.single_use_client().await?.execute(request).await);
        }
        let again = if repeatable { request.try_clone() } else { None };
        let error = match self.client.execute(request).await {
            Ok(response) => {
                self.keep_alive.note_response(&response);
                return Ok(Ok(response));
            }
            Err(error) => error,
        };
        let Some(again) = again.filter(|_| errors::is_lost(&error) && self.keep_alive.had_answered(&error)) else {
            return Ok(Err(error));
        };
        debug!("a connection was closed after an answer; asking on a new one");
        let outcome = self.single_use_client().await?.execute(again).await;
        if outcome.is_ok() {
            self.keep_alive.note_closed();
        }
        Ok(outcome)
    }

    /// Returns the client that uses each connection for one request.
    async fn single_use_client(&self) -> Result<&SiteClient, RequestError> {
        let create = || {
            let proxies = self.foreign_clients.proxies();
            site_client(&self.site, self.version, proxies, &self.address, Pooling::SingleUse)
        };
        self.single_use_client.get_or_try_init(create).await
    }

    /// Decides how to follow a redirect, if that is allowed.
    fn route(&self, response: &Response, target: &Url, away: bool, carries: bool) -> Result<ClientRoute, AddressError> {
        let from = response.url();
        if carries && !reach::may_carry_messages(from, target) {
            return Err(AddressError::OtherOrigin);
        }
        // The configuration names this address. With a socket, it does not stand for a place on the network.
        if self.site.socket.is_none() && address::same_origin(target, &self.address) {
            return Ok(ClientRoute::Open);
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
    pub(crate) fn display_url(&self, url: &Url) -> String {
        match self.version {
            HttpVersion::Any => address::display_url(url),
            HttpVersion::Http1 => address::display_socket_url(url),
        }
    }

    /// Converts an error response; `session` says whether the request had a session id.
    pub(crate) fn http_error(&self, response: &Response, session: bool, body: String) -> HttpError {
        let text = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let mut body = match body::encoding(response) {
            Some(encoding) => format!("a text encoded as {encoding}, which was not asked for"),
            None => self.redact(&body),
        };
        body.truncate(body.floor_char_boundary(errors::SHOWN));
        // For an unencrypted request, a proxy may answer instead of the server.
        if let Some(proxy) =
            self.foreign_clients.proxies().proxy_for(response.url()).filter(|_| response.url().scheme() == "http")
        {
            body = match response.status() {
                StatusCode::PROXY_AUTHENTICATION_REQUIRED => format!("the proxy {proxy} requires a login"),
                _ if body.is_empty() => format!("through the proxy {proxy}"),
                _ => format!("{body} (through the proxy {proxy})"),
            };
        }
        // A challenge of another origin, reached by a redirect, is not the server's.
        let ours = address::same_origin(response.url(), self.address());
        HttpError {
            status: response.status().as_u16(),
            session,
            challenge: challenge(response).filter(|_| ours).map(|challenge| self.redact(&challenge)),
            edition: response.extensions().get::<CredentialEdition>().map_or(0, |edition| edition.0),
            retry_after: text(header::RETRY_AFTER).and_then(|value| errors::retry_after(value, SystemTime::now())),
            body,
        }
    }

    /// Reads the beginning of an error response's body, and converts both to an error.
    pub(crate) async fn failed_answer(&self, mut response: Response, session: bool) -> HttpError {
        let body = body::beginning(&mut response, errors::BODY).await;
        self.http_error(&response, session, body)
    }

    /// Reads the beginning of a body of an unexpected kind, and converts both to an error.
    pub(crate) async fn unexpected_kind(&self, kind: &str, mut response: Response) -> RequestError {
        let start = self.redact(&body::beginning(&mut response, errors::BODY).await);
        protocol_error(format!("answered with content type {kind}: {}", body::excerpt(&start)))
    }

    /// Hides secrets in text from the site; called before cutting, because half a secret cannot be recognised.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = self.site.secrets.redact(text);
        match &self.site.authorize {
            Some(authorize) => authorize.secrets().redact(&text).into_owned(),
            None => text.into_owned(),
        }
    }
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
        if OURS.contains(&parsed.as_str()) {
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
    let keep = |name: &HeaderName| {
        let ours = ["accept", "content-type", "connection", "upgrade", "mcp-protocol-version"];
        let websocket = ["sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol"];
        ours.contains(&name.as_str()) || websocket.contains(&name.as_str())
    };
    let names: Vec<_> = headers.keys().filter(|name| !keep(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    headers
}

/// Joins all challenges of a response, because several headers mean the same as one with commas.
fn challenge(response: &Response) -> Option<String> {
    let values = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
    let values: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn redirect_target(response: &Response) -> Result<Url, RequestError> {
    let location = response.headers().get(header::LOCATION).and_then(|value| str::from_utf8(value.as_bytes()).ok());
    let target = location.and_then(|location| response.url().join(location).ok()).and_then(address::as_http);
    let target = target.and_then(address::without_login);
    target.ok_or_else(|| redirect_error(response.status(), "it redirects to an invalid address".to_owned()))
}

/// Creates the error of a redirect that is not followed.
fn redirect_error(status: StatusCode, body: String) -> RequestError {
    http_failure(HttpError { status: status.as_u16(), body, ..HttpError::default() })
}

const REDIRECTS: usize = 5;

/// The headers that the protocol sets.
const OURS: [&str; 7] =
    ["accept", "content-type", "content-length", "transfer-encoding", "connection", "upgrade", "mcp-session-id"];

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
