//! Messages between replicas: what a client says to one replica and another one waits for, and what all must know.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, error, warn};

use super::channel::NullSink;
use super::context::HttpState;
use super::session_id::LIFETIME;
use crate::gateway::client::{ClientMessage, McpHeaders};
use crate::gateway::peer_message::PeerMessage;
use crate::gateway::replica::Replica;
use crate::rpc::Message;
use crate::store::StoreMessage;

/// Carries out the messages of other replicas that are about no session of HTTP, until it is dropped.
pub(in crate::gateway) async fn listen_without_sessions(replica: Arc<Replica>) {
    listen(replica, None).await;
}

/// Carries out the messages of other replicas until it is dropped. `state` has the sessions that some of them are about,
/// if there are any.
pub(super) async fn listen(replica: Arc<Replica>, state: Option<Arc<HttpState>>) {
    loop {
        listen_once(&replica, state.as_ref()).await;
        // The store ended the subscription, or another listener has it still.
        sleep(PAUSE).await;
    }
}

/// Carries out the messages of other replicas until there can be none any more.
async fn listen_once(replica: &Arc<Replica>, state: Option<&Arc<HttpState>>) {
    let mut messages = replica.store.messages();
    // When to ask again which sessions have ended. Messages do not wait for the answer.
    let mut ask_ended_at = None;
    loop {
        let message = tokio::select! {
            message = messages.recv() => {
                if matches!(message, Some(StoreMessage::Joined)) {
                    replica.note_listening();
                }
                message
            }
            () = wait_until(ask_ended_at) => Some(StoreMessage::Joined),
        };
        match message {
            None => return,
            // Messages may have been missed before.
            Some(StoreMessage::Joined) => {
                let is_known = match state {
                    Some(state) => load_ended(state).await,
                    None => true,
                };
                ask_ended_at = if is_known { None } else { Some(Instant::now() + PAUSE) };
            }
            Some(StoreMessage::Text(text)) => {
                if let Some(message) = replica.read_message(&text) {
                    carry_out_apart(replica.clone(), state.cloned(), message).await;
                }
            }
        }
    }
}

/// Waits until a time; for ever without one.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Learns which sessions have ended; returns whether the store said it.
async fn load_ended(state: &HttpState) -> bool {
    let replica = state.client_factory.replica();
    let ended = match replica.store.ended_sessions().await {
        Ok(ended) => ended,
        Err(error) => {
            debug!("ended sessions are not known yet: {error}");
            return false;
        }
    };
    let keys = replica.keys();
    let mut unmarked = 0;
    for (mark, rest) in &ended {
        match keys.ended_session(mark) {
            Some(session) => state.parts.sessions.note_end(session, (*rest).min(LIFETIME)),
            None => unmarked += 1,
        }
    }
    if unmarked > 0 {
        warn!(
            "{unmarked} sessions that the store calls ended go on: none of our gateway.session_keys marked their end"
        );
    }
    true
}

/// Carries out a message in a task of its own, so that the listening goes on whatever becomes of it.
async fn carry_out_apart(replica: Arc<Replica>, state: Option<Arc<HttpState>>, message: PeerMessage) {
    let mut task = JoinSet::new();
    task.spawn(async move { timeout(MESSAGE_TIMEOUT, carry_out(&replica, state.as_ref(), message)).await });
    match task.join_next().await {
        Some(Err(failed)) if failed.is_panic() => {
            error!("a message of another replica ended in a panic: this is a bug in toolgate");
        }
        Some(Ok(Err(_))) => warn!("a message of another replica was not carried out within {MESSAGE_TIMEOUT:?}"),
        _ => {}
    }
}

async fn carry_out(replica: &Replica, state: Option<&Arc<HttpState>>, message: PeerMessage) {
    match (message, state) {
        (PeerMessage::Reset { principal }, _) => replica.store.forget_here(principal.as_deref()),
        (PeerMessage::Adopted { epoch }, _) => replica.store.accept_epoch(&epoch),
        (_, None) => {}
        (PeerMessage::Ended { session, rest }, Some(state)) => {
            debug!("a session was ended through another replica");
            state.parts.sessions.note_end(&session, Duration::from_secs(rest).min(LIFETIME));
        }
        (PeerMessage::Changed { session }, Some(state)) => {
            if let Some(session) = state.parts.sessions.named(&session) {
                session.client.clone().sync_changes().await;
            }
        }
        (PeerMessage::Forwarded { session, message }, Some(state)) => forward(state, &session, message).await,
    }
}

/// Hands a message of a client to its session, which waits for it here.
async fn forward(state: &HttpState, session: &str, message: String) {
    let Some(session) = state.parts.sessions.named(session) else { return };
    let message = Message::read(message);
    // A request shows a token first, so none comes this way.
    if !matches!(message, Message::Response(_) | Message::Notification(_)) {
        return warn!("another replica forwarded a message that is neither an answer nor a notification");
    }
    let message =
        ClientMessage { message, headers: Some(McpHeaders::default()), sink: Arc::new(NullSink), batch: None };
    // Answers and notifications have no response.
    drop(session.client.clone().handle(message).await);
}

/// Tells all replicas, and those that start later, that a session has ended.
pub(super) async fn announce_end(replica: &Replica, session: &str, rest: Duration) {
    // Without common keys, no other replica knows the session.
    if replica.cannot_tell().is_some() {
        return;
    }
    let Some(mark) = replica.keys().mark_ended(session) else { return };
    if let Err(error) = replica.store.end_session(session, &mark, rest).await {
        warn!("replicas that start later do not know that a session has ended: {error}");
    }
    let message = PeerMessage::Ended { session: session.to_owned(), rest: rest.as_secs() };
    if let Err(error) = replica.tell(None, message).await {
        warn!("other replicas do not know that a session has ended: {error}");
    }
}

/// How long to wait before the store is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long carrying out one message may take.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
