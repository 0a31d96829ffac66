//! Handles POST to `/mcp`: a message or a batch, of either era, and the response while the client handler produces it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::body::{EventSource, EventStream, ResponseBody};
use super::channel::{EventChannel, NullSink};
use super::connections::StreamingGuard;
use super::context::ConnectionContext;
use super::mcp_headers::{self, VersionClaim};
use super::pending_response::{PendingResponse, ResponseStart};
use super::sessions::SESSION_ID;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use super::{content, header_checks};
use crate::gateway::choice::parse_header;
use crate::gateway::client::{
    Admission, ClientMessage, ClientSink, GatewayResponse, NO_BATCH, Principal, VERSION_META,
};
use crate::gateway::load::{RequestSlot, SessionSlot};
use crate::gateway::peer_seal::UnsentMessage;
use crate::gateway::refusal::RequestRefusal;
use crate::gateway::replica::{Replica, ReplicaId};
use crate::rpc::code::{INVALID_REQUEST, PARSE_ERROR};
use crate::rpc::{Message, ResponseId};
use crate::transport::BoxFuture;

/// Answers a POST; drops the head before waiting, so that the connection can reuse its read buffer.
pub(super) async fn answer(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    head: Parts,
    body: &mut Incoming,
    busy: BusyGuard,
) -> Result<Response<ResponseBody>, RequestRefusal> {
    let state = &*connection.state;
    header_checks::check_post(&head.headers)?;
    let mut slot = state.parts.load.admit(principal)?;
    let content = content::read(body, &state.rules().limits, &connection.timer, &mut slot).await?;
    let not_text = |_| RequestRefusal::new(StatusCode::BAD_REQUEST, "the body is not UTF-8").code(PARSE_ERROR);
    let text = String::from_utf8(content).map_err(not_text)?;
    let message = match Message::read(text) {
        Message::Unreadable(unreadable) => return Err(RequestRefusal::unreadable(&unreadable)),
        message => message,
    };
    let claim = VersionClaim::of(&head.headers);
    let is_modern = claim == VersionClaim::Modern || message.has_meta(VERSION_META);
    let is_batch = matches!(message, Message::Batch(_));
    if is_batch && (is_modern || !head.headers.contains_key(&SESSION_ID)) {
        return Err(RequestRefusal::new(StatusCode::BAD_REQUEST, NO_BATCH).code(INVALID_REQUEST));
    }
    let headers = mcp_headers::read(&head.headers);
    let selection = headers.selection.clone();
    let stream = header_checks::prefers_stream(&head.headers);
    // The handler refuses headers that lie.
    let names_listening = headers.method.as_deref() == Some("subscriptions/listen");
    let pass = names_listening.then(|| TokenDigest::of(&head.headers));
    let session = match is_modern || message.is_request_of("initialize") {
        true => None,
        false => {
            claim.check_known()?;
            let (sessions, factory) = (&state.parts.sessions, &*state.client_factory);
            let found = sessions.find(factory, &head.headers, principal).await;
            let session = found.map_err(|refusal| explain_answer(factory.replica(), &message, refusal))?;
            Some((session, sessions.next_stream(factory, message.request_id())))
        }
    };
    drop(head);
    let listens = names_listening && message.text().len() <= MOST_LISTEN;
    let wants_answer = message.wants_answer();
    let batch = is_batch.then(|| batch_admission(connection, principal));
    let posted = |sink: Arc<dyn ClientSink>| ClientMessage { message, headers: Some(headers), sink, batch };
    if is_modern {
        let bad_choice = |why| RequestRefusal::new(StatusCode::BAD_REQUEST, why).code(INVALID_REQUEST);
        let choice = selection.as_deref().map(parse_header).transpose().map_err(bad_choice)?;
        let client = state.client_factory.stateless_client(principal, choice);
        let client = client.map_err(|why| RequestRefusal::from_gate_error(principal, &why))?;
        if !wants_answer {
            return Ok(plain(client.handle(posted(Arc::new(NullSink))).await, Some(slot)));
        }
        let slots = match listens {
            true => Some((state.parts.sessions.session_slot(principal)?, connection.mark_streaming()?)),
            false => None,
        };
        let kept_events = state.rules().limits.streams.kept_events;
        let channel = EventChannel::new(None, kept_events, state.parts.load.clone(), slot.usage.clone());
        let work = Some(client.handle(posted(channel.clone())));
        let call = PendingResponse {
            future: work,
            channel,
            session: None,
            is_primed: false,
            is_kept: false,
            slot: Some(slot),
        };
        let revoked = pass.map(|pass| state.until_revoked(pass, Some(principal)));
        return Ok(respond(connection, call, slots, revoked, stream, busy).await);
    }
    let Some((session, stream_id)) = session else { return initialize(connection, principal, posted, slot).await };
    let client = session.0.client.clone();
    if !wants_answer {
        let sink = session.0.standalone_stream.clone();
        return Ok(plain(client.handle(posted(sink)).await, Some(slot)));
    }
    let channel = session.0.stream(stream_id, slot.usage.clone());
    let work = Some(client.handle(posted(channel.clone())));
    let is_primed = claim == VersionClaim::Legacy { primed: true };
    let call =
        PendingResponse { future: work, channel, session: Some(session), is_primed, is_kept: false, slot: Some(slot) };
    Ok(respond(connection, call, None, None, stream, busy).await)
}

/// Explains a refused answer to a question of another replica that shares the store and no keys: neither its sessions nor
/// its messages are known here.
fn explain_answer(replica: &Replica, message: &Message, refusal: RequestRefusal) -> RequestRefusal {
    let Message::Response(response) = message else { return refusal };
    let ResponseId::Number(id) = response.id() else { return refusal };
    let is_other = ReplicaId::of_question(id).is_some_and(|asker| asker != replica.id);
    match replica.cannot_tell() {
        Some(why @ UnsentMessage::NoKeys) if is_other => RequestRefusal::new(StatusCode::CONFLICT, why.of_answer()),
        _ => refusal,
    }
}

/// Admits the messages of a batch; the request's own admission covers the first one.
fn batch_admission(connection: &ConnectionContext, principal: &Arc<Principal>) -> Admission {
    let (state, principal, peer) = (connection.state.clone(), principal.clone(), connection.info.peer.ip());
    let first = AtomicBool::new(true);
    Box::new(move |_, id| {
        let (state, principal, is_first) = (state.clone(), principal.clone(), first.swap(false, Relaxed));
        Box::pin(async move {
            if is_first {
                return Ok(Box::new(()) as _);
            }
            let on_store_failure = state.rules().on_store_failure;
            let counted = state.check_rate(Some(&principal), peer, on_store_failure).await;
            let slot = counted.and_then(|()| state.parts.load.admit(&principal));
            slot.map(|slot| Box::new(slot) as _).map_err(|refusal| refusal.answer(id))
        })
    })
}

/// Waits for the form of the response, and builds it. `slots` are those of a listener without a session, and `revoked`
/// completes when its token is revoked. `stream` says that the client prefers a stream.
async fn respond(
    connection: &ConnectionContext,
    mut call: PendingResponse,
    slots: Option<(SessionSlot, StreamingGuard)>,
    revoked: Option<BoxFuture<'static, ()>>,
    stream: bool,
    busy: BusyGuard,
) -> Response<ResponseBody> {
    let keep_alive = connection.state.rules().limits.streams.keep_alive;
    if let ResponseStart::Complete(answer) = call.begin(keep_alive, stream).await {
        return plain(answer, call.slot.take());
    }
    let reader = call.channel.attach(None);
    if slots.is_some() {
        // A subscriber sends no more requests and may stay for days, so it holds no request slot.
        drop(call.slot.take());
    }
    let mut events = EventStream::new(EventSource::Stream(reader), keep_alive, (slots, busy));
    events.stopped = revoked;
    events.opening = call.session.is_some().then(|| call.channel.opening(call.is_primed));
    events.pending = Some(call);
    events.into_response()
}

/// Opens a session; messages sent meanwhile go to its standalone stream, so the response is plain JSON with the id.
async fn initialize(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    posted: impl FnOnce(Arc<dyn ClientSink>) -> ClientMessage,
    slot: RequestSlot,
) -> Result<Response<ResponseBody>, RequestRefusal> {
    let opening = connection.state.parts.sessions.open(&*connection.state.client_factory, principal)?;
    let session = opening.session();
    let answer = session.client.clone().handle(posted(session.standalone_stream.clone())).await;
    let opened = answer.as_ref().is_some_and(|answer| !answer.is_error);
    let mut response = plain(answer, Some(slot));
    if opened {
        let id = opening.register(connection.state.client_factory.replica())?;
        response.headers_mut().insert(SESSION_ID.clone(), id);
    }
    Ok(response)
}

/// Builds a response that is one JSON text, or empty.
fn plain(answer: Option<GatewayResponse>, slot: Option<RequestSlot>) -> Response<ResponseBody> {
    let Some(GatewayResponse { text, status, .. }) = answer else { return ResponseBody::empty(StatusCode::ACCEPTED) };
    ResponseBody::tracked(text, slot).json(StatusCode::from_u16(status).unwrap_or(StatusCode::OK))
}

/// The largest request to listen, in bytes, with the URIs of all resources that it subscribes to.
const MOST_LISTEN: usize = 320 << 10;
