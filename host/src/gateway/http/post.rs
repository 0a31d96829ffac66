//! Handles POST to `/mcp`: a message or a batch, of either era.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::body::{EventSource, EventStream, ResponseBody};
use super::channel::{EventChannel, NullSink};
use super::connections::StreamingGuard;
use super::load::{RequestSlot, SessionSlot};
use super::mcp_headers::{self, VersionClaim};
use super::pending_response::{PendingResponse, ResponseStart};
use super::refusal::{HttpRefusal, JSON};
use super::routing::{ConnectionContext, HttpState};
use super::session::SessionGuard;
use super::sessions::SESSION_ID;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use super::{content, media};
use crate::gateway::client::{
    Admission, AdmissionGuard, ClientHandler, ClientMessage, ClientSink, GatewayResponse, McpHeaders, NO_BATCH,
    Principal, VERSION_META,
};
use crate::rpc::Message;
use crate::rpc::code::{INVALID_REQUEST, PARSE_ERROR};
use crate::transport::BoxFuture;

/// Answers a POST; drops the head before waiting, so that the connection can reuse its read buffer.
pub(super) async fn answer(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    head: Parts,
    body: &mut Incoming,
    busy: BusyGuard,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let state = &*connection.state;
    media::check_post(&head.headers)?;
    let mut slot = state.load.admit(principal)?;
    let content = content::read(body, &state.rules().limits, &connection.timer, &mut slot).await?;
    let text = String::from_utf8(content).map_err(|_| not_text())?;
    let message = match Message::read(text) {
        Message::Unreadable(unreadable) => return Err(HttpRefusal::unreadable(&unreadable)),
        message => message,
    };
    let claim = VersionClaim::of(&head.headers);
    let is_modern = claim == VersionClaim::Modern || message.has_meta(VERSION_META);
    let is_batch = matches!(message, Message::Batch(_));
    if is_batch && (is_modern || !head.headers.contains_key(&SESSION_ID)) {
        return Err(HttpRefusal::new(StatusCode::BAD_REQUEST, NO_BATCH).code(INVALID_REQUEST));
    }
    let headers = mcp_headers::read(&head.headers);
    let stream = media::prefers_stream(&head.headers);
    let pass = names_listening(&headers).then(|| TokenDigest::of(&head.headers));
    let session = match is_modern || message.is_request_of("initialize") {
        true => None,
        false => Some(claim.check_known().and_then(|()| state.sessions.find(&head.headers, principal))?),
    };
    drop(head);
    if is_modern {
        let client = state
            .client_factory
            .stateless_client(principal)
            .map_err(|why| HttpRefusal::from_gate_error(principal, &why))?;
        let listens = listens(&headers, &message);
        let posted = PostedMessage { message, headers, batch: None };
        if !posted.message.wants_answer() {
            return deliver(client, posted, Arc::new(NullSink), slot).await;
        }
        let slots = match listens {
            true => Some((state.sessions.session_slot(principal)?, connection.mark_streaming()?)),
            false => None,
        };
        let channel = EventChannel::transient(state.rules().limits.kept_events, state.load.clone(), slot.usage());
        let revoked = pass.map(|pass| state.until_revoked(pass, Some(principal)));
        let exchange = Exchange { client, channel, session: None, slots, revoked, primed: false, stream };
        return exchange.run(connection, posted, slot, busy).await;
    }
    let Some(session) = session else {
        return initialize(connection, principal, PostedMessage { message, headers, batch: None }, slot).await;
    };
    let client = session.session().client.clone();
    let batch = is_batch.then(|| Box::new(BatchAdmission::new(connection, principal)) as Box<dyn Admission>);
    let posted = PostedMessage { message, headers, batch };
    if !posted.message.wants_answer() {
        let sink = session.session().standalone_stream.clone();
        return deliver(client, posted, sink, slot).await;
    }
    let channel = session.session().stream(slot.usage());
    let primed = claim == VersionClaim::Legacy { primed: true };
    let exchange = Exchange { client, channel, session: Some(session), slots: None, revoked: None, primed, stream };
    exchange.run(connection, posted, slot, busy).await
}

/// A message that expects a response, with its way back.
struct Exchange {
    client: Arc<dyn ClientHandler>,
    channel: Arc<EventChannel>,
    session: Option<SessionGuard>,
    /// For a listener without a session: its slots among the sessions and the streaming connections.
    slots: Option<(SessionSlot, StreamingGuard)>,
    /// Completes when a listener's token is revoked.
    revoked: Option<BoxFuture<'static, ()>>,
    /// The client understands an event without data at the start of a stream.
    primed: bool,
    /// The client prefers a stream.
    stream: bool,
}

/// A message with its headers and, for a batch, its admission.
struct PostedMessage {
    message: Message,
    headers: McpHeaders,
    batch: Option<Box<dyn Admission>>,
}

impl PostedMessage {
    /// Passes the message to a client handler.
    fn handle(
        self,
        client: Arc<dyn ClientHandler>,
        sink: Arc<dyn ClientSink>,
    ) -> BoxFuture<'static, Option<GatewayResponse>> {
        let PostedMessage { message, headers, batch } = self;
        client.handle(ClientMessage { message, headers: Some(headers), sink, batch })
    }
}

/// Admits the messages of a batch; the request's own admission covers the first one.
struct BatchAdmission {
    state: Arc<HttpState>,
    principal: Arc<Principal>,
    peer: IpAddr,
    first: AtomicBool,
}

impl BatchAdmission {
    fn new(connection: &ConnectionContext, principal: &Arc<Principal>) -> Self {
        let (state, principal) = (connection.state.clone(), principal.clone());
        BatchAdmission { state, principal, peer: connection.info.peer(), first: AtomicBool::new(true) }
    }
}

impl Admission for BatchAdmission {
    fn admit(&self, _: bool, id: Option<&str>) -> Result<AdmissionGuard, String> {
        if self.first.swap(false, Relaxed) {
            return Ok(Box::new(()));
        }
        let state = &self.state;
        let slot = state.check_rate(Some(&self.principal), self.peer).and_then(|()| state.load.admit(&self.principal));
        slot.map(|slot| Box::new(slot) as _).map_err(|refusal| refusal.answer(id))
    }
}

impl Exchange {
    async fn run(
        self,
        connection: &ConnectionContext,
        posted: PostedMessage,
        slot: RequestSlot,
        busy: BusyGuard,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        let keep_alive = connection.state.rules().limits.keep_alive;
        let work = posted.handle(self.client, self.channel.clone());
        let resumable = self.session.is_some();
        let mut call = PendingResponse::new(work, self.channel, self.session, slot);
        match call.begin(keep_alive, self.stream).await {
            ResponseStart::Complete(answer) => Ok(plain(answer, call.take_slot())),
            ResponseStart::Stream => {
                let reader = call.channel().attach(None);
                let mut events = EventStream::new(EventSource::Stream(reader), keep_alive, busy);
                if let Some((slot, telling)) = self.slots {
                    // A listener sends no more requests and may stay for days, so it holds no request slot.
                    drop(call.take_slot());
                    events = events.with_slot(slot).with_streaming(telling);
                }
                if let Some(over) = self.revoked {
                    events = events.until(over);
                }
                if resumable {
                    events = events.with_opening(call.channel().opening(self.primed));
                }
                Ok(events.with_pending(call).into_response())
            }
        }
    }
}

/// Opens a session; messages sent meanwhile go to its standalone stream, so the response is plain JSON with the id.
async fn initialize(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    posted: PostedMessage,
    slot: RequestSlot,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let opening = connection.state.sessions.open(&*connection.state.client_factory, principal)?;
    let session = opening.session();
    let sink: Arc<dyn ClientSink> = session.standalone_stream.clone();
    let answer = posted.handle(session.client.clone(), sink).await;
    let opened = answer.as_ref().is_some_and(|answer| !answer.is_error);
    let mut response = plain(answer, Some(slot));
    if opened {
        let id = HeaderValue::try_from(opening.register().to_string()).expect("digits fit into a header");
        response.headers_mut().insert(SESSION_ID.clone(), id);
    }
    Ok(response)
}

/// Delivers a message that expects no response; it gets one only if it is refused.
async fn deliver(
    client: Arc<dyn ClientHandler>,
    posted: PostedMessage,
    sink: Arc<dyn ClientSink>,
    slot: RequestSlot,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let answer = posted.handle(client, sink).await;
    Ok(plain(answer, Some(slot)))
}

/// Builds a response that is one JSON text, or empty.
fn plain(answer: Option<GatewayResponse>, slot: Option<RequestSlot>) -> Response<ResponseBody> {
    let Some(GatewayResponse { text, status, .. }) = answer else {
        let mut response = Response::new(ResponseBody::Empty);
        *response.status_mut() = StatusCode::ACCEPTED;
        return response;
    };
    let mut response = Response::new(ResponseBody::tracked(text, slot));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Reports whether the headers ask to listen and the message is small; the handler refuses headers that lie.
fn listens(headers: &McpHeaders, message: &Message) -> bool {
    message.text().len() <= MOST_LISTEN && names_listening(headers)
}

fn names_listening(headers: &McpHeaders) -> bool {
    headers.method.as_deref() == Some("subscriptions/listen")
}

fn not_text() -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, "the body is not UTF-8").code(PARSE_ERROR)
}

/// The largest request to listen, in bytes, with the URIs of all resources that it subscribes to.
const MOST_LISTEN: usize = 320 << 10;
