//! Requests to authorization servers: limited in time and size, redirected within one origin, and sent only to
//! addresses that the parties naming them may refer to.

use std::sync::Mutex;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};
use reqwest::{Body, Request, Url};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use url::form_urlencoded::{self, Serializer};

use crate::config::secrets::Secrets;
use crate::failure::RequestError;
use crate::lock::lock;
use crate::web::errors::root_cause;
use crate::web::reach::{Referrer, Zone};
use crate::web::site::RemoteSite;
use crate::web::{ClientRoute, ForeignClients, address, body};

/// The HTTP client for a site's authorization servers.
pub(super) struct AuthServerClient {
    foreign_clients: ForeignClients,
    /// The addresses that the configuration names, which are allowed in any zone.
    configured: Vec<Url>,
    /// The site, with the zone that its name implies.
    site: Referrer,
    /// All parties that answered so far, since each may have named the next address.
    responders: Mutex<Option<Referrer>>,
    /// The outcome of the last request.
    last: Mutex<LastRequest>,
    /// The secrets that were sent so far; an authorization server may repeat them in its errors.
    sent: Mutex<Secrets>,
    /// How long one request may take, including its redirects and its whole answer.
    limit: Duration,
}

/// The last request to an authorization server.
#[derive(Clone, Default)]
pub(super) struct LastRequest {
    /// Its address, as text to append to a message.
    pub(super) target: String,
    /// Its origin.
    origin: String,
    /// Why there was no usable answer, as text.
    pub(super) trouble: Option<String>,
    /// Why it was not sent, because nobody may refer to that address, as text.
    pub(super) refused: Option<String>,
}

impl AuthServerClient {
    /// Creates a client with the TLS trust of the site; `named` are the addresses that the configuration names beside
    /// the site's own.
    pub(super) fn new(site: &RemoteSite, named: &[&str]) -> Result<Self, RequestError> {
        let home = address::parse(&site.url)?;
        let by_name = Referrer::new(&home, Zone::of_name(&home).unwrap_or(Zone::Public));
        let mut configured: Vec<Url> = named.iter().filter_map(|named| Url::parse(named).ok()).collect();
        configured.push(home);
        Ok(AuthServerClient {
            foreign_clients: ForeignClients::for_auth_servers(site)?,
            configured,
            site: by_name,
            responders: Mutex::default(),
            last: Mutex::default(),
            sent: Mutex::default(),
            limit: REQUEST_TIMEOUT,
        })
    }

    /// Checks whether an address that the servers named may be shown to a person: it must be a web address, encrypted
    /// unless it is on this machine. The configuration may name any web address.
    pub(super) fn check_page(&self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|_| "it is not a URL".to_owned())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(format!("its scheme is {}, not https", url.scheme()));
        }
        if self.is_configured(&url) {
            return Ok(());
        }
        if url.scheme() == "http" && Zone::of_name(&url) != Some(Zone::Loopback) {
            return Err(format!("{} is not encrypted", address::display_url(&url)));
        }
        self.referrer().check(&url).map_err(|refused| format!("{} is {refused}; {MEND}", address::display_url(&url)))
    }

    /// Checks that the last fetched description of an authorization server came from this issuer's origin, because
    /// anybody can put another issuer's name into a description (RFC 8414 §3.3).
    pub(super) fn check_described(&self, issuer: Option<&str>) -> Result<(), String> {
        let Some(issuer) = issuer else { return Err("the authorization server names no issuer".to_owned()) };
        let origin = Url::parse(issuer).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        let from = self.last().origin;
        if origin == from {
            return Ok(());
        }
        Err(format!("{from} describes itself as another authorization server, {issuer}"))
    }

    /// Reports whether an assertion may be sent to this endpoint: encrypted, or from this machine to itself.
    pub(super) fn may_receive_assertion(&self, endpoint: &Url) -> bool {
        match endpoint.scheme() {
            "https" => true,
            "http" => self.site.zone == Zone::Loopback && Zone::of_name(endpoint) == Some(Zone::Loopback),
            _ => false,
        }
    }

    fn is_configured(&self, url: &Url) -> bool {
        self.configured.iter().any(|named| address::same_origin(named, url))
    }

    /// Returns the parties that may have named the next address.
    fn referrer(&self) -> Referrer {
        lock(&self.responders).unwrap_or(self.site)
    }

    /// Decides how to reach this address, if that is allowed.
    fn route(&self, url: &Url) -> Result<ClientRoute, String> {
        if self.is_configured(url) {
            return Ok(ClientRoute::Open);
        }
        let routed = self.foreign_clients.route(self.referrer(), url);
        routed.map_err(|refused| format!("{} is {refused}; {MEND}", address::display_url(url)))
    }

    /// Notes a party that answered, because it may name further addresses.
    fn note_answer(&self, response: &reqwest::Response) {
        let answered = Referrer::new(response.url(), self.foreign_clients.zone(response));
        let mut responders = lock(&self.responders);
        let before = match *responders {
            // A configured address counts with its real zone; before its first answer, only its name is known.
            None if self.is_configured(response.url()) => answered,
            before => before.unwrap_or(self.site),
        };
        *responders = Some(before.and(answered));
    }

    /// Returns the last request.
    pub(super) fn last(&self) -> LastRequest {
        lock(&self.last).clone()
    }

    /// Fetches a document.
    pub(super) async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let request = Request::new(Method::GET, Url::parse(url)?);
        self.send_within(self.limit, request, OAuthHttpRedirectPolicy::Follow).await
    }

    /// Posts a form; redirects are not followed.
    pub(super) async fn post_form(
        &self,
        url: Url,
        form: &[(&str, &str)],
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let mut request = Request::new(Method::POST, url);
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, form_type);
        *request.body_mut() = Some(Serializer::new(String::new()).extend_pairs(form).finish().into());
        self.send_within(self.limit, request, OAuthHttpRedirectPolicy::Stop).await
    }

    /// Remembers the secrets in a form that is sent, to remove them from errors.
    fn note_secrets(&self, request: &Request) {
        let Some(form) = request.body().and_then(Body::as_bytes) else { return };
        for (name, value) in form_urlencoded::parse(form) {
            if SECRET_PARAMETERS.contains(&&*name) {
                lock(&self.sent).add(&value);
            }
        }
    }

    /// Removes what was sent from the text of an error.
    pub(super) fn redact(&self, text: &str) -> String {
        lock(&self.sent).redact(text).into_owned()
    }

    async fn send_within(
        &self,
        limit: Duration,
        request: Request,
        redirects: OAuthHttpRedirectPolicy,
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        self.note_secrets(&request);
        match tokio::time::timeout(limit, self.send(request, redirects)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {limit:?}").into()),
        }
    }

    async fn send(
        &self,
        mut request: Request,
        redirects: OAuthHttpRedirectPolicy,
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        for _ in 0..=REDIRECTS {
            let again = request.try_clone();
            let shown = address::display_url(request.url());
            let origin = request.url().origin().ascii_serialization();
            *lock(&self.last) = LastRequest { target: format!(" from {shown}"), origin, ..LastRequest::default() };
            let route = self.route(request.url()).inspect_err(|why| lock(&self.last).refused = Some(why.clone()))?;
            let client = self.foreign_clients.client(route, request.url()).await?;
            lock(&self.last).trouble = Some(format!("no answer from {shown}"));
            let sent = client.execute(request).await;
            let response = sent.map_err(|error| format!("{shown}: {}", root_cause(&error)))?;
            self.note_answer(&response);
            let status = response.status();
            let faulty = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            lock(&self.last).trouble = faulty.then(|| format!("HTTP status {} from {shown}", status.as_u16()));
            let target = response.headers().get(header::LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| response.url().join(target).ok());
            let moved = response.status().is_redirection() && redirects == OAuthHttpRedirectPolicy::Follow;
            match (again, target) {
                // The body may contain a secret, so it goes to the same origin only.
                (Some(mut again), Some(target)) if moved && address::same_origin(response.url(), &target) => {
                    *again.url_mut() = target;
                    request = again;
                }
                _ => return whole(response).await,
            }
        }
        Err(format!("more than {REDIRECTS} redirects").into())
    }
}

impl OAuthHttpClient for AuthServerClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { request, redirect_policy, timeout, .. } = request;
            let request = Request::try_from(request)?;
            self.send_within(timeout.unwrap_or(self.limit).min(self.limit), request, redirect_policy).await
        })
    }
}

/// Reads a whole response, up to a limit.
async fn whole(mut response: reqwest::Response) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
    let body = body::bytes(&mut response, MAX_BODY).await.map_err(reqwest::Error::without_url)?;
    let body = body.ok_or_else(|| format!("an answer of more than {MAX_BODY} bytes"))?;
    let mut answer = Response::builder().status(response.status()).version(response.version());
    if let Some(headers) = answer.headers_mut() {
        headers.clone_from(response.headers());
    }
    Ok(answer.body(body)?)
}

const MEND: &str = "to allow that, name it in the server's `auth`, as `issuer`, `metadata_url` or `token_url`";
const REDIRECTS: usize = 5;
const MAX_BODY: usize = 1 << 20;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The parameters of a form whose values no error repeats.
const SECRET_PARAMETERS: [&str; 5] = ["client_assertion", "client_secret", "code", "code_verifier", "refresh_token"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::fixture::{AfterReply, FixtureReply, FixtureServer, site, soon};

    #[tokio::test]
    async fn metadata_that_drips_without_end_is_given_up() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{".to_owned();
        let server = FixtureServer::start(vec![FixtureReply { text, then: AfterReply::Next }]).await;
        let mut client = AuthServerClient::new(&site(&server.url()), &[]).unwrap();
        client.limit = Duration::from_millis(100);
        let error = soon(client.get(&server.url())).await.unwrap_err().to_string();
        assert!(error.contains("no answer within 100ms"), "{error}");
    }

    #[test]
    fn an_assertion_is_sent_encrypted_or_within_this_machine() {
        let check = |server: &str, endpoint: &str, may: bool| {
            let client = AuthServerClient::new(&site(server), &[]).unwrap();
            assert_eq!(client.may_receive_assertion(&Url::parse(endpoint).unwrap()), may, "{server} {endpoint}");
        };
        check("https://a.example/mcp", "https://b.example/token", true);
        check("http://127.0.0.1:1/mcp", "https://b.example/token", true);
        check("http://127.0.0.1:1/mcp", "http://localhost:2/token", true);
        check("http://127.0.0.1:1/mcp", "http://b.example/token", false);
        check("http://10.0.0.1/mcp", "http://127.0.0.1/token", false);
        check("https://a.example/mcp", "http://127.0.0.1/token", false);
        check("http://127.0.0.1:1/mcp", "ftp://127.0.0.1/token", false);
    }
}
