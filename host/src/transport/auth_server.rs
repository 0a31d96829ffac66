//! Requests to authorization servers: bounded in time and size, redirected to no other origin, and sent only to addresses
//! that those who named them may lead to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header;
use http::{Method, Response, StatusCode};
use reqwest::{Request, Url};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};

use super::endpoint::RemoteSite;
use super::web::reach::{Referrer, Zone};
use super::web::{ForeignClients, Route, address, root_cause};
use crate::failure::RequestError;

/// The client for a site's authorization servers.
pub(crate) struct AuthServerClient {
    foreign_clients: ForeignClients,
    /// The addresses that the configuration names: we go there whatever their zone.
    configured: Vec<Url>,
    /// The site, as far as its name tells where it is.
    site: Referrer,
    /// All who answered so far: each of them may have named the next address.
    responders: Mutex<Option<Referrer>>,
    /// How the last request went.
    last: Mutex<LastRequest>,
}

#[derive(Default)]
struct LastRequest {
    /// Where it went, in words.
    target: String,
    /// Its origin.
    origin: String,
    /// It was not answered, or with a fault of the server's own: how, in words.
    trouble: Option<String>,
    /// It was not sent, since nobody may lead us there: why, in words.
    refused: Option<String>,
}

impl AuthServerClient {
    /// Makes a client that trusts whom the site trusts; nothing is sent. Beside the site's own address, these are the
    /// ones that the configuration names.
    pub(crate) fn new(site: &RemoteSite, named: &[&str]) -> Result<Self, RequestError> {
        let home = address::parse(&site.url)?;
        let by_name = Referrer::new(&home, Zone::of_name(&home).unwrap_or(Zone::Public));
        let mut configured: Vec<Url> = named.iter().filter_map(|named| Url::parse(named).ok()).collect();
        configured.push(home);
        let foreign = ForeignClients::for_auth_servers(site)?;
        Ok(AuthServerClient {
            foreign_clients: foreign,
            configured,
            site: by_name,
            responders: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// Whether an address, named by all who were asked so far, may be shown to a person: it is for a browser, and it is
    /// encrypted unless it is on this machine. The configuration may name any that is for a browser.
    pub(crate) fn check_page(&self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|_| "it is no address".to_owned())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(format!("it begins with {}: and not with https", url.scheme()));
        }
        if self.is_configured(&url) {
            return Ok(());
        }
        if url.scheme() == "http" && Zone::of_name(&url) != Some(Zone::Loopback) {
            return Err(format!("{} is not encrypted", address::display_url(&url)));
        }
        self.referrer().check(&url).map_err(|refused| format!("{} is {refused}; {MEND}", address::display_url(&url)))
    }

    /// Whether the description of an authorization server that was fetched last came from where this issuer is: anybody
    /// can write the name of another issuer into a description of their own (RFC 8414 §3.3).
    pub(crate) fn check_described(&self, issuer: Option<&str>) -> Result<(), String> {
        let Some(issuer) = issuer else { return Err("the authorization server does not say who it is".to_owned()) };
        let origin = Url::parse(issuer).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        let from = self.last().origin.clone();
        if origin == from {
            return Ok(());
        }
        Err(format!("{from} describes itself as another authorization server, {issuer}"))
    }

    fn is_configured(&self, url: &Url) -> bool {
        self.configured.iter().any(|named| address::same_origin(named, url))
    }

    /// Those who may have named the next address.
    fn referrer(&self) -> Referrer {
        self.responders().unwrap_or(self.site)
    }

    fn responders(&self) -> MutexGuard<'_, Option<Referrer>> {
        self.responders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How to reach this address, if we may.
    fn route(&self, url: &Url) -> Result<Route, String> {
        if self.is_configured(url) {
            return Ok(Route::Open);
        }
        let routed = self.foreign_clients.route(self.referrer(), url);
        routed.map_err(|refused| format!("{} is {refused}; {MEND}", address::display_url(url)))
    }

    /// Whoever answers may name further addresses.
    fn note_answer(&self, response: &reqwest::Response) {
        let answered = Referrer::new(response.url(), self.foreign_clients.zone(response));
        let mut heard = self.responders();
        let before = match *heard {
            // What the configuration names leads by its address; only before it is asked, by its name.
            None if self.is_configured(response.url()) => answered,
            before => before.unwrap_or(self.site),
        };
        *heard = Some(before.and(answered));
    }

    /// That the last request was not answered, or with a fault of the server's own; in words.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.last().trouble.clone()
    }

    /// That the last request was not sent, since nobody may lead us there; in words.
    pub(crate) fn refused(&self) -> Option<String> {
        self.last().refused.clone()
    }

    /// Where the last request went, in words that can follow others.
    pub(crate) fn last_target(&self) -> String {
        self.last().target.clone()
    }

    fn last(&self) -> MutexGuard<'_, LastRequest> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a document.
    pub(crate) async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let request = Request::new(Method::GET, Url::parse(url)?);
        self.send(request, OAuthHttpRedirectPolicy::Follow).await
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
            *self.last() = LastRequest { target: format!(" from {shown}"), origin, ..LastRequest::default() };
            let route = self.route(request.url()).inspect_err(|why| self.last().refused = Some(why.clone()))?;
            let client = self.foreign_clients.client(route, request.url()).await?;
            self.last().trouble = Some(format!("no answer from {shown}"));
            let sent = client.execute(request).await;
            let response = sent.map_err(|error| format!("{shown}: {}", root_cause(&error)))?;
            self.note_answer(&response);
            let status = response.status();
            let faulty = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            self.last().trouble = faulty.then(|| format!("HTTP status {} from {shown}", status.as_u16()));
            let target = response.headers().get(header::LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| response.url().join(target).ok());
            let moved = response.status().is_redirection() && redirects == OAuthHttpRedirectPolicy::Follow;
            match (again, target) {
                // What is posted may be a secret, so that it is sent to nobody else.
                (Some(mut again), Some(target)) if moved && address::same_origin(response.url(), &target) => {
                    *again.url_mut() = target;
                    request = again;
                }
                _ => return whole(response).await,
            }
        }
        Err(format!("it redirects more than {REDIRECTS} times").into())
    }
}

impl OAuthHttpClient for AuthServerClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { request, redirect_policy, timeout, .. } = request;
            let request = Request::try_from(request)?;
            let limit = timeout.unwrap_or(LIMIT).min(LIMIT);
            match tokio::time::timeout(limit, self.send(request, redirect_policy)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(format!("no answer within {limit:?}").into()),
            }
        })
    }
}

/// An answer with its whole body, up to a limit.
async fn whole(mut response: reqwest::Response) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(format!("an answer of more than {MAX_BODY} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    let mut answer = Response::builder().status(response.status()).version(response.version());
    if let Some(headers) = answer.headers_mut() {
        headers.clone_from(response.headers());
    }
    Ok(answer.body(body)?)
}

const MEND: &str = "if that is right, name it in the server's `auth`, as `issuer`, `metadata_url` or `token_url`";
const REDIRECTS: usize = 5;
const MAX_BODY: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(30);
