//! What a client of the initialize era changes about its session after `initialize`, for other replicas: its log level
//! and its subscriptions, which the store keeps; and messages that belong to requests which other replicas work on.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::sources::watch;
use super::{ClientSession, Envelope};
use crate::failure::RpcError;
use crate::gateway::client::GatewayResponse;
use crate::gateway::peer_message::PeerMessage;
use crate::gateway::peer_seal::UnsentMessage;
use crate::gateway::replica::ReplicaId;
use crate::lock::lock;
use crate::rpc::code::INTERNAL_ERROR;
use crate::rpc::{Notification, Response};
use crate::session::LogLevel;

/// What a client has changed about its session.
#[derive(Default, Serialize, Deserialize)]
struct SessionChanges {
    /// The lowest level of log messages that it wants.
    log_level: Option<String>,
    /// The resources that it subscribed to.
    resources: Vec<String>,
}

impl ClientSession {
    /// Takes over what the client has changed through other replicas.
    pub(super) async fn load_changes(self: &Arc<Self>) {
        let (Some(name), true) = (self.gate.session(), self.gateway.replica.store.is_shared()) else { return };
        let sealed = match self.gateway.replica.store.session(name).await {
            Ok(None) => return,
            Ok(Some(sealed)) => sealed,
            Err(error) => return warn!("a session goes on without what its client changed elsewhere: {error}"),
        };
        let changes = self.gateway.replica.keys().open_shared(&purpose(name), &sealed);
        let Some(SessionChanges { log_level, resources }) = changes.and_then(|text| serde_json::from_str(&text).ok())
        else {
            return warn!(
                "a session goes on without what its client changed elsewhere: it is not sealed with one of our \
                 gateway.session_keys; an older version of toolgate seals none"
            );
        };
        let level = log_level.as_deref().and_then(LogLevel::of);
        let before = std::mem::replace(&mut lock(&self.negotiated).log_level, level);
        if before != level {
            self.gateway.registry.want_logs(self.gate.number(), level).await;
        }
        lock(&self.subscriptions.watched).retain(|uri, _| resources.contains(uri));
        for uri in resources {
            if lock(&self.subscriptions.watched).contains_key(&uri) {
                continue;
            }
            // A resource that no server has now was on another replica; its updates come from there.
            if let Ok(Some(watcher)) = watch(self, &uri).await {
                lock(&self.subscriptions.watched).insert(uri, watcher);
            }
        }
    }

    /// Keeps what the client has changed for other replicas, and tells those that have the session in memory.
    pub(super) async fn share_changes(&self) {
        let (Some(name), true) = (self.gate.session(), self.gateway.replica.store.is_shared()) else { return };
        let changes = SessionChanges {
            log_level: lock(&self.negotiated).log_level.map(|level| level.name().to_owned()),
            resources: lock(&self.subscriptions.watched).keys().cloned().collect(),
        };
        if let Err(why) = self.keep_changes(name, &changes).await {
            warn!("other replicas do not know what a client has changed: {why}");
        }
    }

    /// Keeps what the client has changed in the store, and tells the other replicas.
    async fn keep_changes(&self, name: &str, changes: &SessionChanges) -> Result<(), UnsentMessage> {
        let replica = &self.gateway.replica;
        let keys = replica.keys();
        let changes = serde_json::to_string(changes).unwrap_or_default();
        let (Some(sealed), Some(mark)) = (keys.seal_shared(&purpose(name), &changes), keys.mark_ended(name)) else {
            return Err(UnsentMessage::NoKeys);
        };
        replica.store.keep_session(name, &mark, &sealed, KEPT).await?;
        if !keys.are_configured() {
            // No other replica knows the session.
            return Ok(());
        }
        replica.tell(None, PeerMessage::Changed { session: name.to_owned() }).await
    }

    /// Passes the answer to a question on to the replica that asked; if that cannot be told, the client hears why.
    pub(super) async fn forward_answer(&self, asker: ReplicaId, response: &Response) -> Option<GatewayResponse> {
        let session = self.gate.session()?.to_owned();
        let message = PeerMessage::Forwarded { session, message: response.text().to_owned() };
        let why = self.gateway.replica.tell(Some(asker), message).await.err()?;
        let error = RpcError::new(INTERNAL_ERROR, why.of_answer());
        Some(GatewayResponse::error(None, &error, 409))
    }

    /// Passes a cancellation on to the other replicas, one of which may work on the request.
    pub(super) async fn forward_cancellation(&self, notification: &Notification, envelope: &Envelope) {
        // Standard input has one replica only.
        let (Some(session), true) = (self.gate.session(), envelope.headers.is_some() && !self.is_shared()) else {
            return;
        };
        let replica = &self.gateway.replica;
        if replica.cannot_tell().is_some() {
            // No other replica knows the session.
            return;
        }
        let message = PeerMessage::Forwarded { session: session.to_owned(), message: notification.text().to_owned() };
        if let Err(error) = replica.tell(None, message).await {
            warn!("other replicas do not know that a client cancelled a request: {error}");
        }
    }
}

/// Returns what the seal of a session's changes is for.
fn purpose(session: &str) -> String {
    format!("changes of session {session}")
}

/// How long the store keeps what a client has changed: as long as a session can be used.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
