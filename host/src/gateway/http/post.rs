//! POST to `/mcp`: a message or a batch, of either era.

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
use super::message_class::{self, MessageClass, VersionClaim};
use super::pending_response::{PendingResponse, ResponseStart};
use super::refusal::{HttpRefusal, JSON, PARSE_ERROR};
use super::routing::{ConnectionContext, HttpState};
use super::session::SessionGuard;
use super::sessions::SESSION_ID;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use super::{content, media};
use crate::gateway::client::{
    self, Admission, AdmissionGuard, ClientHandler, ClientSink, GatewayResponse, McpHeaders, Principal,
};
use crate::session::message::Places;
use crate::transport::BoxFuture;

/// Answers a POST. The head is given up before anything is waited for: the connection then reads on into the same memory.
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
    let claim = VersionClaim::of(&head.headers);
    // Who is modern by its header is not looked at: the client behind the door reads the message anyway, and one that
    // asks nothing gets no answer.
    let (message, ranges) =
        if claim == VersionClaim::Modern { (MODERN, None) } else { MessageClass::classify_and_locate(&text)? };
    let batch = message_class::is_batch(&text);
    if batch && (message.modern || !head.headers.contains_key(&SESSION_ID)) {
        return Err(message_class::no_batch());
    }
    let headers = message_class::headers(&head.headers);
    let stream = media::prefers_stream(&head.headers);
    let pass = names_listening(&headers).then(|| TokenDigest::of(&head.headers));
    let session = match message.modern || message.initialize {
        true => None,
        false => Some(claim.check_known().and_then(|()| state.sessions.find(&head.headers, principal))?),
    };
    drop(head);
    if message.modern {
        let client = state
            .client_factory
            .stateless_client(principal)
            .map_err(|why| HttpRefusal::from_gate_error(principal, &why))?;
        if !message.wants_response {
            return deliver(client, PostedMessage::new(text, headers), Arc::new(NullSink), slot).await;
        }
        let seat = match listens(&headers, &text) {
            true => Some((state.sessions.session_slot(principal)?, connection.mark_streaming()?)),
            false => None,
        };
        let channel = EventChannel::transient(state.rules().limits.kept_events, state.load.clone(), slot.usage());
        let revoked = pass.map(|pass| state.until_revoked(pass, Some(principal)));
        let exchange = Exchange { client, channel, session: None, slots: seat, revoked, primed: false, stream };
        let letter = PostedMessage { ranges, ..PostedMessage::new(text, headers) };
        return exchange.run(connection, letter, slot, busy).await;
    }
    let Some(session) = session else {
        return initialize(connection, principal, PostedMessage::new(text, headers), slot).await;
    };
    let client = session.session().client.clone();
    let batch = batch.then(|| Box::new(BatchAdmission::new(connection, principal)) as Box<dyn Admission>);
    let letter = PostedMessage { text, ranges, headers, batch };
    if !message.wants_response {
        let outlet = session.session().standalone_stream.clone();
        return deliver(client, letter, outlet, slot).await;
    }
    let channel = session.session().stream(slot.usage());
    let primed = claim == VersionClaim::Legacy { primed: true };
    let exchange = Exchange { client, channel, session: Some(session), slots: None, revoked: None, primed, stream };
    exchange.run(connection, letter, slot, busy).await
}

/// A message that wants an answer.
struct Exchange {
    client: Arc<dyn ClientHandler>,
    channel: Arc<EventChannel>,
    session: Option<SessionGuard>,
    /// The place of one who only listens, among the sessions and among the connections.
    slots: Option<(SessionSlot, StreamingGuard)>,
    /// When one who only listens may do so no longer.
    revoked: Option<BoxFuture<'static, ()>>,
    /// The client knows an event without data at the start of a stream.
    primed: bool,
    /// The client rather has a stream.
    stream: bool,
}

/// What is in a message, and on its envelope.
struct PostedMessage {
    text: String,
    ranges: Option<Places>,
    headers: McpHeaders,
    batch: Option<Box<dyn Admission>>,
}

impl PostedMessage {
    fn new(text: String, headers: McpHeaders) -> Self {
        PostedMessage { text, ranges: None, headers, batch: None }
    }

    /// The message for the client behind the door.
    fn into_message(self, sink: Arc<dyn ClientSink>) -> client::ClientMessage {
        let PostedMessage { text, ranges, headers, batch } = self;
        client::ClientMessage { text, ranges, headers: Some(headers), sink, batch }
    }
}

/// Lets the messages of a batch in. The first one has what the request as a whole was let in with.
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
        letter: PostedMessage,
        slot: RequestSlot,
        busy: BusyGuard,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        let keep_alive = connection.state.rules().limits.keep_alive;
        let work = self.client.handle(letter.into_message(self.channel.clone()));
        let resumable = self.session.is_some();
        let mut call = PendingResponse::new(work, self.channel, self.session, slot);
        match call.begin(keep_alive, self.stream).await {
            ResponseStart::Complete(answer) => Ok(plain(answer, call.take_slot())),
            ResponseStart::Stream => {
                let reader = call.channel().attach(None);
                let mut events = EventStream::new(EventSource::Stream(reader), keep_alive, busy);
                if let Some((slot, telling)) = self.slots {
                    // Who listens asks for nothing more, and may do so for days.
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

/// Opens a session. What is sent meanwhile goes to its stream for unasked messages, so that the answer is one text
/// and can bring the id.
async fn initialize(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    letter: PostedMessage,
    slot: RequestSlot,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let opening = connection.state.sessions.open(&*connection.state.client_factory, principal)?;
    let session = opening.session();
    let sink: Arc<dyn ClientSink> = session.standalone_stream.clone();
    let answer = session.client.clone().handle(letter.into_message(sink)).await;
    let opened = answer.as_ref().is_some_and(|answer| answer.status < 400 && !message_class::is_error(&answer.text));
    let mut response = plain(answer, Some(slot));
    if opened {
        let id = HeaderValue::try_from(opening.register().to_string()).expect("digits fit into a header");
        response.headers_mut().insert(SESSION_ID.clone(), id);
    }
    Ok(response)
}

/// A message that wants no answer, and gets one only where it cannot be taken.
async fn deliver(
    client: Arc<dyn ClientHandler>,
    letter: PostedMessage,
    sink: Arc<dyn ClientSink>,
    slot: RequestSlot,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let answer = client.handle(letter.into_message(sink)).await;
    Ok(plain(answer, Some(slot)))
}

/// An answer that is one text, or none.
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

/// Whether a request is one to listen, by its header: one that lies is refused behind the door. A large one counts as
/// any other.
fn listens(headers: &McpHeaders, text: &str) -> bool {
    let small = text.len() <= MOST_LISTEN && !text.trim_ascii_start().starts_with('[');
    small && names_listening(headers)
}

fn names_listening(headers: &McpHeaders) -> bool {
    headers.method.as_deref() == Some("subscriptions/listen")
}

fn not_text() -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, "the body is not UTF-8").code(PARSE_ERROR)
}

/// The largest request to listen, with the addresses of all that it is to hear of.
const MOST_LISTEN: usize = 320 << 10;
/// A message of 2026-07-28 of which nothing else is known.
const MODERN: MessageClass = MessageClass { wants_response: true, modern: true, initialize: false };
