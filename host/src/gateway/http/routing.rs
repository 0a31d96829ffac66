//! The first steps of each request: checks its host, origin, token and rate, and routes it to the code that answers it.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, EXPECT, HeaderMap, HeaderValue, VARY,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use serde_json::json;
use serde_json::value::RawValue;
use tracing::debug;

use super::body::{EventSource, EventStream, ResponseBody};
use super::channel::EventChannel;
use super::context::{ConnectionContext, HttpState, ServerParts};
use super::event_id::StreamId;
use super::mcp_headers::VersionClaim;
use super::timer::BusyGuard;
use super::tokens::{AuthResult, TokenDigest};
use super::{content, header_checks, pages, post};
use crate::config::model::StoreFailurePolicy;
use crate::failure::RpcError;
use crate::gateway::client::Principal;
use crate::gateway::load::RefusalReason;
use crate::gateway::refusal::RequestRefusal;
use crate::json::to_raw;
use crate::logic::types::execution::Code;
use crate::rpc;
use crate::rpc::code::INTERNAL_ERROR;
use crate::words::NamedCase;

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
        let for_mcp = head.uri.path() == MCP;
        match self.identify(&head) {
            Ok((origin, principal)) => {
                let response = match self.route(head, &mut body, asks_first, principal, busy).await {
                    Ok(response) => response,
                    Err(refusal) => self.refuse(refusal, for_mcp, asks_first, &mut body).await,
                };
                Ok(allow_origin(response, origin))
            }
            Err(refusal) => Ok(self.refuse(refusal, for_mcp, asks_first, &mut body).await),
        }
    }

    /// Checks the host of a request, and returns the origin of the page that sent it, if there is one, and the principal.
    fn identify(&self, head: &Parts) -> Result<(Option<HeaderValue>, AuthResult), RequestRefusal> {
        let state = &*self.state;
        let rules = state.rules();
        header_checks::check_single(&head.headers)?;
        let checked = rules.hosts.check_host(&head.uri, &head.headers, self.info.local.ip());
        // A cluster probes an address that nobody has configured. Whoever else names a foreign host hears no more than
        // a client without a token.
        let is_foreign_probe = checked.is_err() && is_probe(head);
        let checked = if is_foreign_probe { Ok(()) } else { checked };
        let origin = checked.and_then(|()| rules.hosts.check_origin(head, &self.info)).inspect_err(|_| {
            state.parts.load.count_refusal(RefusalReason::Foreign);
        })?;
        let shown = match is_foreign_probe {
            true => AuthResult::Missing,
            false => rules.authenticator.authenticate(&head.headers),
        };
        Ok((origin.cloned(), shown))
    }

    async fn route(
        &self,
        head: Parts,
        body: &mut Incoming,
        asks_first: bool,
        shown: AuthResult,
        busy: BusyGuard,
    ) -> Result<Response<ResponseBody>, RequestRefusal> {
        if head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return Ok(preflight(&head.headers));
        }
        if head.uri.path() != MCP {
            let response = self.page(&head, body, shown, busy).await?;
            // Discard a body that no page reads, so that the client gets to read the response.
            Self::discard_body(asks_first, body).await;
            return Ok(response);
        }
        let on_store_failure = self.state.rules().on_store_failure;
        let principal = self.admit(shown, on_store_failure).await?;
        if head.method == Method::POST {
            return post::answer(self, &principal, head, body, busy).await;
        }
        let claim = VersionClaim::of(&head.headers);
        let allowed = if claim == VersionClaim::Modern { "POST" } else { "GET, POST, DELETE" };
        if claim == VersionClaim::Modern || !matches!(head.method, Method::GET | Method::DELETE) {
            return Err(RequestRefusal::method(allowed));
        }
        claim.check_known()?;
        if head.method == Method::DELETE {
            let (sessions, factory) = (&self.state.parts.sessions, &*self.state.client_factory);
            let session = sessions.find(factory, &head.headers, &principal).await?;
            sessions.delete(factory, &session.0).await;
            return Ok(ResponseBody::empty(StatusCode::NO_CONTENT));
        }
        open_stream(self, &principal, &head, busy).await
    }

    async fn page(
        &self,
        head: &Parts,
        body: &mut Incoming,
        shown: AuthResult,
        busy: BusyGuard,
    ) -> Result<Response<ResponseBody>, RequestRefusal> {
        header_checks::check_page(&head.method, &head.headers)?;
        // Operators must see what is wrong when the store is.
        let on_store_failure = StoreFailurePolicy::Open;
        // The page decides about a missing token; a wrong one is refused here.
        let principal = match shown {
            AuthResult::Missing => {
                // Reading, as a health probe does, is not limited because of other clients behind the same proxy.
                if !matches!(head.method, Method::GET | Method::HEAD) {
                    self.state.check_rate(None, self.info.peer.ip(), on_store_failure).await?;
                }
                None
            }
            // Health is reported to everyone, without limits.
            AuthResult::Known(principal) if is_health_page(head) => Some(principal),
            shown => Some(self.admit(shown, on_store_failure).await?),
        };
        // A body takes memory that others need, so it is read only if the page accepts it from this principal.
        let bringer = principal
            .as_ref()
            .filter(|principal| self.state.pages.accepts_body(&head.method, head.uri.path(), principal));
        let mut slot = None;
        let content = match bringer {
            Some(principal) => {
                let slot = slot.insert(self.state.parts.load.admit(principal)?);
                content::read(body, &self.state.rules().limits, &self.timer, slot).await?
            }
            None => {
                self.timer.mark_body_read();
                Vec::new()
            }
        };
        let page = pages::answer(self, head, content, principal.as_ref(), busy).await;
        drop(slot);
        page?.ok_or_else(|| RequestRefusal::new(StatusCode::NOT_FOUND, "there is no such page: MCP is at /mcp"))
    }

    /// Requires a valid token, checks the rate limit, and claims a place for the connection, whose client is now known.
    async fn admit(
        &self,
        shown: AuthResult,
        on_store_failure: StoreFailurePolicy,
    ) -> Result<Arc<Principal>, RequestRefusal> {
        let ServerParts { load, connections, .. } = &*self.state.parts;
        let principal = shown.required().inspect_err(|_| load.count_refusal(RefusalReason::Unauthorized));
        self.state.check_rate(principal.as_ref().ok(), self.info.peer.ip(), on_store_failure).await?;
        let principal = principal?;
        let owner = self.state.client_key(Some(&principal), self.info.peer.ip());
        connections.assign_owner(&self.connection, owner).map_err(|reached| {
            let all = "there are too many connections: close one, or try again later";
            RequestRefusal::limit(
                reached,
                all,
                "this principal has too many connections: close one, or try again later",
            )
        })?;
        Ok(principal)
    }

    async fn refuse(
        &self,
        refusal: RequestRefusal,
        for_mcp: bool,
        asks_first: bool,
        body: &mut Incoming,
    ) -> Response<ResponseBody> {
        debug!(peer = %self.info.peer.ip(), status = refusal.status.as_u16(), "request refused");
        // Do not wait again for a client that was late.
        if refusal.status != StatusCode::REQUEST_TIMEOUT {
            Self::discard_body(asks_first, body).await;
        }
        ResponseBody::refusal(refusal, for_mcp)
    }

    /// Discards the rest of the body, unless the client waits for `100 Continue` and has sent nothing.
    async fn discard_body(asks_first: bool, body: &mut Incoming) {
        if !body.is_end_stream() && !asks_first {
            content::drain(body).await;
        }
    }
}

/// Reports whether a request is a health probe.
fn is_probe(head: &Parts) -> bool {
    is_health_page(head) && matches!(head.method, Method::GET | Method::HEAD)
}

fn is_health_page(head: &Parts) -> bool {
    matches!(head.uri.path(), "/health" | "/ready")
}

/// Answers a CORS preflight; the origin has been checked before.
fn preflight(asked: &HeaderMap) -> Response<ResponseBody> {
    let mut response = ResponseBody::empty(StatusCode::NO_CONTENT);
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

/// Opens the standalone stream, replacing an open one, or resumes a stream after an event. What this replica does not
/// have is replaced by words that say so.
async fn open_stream(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    head: &Parts,
    busy: BusyGuard,
) -> Result<Response<ResponseBody>, RequestRefusal> {
    header_checks::check_get(&head.headers)?;
    let state = &*connection.state;
    let session = state.parts.sessions.find(&*state.client_factory, &head.headers, principal).await?;
    let last = match head.headers.get("last-event-id") {
        None => None,
        Some(id) => Some(id.to_str().ok().and_then(StreamId::parse_event).ok_or_else(unknown_event)?),
    };
    let kept = last.as_ref().and_then(|(stream, event)| {
        let channel = session.0.find(stream)?;
        (!channel.has_forgotten(*event)).then_some((channel, Some(*event)))
    });
    let (channel, after) = match (kept, last) {
        (Some(kept), _) => kept,
        (None, Some((StreamId { request: Some(request), .. }, _))) => (lost_response(state, &request), None),
        (None, last) => {
            if last.is_some() {
                session.0.client.announce_missed();
            }
            (session.0.standalone_stream.clone(), None)
        }
    };
    let is_standalone = Arc::ptr_eq(&channel, &session.0.standalone_stream);
    let streaming = connection.mark_streaming()?;
    let reader = channel.attach(after);
    connection.timer.mark_body_read();
    let held = (session, streaming, busy);
    let mut events = EventStream::new(EventSource::Stream(reader), state.rules().limits.streams.keep_alive, held);
    let primed = VersionClaim::of(&head.headers) == VersionClaim::Legacy { primed: true };
    events.opening = Some(channel.opening(primed));
    let pass = TokenDigest::of(&head.headers);
    events.stopped = Some(match is_standalone {
        true => state.until_revoked(pass, Some(principal)),
        // The response to a request ends its stream, as it ends that of the POST.
        false => Box::pin(state.parts.rules.clone().wait_revoked(pass, principal.clone())),
    });
    Ok(events.into_response())
}

/// Returns a stream that says that the response to a request is lost, and that the request may have been executed.
fn lost_response(state: &HttpState, request: &RawValue) -> Arc<EventChannel> {
    let channel = EventChannel::new(None, 1, state.parts.load.clone(), None);
    let data = Some(to_raw(&json!({"code": Code::OutcomeUnknown.name()})));
    let error = RpcError { data, ..RpcError::new(INTERNAL_ERROR, LOST) };
    channel.finish(Some(rpc::error(Some(request.get()), &error)));
    channel
}

fn unknown_event() -> RequestRefusal {
    let message = "this Last-Event-ID is not from this gateway: leave the header out";
    RequestRefusal::new(StatusCode::BAD_REQUEST, message)
}

/// The error for a client that asks for a response which this replica does not have.
const LOST: &str = "the response to this request is lost: another replica of the gateway has it, or it was kept for too \
                    long; the request may have been executed, so its outcome is unknown";
/// The path of MCP; all other paths are pages.
const MCP: &str = "/mcp";
