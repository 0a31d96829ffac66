//! Messages between replicas: what a client says to one replica and another one waits for, and what all must know.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use super::channel::NullSink;
use super::context::HttpState;
use crate::gateway::client::{ClientMessage, McpHeaders};
use crate::gateway::peer_message::PeerMessage;
use crate::gateway::replica::Replica;
use crate::rpc::Message;
use crate::store::StoreMessage;

/// Carries out the messages of other replicas until the server stops.
pub(super) async fn listen(state: Arc<HttpState>) {
    let store = &state.client_factory.replica().store;
    let mut messages = store.messages();
    while let Some(message) = messages.recv().await {
        match message {
            // Messages may have been missed before.
            StoreMessage::Joined => load_ended(&state).await,
            StoreMessage::Text(text) => match serde_json::from_str(&text) {
                Ok(message) => carry_out(&state, message).await,
                Err(error) => warn!("a message of another replica cannot be read: {error}"),
            },
        }
    }
}

/// Learns which sessions have ended, as soon as the store says it.
async fn load_ended(state: &HttpState) {
    loop {
        match state.client_factory.replica().store.ended_sessions().await {
            Ok(ended) => return ended.iter().for_each(|(name, rest)| state.parts.sessions.note_end(name, *rest)),
            Err(error) => debug!("ended sessions are not known yet: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn carry_out(state: &Arc<HttpState>, message: PeerMessage) {
    match message {
        PeerMessage::Forwarded { session, message } => {
            let Some(session) = state.parts.sessions.named(&session) else { return };
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
        PeerMessage::Changed { session } => {
            if let Some(session) = state.parts.sessions.named(&session) {
                session.client.clone().sync_changes().await;
            }
        }
        PeerMessage::Ended { session, rest } => {
            debug!("a session was ended through another replica");
            state.parts.sessions.note_end(&session, Duration::from_secs(rest));
        }
    }
}

/// Tells all replicas, and those that start later, that a session has ended.
pub(super) async fn announce_end(replica: &Replica, session: &str, rest: Duration) {
    if !replica.store.is_shared() {
        return;
    }
    let announce = async {
        replica.store.end_session(session, rest).await?;
        let message = PeerMessage::Ended { session: session.to_owned(), rest: rest.as_secs() };
        replica.store.send(None, &message.to_text()).await
    };
    if let Err(error) = announce.await {
        warn!("other replicas do not know that a session has ended: {error}");
    }
}

/// How long to wait before the store is asked again.
const PAUSE: Duration = Duration::from_secs(1);
