//! The first steps of each request: checks its host, origin, token and rate, and routes it to the code that answers it.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, EXPECT, HeaderMap, HeaderValue, VARY,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

use super::body::ResponseBody;
use super::connections::{ConnectionOwner, StreamingGuard, TrackedConnection};
use super::control::{CurrentRules, HttpRules};
use super::hosts::ConnectionInfo;
use super::load::LoadLimiter;
use super::mcp_headers::VersionClaim;
use super::pages::{self, PageHandler};
use super::rate::RateKey;
use super::refusal::HttpRefusal;
use super::sessions::HttpSessions;
use super::timer::{BusyGuard, ConnectionTimer};
use super::tokens::{AuthResult, TokenDigest};
use super::usage::LimitReached;
use super::{content, media, post, single_headers, streams};
use crate::gateway::client::{ClientFactory, Principal};
use crate::spin_wait::SpinWait;
use crate::transport::BoxFuture;

/// The state that all connections of an HTTP server share.
pub(super) struct HttpState {
    pub(super) client_factory: Arc<dyn ClientFactory>,
    pub(super) pages: Arc<dyn PageHandler>,
    pub(super) load: Arc<LoadLimiter>,
    pub(super) sessions: Arc<HttpSessions>,
    pub(super) rules: Arc<CurrentRules>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) spin_wait: Arc<SpinWait>,
}

impl HttpState {
    /// Returns the rules in force.
    pub(super) fn rules(&self) -> Arc<HttpRules> {
        self.rules.get()
    }

    /// Refuses a request beyond the rate limit of its principal or, without tokens, of its address.
    pub(super) fn check_rate(&self, principal: Option<&Arc<Principal>>, peer: IpAddr) -> Result<(), HttpRefusal> {
        let rules = self.rules();
        let Some(buckets) = &rules.rate_limiter else { return Ok(()) };
        let asker = match principal {
            Some(principal) if !rules.authenticator.allows_anonymous() => RateKey::Principal(principal.clone()),
            _ => RateKey::Peer(peer),
        };
        buckets.take(asker, Instant::now()).map_err(|wait| {
            self.load.shed_rate.fetch_add(1, Relaxed);
            HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, "rate limit exceeded: wait as long as Retry-After says")
                .retry_after(wait)
        })
    }

    /// Waits until the server is told to stop.
    pub(super) fn stopped(&self) -> BoxFuture<'static, ()> {
        let mut stopping = self.stopping.clone();
        Box::pin(async move {
            // A dropped server has stopped too.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        })
    }

    /// Waits until the server is told to stop or the principal's token is revoked.
    pub(super) fn until_revoked(
        &self,
        pass: TokenDigest,
        principal: Option<&Arc<Principal>>,
    ) -> BoxFuture<'static, ()> {
        let stopped = self.stopped();
        let Some(principal) = principal.cloned() else { return stopped };
        let gone = self.rules.clone().wait_revoked(pass, principal);
        Box::pin(async move {
            tokio::select! {
                () = stopped => {}
                () = gone => {}
            }
        })
    }
}

/// The connection of a request.
pub(super) struct ConnectionContext {
    pub(super) state: Arc<HttpState>,
    pub(super) timer: Arc<ConnectionTimer>,
    pub(super) info: ConnectionInfo,
    /// The host that passed the check, and the rules of that check.
    pub(super) host: Mutex<Option<(Arc<HttpRules>, HeaderValue)>>,
    /// The connection's entry in the table.
    pub(super) connection: Arc<TrackedConnection>,
}

impl ConnectionContext {
    /// Answers one request.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let _asked = self.state.spin_wait.start_request();
        let busy = self.timer.start_request();
        let (head, mut body) = request.into_parts();
        let asks_first = head.headers.contains_key(EXPECT);
        match self.identify(&head) {
            Ok(RequestIdentity { origin, principal }) => {
                let response = match self.route(head, &mut body, asks_first, principal, busy).await {
                    Ok(response) => response,
                    Err(refusal) => self.refuse(refusal, asks_first, &mut body).await,
                };
                Ok(if origin.is_some() { allow_origin(response, origin) } else { response })
            }
            Err(refusal) => Ok(self.refuse(refusal, asks_first, &mut body).await),
        }
    }

    /// Checks the host and origin of a request, and authenticates it.
    fn identify(&self, head: &Parts) -> Result<RequestIdentity, HttpRefusal> {
        let state = &*self.state;
        let rules = state.rules();
        single_headers::check(&head.headers)?;
        let checked = self.check_host(head, &rules);
        let origin = checked.and_then(|()| rules.hosts.check_origin(head, &self.info)).inspect_err(|_| {
            state.load.foreign.fetch_add(1, Relaxed);
        })?;
        Ok(RequestIdentity { origin: origin.cloned(), principal: rules.authenticator.authenticate(&head.headers) })
    }

    /// Checks the host, which is quick if the connection named the same host before under the same rules.
    fn check_host(&self, head: &Parts, rules: &Arc<HttpRules>) -> Result<(), HttpRefusal> {
        let mut known = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        let good = known.as_ref().filter(|(by, _)| Arc::ptr_eq(by, rules)).map(|(_, host)| host);
        let host = rules.hosts.check_host(&head.uri, &head.headers, self.info.local.ip(), good)?;
        if good.is_none() {
            *known = Some((rules.clone(), host.clone()));
        }
        Ok(())
    }

    async fn route(
        &self,
        head: Parts,
        body: &mut Incoming,
        asks_first: bool,
        shown: AuthResult,
        busy: BusyGuard,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        if is_preflight(&head) {
            return Ok(preflight(&head.headers));
        }
        if head.uri.path() != "/mcp" {
            let response = self.page(&head, body, shown, busy).await?;
            // Discard a body that no page reads, so that the client gets to read the response.
            Self::discard_body(asks_first, body).await;
            return Ok(response);
        }
        let principal = self.admit(shown)?;
        self.claim_connection(&principal)?;
        if head.method == Method::POST {
            return post::answer(self, &principal, head, body, busy).await;
        }
        let served = head.method == Method::GET || head.method == Method::DELETE;
        let claim = VersionClaim::of(&head.headers);
        if !served || claim == VersionClaim::Modern {
            return Err(HttpRefusal::method(if claim == VersionClaim::Modern { "POST" } else { "GET, POST, DELETE" }));
        }
        claim.check_known()?;
        if head.method == Method::DELETE {
            return streams::delete(self, &principal, &head);
        }
        streams::open(self, &principal, &head, busy)
    }

    async fn page(
        &self,
        head: &Parts,
        body: &mut Incoming,
        shown: AuthResult,
        busy: BusyGuard,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        media::check_page(&head.method, &head.headers)?;
        // The page decides about a missing token; a wrong one is refused here.
        let principal = match shown {
            AuthResult::Missing => {
                // Reading, as a health probe does, is not limited because of other clients behind the same proxy.
                if !matches!(head.method, Method::GET | Method::HEAD) {
                    self.state.check_rate(None, self.info.peer())?;
                }
                None
            }
            // Health is reported to everyone, without limits.
            AuthResult::Known(principal) if matches!(head.uri.path(), "/health" | "/ready") => Some(principal),
            shown => {
                let principal = self.admit(shown)?;
                self.claim_connection(&principal)?;
                Some(principal)
            }
        };
        // A body takes memory that others need, so it is read only if the page accepts it from this principal.
        let bringer = principal
            .as_ref()
            .filter(|principal| self.state.pages.accepts_body(&head.method, head.uri.path(), principal));
        let mut slot = None;
        let content = match bringer {
            Some(principal) => {
                let slot = slot.insert(self.state.load.admit(principal)?);
                content::read(body, &self.state.rules().limits, &self.timer, slot).await?
            }
            None => {
                self.timer.mark_body_read();
                Vec::new()
            }
        };
        let page = pages::answer(self, head, content, principal.as_ref(), busy).await;
        drop(slot);
        page?.ok_or_else(|| HttpRefusal::new(StatusCode::NOT_FOUND, "there is no such page: MCP is at /mcp"))
    }

    /// Requires a valid token and checks the rate limit.
    fn admit(&self, shown: AuthResult) -> Result<Arc<Principal>, HttpRefusal> {
        let principal = shown.required();
        if principal.is_err() {
            self.state.load.unauthorized.fetch_add(1, Relaxed);
        }
        self.state.check_rate(principal.as_ref().ok(), self.info.peer())?;
        principal
    }

    /// Claims a place for the connection, now that its client is identified.
    fn claim_connection(&self, principal: &Arc<Principal>) -> Result<(), HttpRefusal> {
        let holder = match self.state.rules().authenticator.allows_anonymous() {
            true => ConnectionOwner::Peer(self.info.peer()),
            false => ConnectionOwner::Principal(principal.clone()),
        };
        self.state.load.connections.assign_owner(&self.connection, holder).map_err(|full| match full {
            LimitReached::All => HttpRefusal::busy("there are too many connections: close one, or try again later"),
            LimitReached::Own => {
                HttpRefusal::over_share("this principal has too many connections: close one, or try again later")
            }
        })
    }

    /// Marks the connection as one that only streams events.
    pub(super) fn mark_streaming(&self) -> Result<StreamingGuard, HttpRefusal> {
        let full = "too many connections are event streams: close one, or try again later";
        self.state.load.connections.mark_streaming(&self.connection).map_err(|_| HttpRefusal::busy(full))
    }

    async fn refuse(&self, refusal: HttpRefusal, asks_first: bool, body: &mut Incoming) -> Response<ResponseBody> {
        debug!(peer = %self.info.peer(), status = refusal.status.as_u16(), "request refused");
        // Do not wait again for a client that was late.
        if refusal.status != StatusCode::REQUEST_TIMEOUT {
            Self::discard_body(asks_first, body).await;
        }
        refusal.into_response()
    }

    /// Discards the rest of the body, unless the client waits for `100 Continue` and has sent nothing.
    async fn discard_body(asks_first: bool, body: &mut Incoming) {
        if !body.is_end_stream() && !asks_first {
            content::drain(body).await;
        }
    }
}

struct RequestIdentity {
    /// The origin of the page that sent the request, if there is one.
    origin: Option<HeaderValue>,
    principal: AuthResult,
}

fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Answers a CORS preflight; the origin has been checked before.
fn preflight(asked: &HeaderMap) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Adds the CORS headers that let the page read the response.
fn allow_origin(mut response: Response<ResponseBody>, origin: Option<HeaderValue>) -> Response<ResponseBody> {
    let Some(origin) = origin else { return response };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static("Mcp-Session-Id, Retry-After, WWW-Authenticate");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}
