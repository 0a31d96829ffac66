//! Forwards the progress of a request to its client, under the client's own token.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;

use super::ClientSession;
use super::client_request::ClientRequest;
use super::request_context::RequestContext;
use crate::gateway::client::ClientSink;
use crate::json::JsonObject;
use crate::rpc;
use crate::session::{OnProgress, Progress};

/// Forwards the progress of one request.
pub(super) struct ProgressForwarder {
    client: Weak<ClientSession>,
    request: Arc<ClientRequest>,
    sink: Arc<dyn ClientSink>,
    /// The client's progress token, as it wrote it.
    token: Box<RawValue>,
}

impl ProgressForwarder {
    /// Returns `None` if the client did not ask for progress.
    pub(super) fn new(context: &RequestContext<'_>, request: &Arc<ClientRequest>) -> Option<Self> {
        Some(ProgressForwarder {
            client: Arc::downgrade(context.client),
            request: Arc::clone(request),
            sink: Arc::clone(&context.envelope.sink),
            token: context.progress.clone()?,
        })
    }

    /// Sends a progress notification with the client's token, masked and cut to the maximum size of a result.
    pub(super) fn forward(&self, progress: &Progress) {
        let Some(client) = self.client.upgrade() else { return };
        // Progress that cannot be masked is not sent.
        let masked = client.gate.mask(self.request.server(), progress.params.get()).ok();
        let Some(mut params) = masked.as_deref().and_then(JsonObject::read) else { return };
        match client.gate.cut_member(&mut params, "message") {
            Ok(true) => {}
            // Still too long: drop the server's own members.
            Ok(false) => params.retain(|name| matches!(name, "progress" | "total" | "message")),
            Err(_) => return,
        }
        params.set("progressToken", &self.token);
        self.sink.send_or_drop(rpc::notification("notifications/progress", Some(&params.to_text())));
    }

    /// Turns this into the progress callback of a request.
    pub(super) fn into_listener(self) -> OnProgress {
        Arc::new(move |progress| self.forward(&progress))
    }
}
