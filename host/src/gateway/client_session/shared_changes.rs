//! What a client of the initialize era changes about its session after `initialize`, for other replicas: its log level
//! and its subscriptions, which the store keeps; and messages that belong to requests which other replicas work on.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::sources::watch;
use super::{ClientSession, Envelope, error_response};
use crate::failure::RpcError;
use crate::gateway::client::GatewayResponse;
use crate::gateway::peer_message::PeerMessage;
use crate::gateway::replica::ReplicaId;
use crate::lock::lock;
use crate::rpc::code::INTERNAL_ERROR;
use crate::rpc::{Notification, Response};
use crate::session::LogLevel;
use crate::store::StoreError;

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
        let changes = match self.gateway.replica.store.session(name).await {
            Ok(changes) => changes.and_then(|text| serde_json::from_str(&text).ok()),
            Err(error) => return warn!("a session goes on without what its client changed elsewhere: {error}"),
        };
        let Some(SessionChanges { log_level, resources }) = changes else { return };
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
        let changes = serde_json::to_string(&changes).unwrap_or_default();
        let share = async {
            self.gateway.replica.store.keep_session(name, &changes, KEPT).await?;
            self.send_to_peers(None, PeerMessage::Changed { session: name.to_owned() }).await
        };
        if let Err(error) = share.await {
            warn!("other replicas do not know what a client has changed: {error}");
        }
    }

    /// Passes the answer to a question on to the replica that asked; if that cannot be reached, the client is told so.
    pub(super) async fn forward_answer(&self, asker: ReplicaId, response: &Response) -> Option<GatewayResponse> {
        let session = self.gate.session()?.to_owned();
        let message = PeerMessage::Forwarded { session, message: response.text().to_owned() };
        let why = match self.send_to_peers(Some(asker), message).await {
            Ok(true) => return None,
            Ok(false) if !self.gateway.replica.store.is_shared() => {
                "replicas need a common gateway.store for this".to_owned()
            }
            Ok(false) => "it is gone".to_owned(),
            Err(error) => error.to_string(),
        };
        let text = format!(
            "this answer is for a question of another replica of the gateway, which does not get it: {why}; send the \
             request again"
        );
        Some(error_response(&RpcError::new(INTERNAL_ERROR, text)))
    }

    /// Passes a cancellation on to the other replicas, one of which may work on the request.
    pub(super) async fn forward_cancellation(&self, notification: &Notification, envelope: &Envelope) {
        // Standard input has one replica only.
        let (Some(session), true) = (self.gate.session(), envelope.headers.is_some() && !self.is_shared()) else {
            return;
        };
        let message = PeerMessage::Forwarded { session: session.to_owned(), message: notification.text().to_owned() };
        if let Err(error) = self.send_to_peers(None, message).await {
            warn!("other replicas do not know that a client cancelled a request: {error}");
        }
    }

    async fn send_to_peers(&self, to: Option<ReplicaId>, message: PeerMessage) -> Result<bool, StoreError> {
        let store = &self.gateway.replica.store;
        if !store.is_shared() {
            return Ok(false);
        }
        store.send(to.map(|replica| replica.to_string()).as_deref(), &message.to_text()).await
    }
}

/// How long the store keeps what a client has changed: as long as a session can be used.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
