//! How far a server says that a request has come, told to its client under the client's own token.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;

use super::era::RequestContext;
use super::{ClientRequest, ClientSession, Envelope};
use crate::gateway::client::ClientSink;
use crate::json::JsonObject;
use crate::rpc;
use crate::session::{OnProgress, Progress};

/// Tells the client of one request.
pub(super) struct ProgressForwarder {
    client: Weak<ClientSession>,
    request: Arc<ClientRequest>,
    sink: Arc<dyn ClientSink>,
    /// What the client calls the progress, as it wrote it.
    token: Box<RawValue>,
}

impl ProgressForwarder {
    /// None where the client does not want to know.
    pub(super) fn new(
        client: &ClientSession,
        context: &RequestContext,
        asker: &Arc<ClientRequest>,
        envelope: &Envelope,
    ) -> Option<Self> {
        let token = context.progress.clone()?;
        Some(ProgressForwarder {
            client: client.me.clone(),
            request: Arc::clone(asker),
            sink: Arc::clone(&envelope.sink),
            token,
        })
    }

    /// Passes on what the server said, but for its token, masked, and no longer than a result may be.
    pub(super) fn forward(&self, progress: &Progress) {
        let Some(client) = self.client.upgrade() else { return };
        // What cannot be masked is not told.
        let masked = client.gate.mask(self.request.server(), progress.params.get()).ok();
        let Some(mut params) = masked.as_deref().and_then(JsonObject::read) else { return };
        match client.gate.cut_member(&mut params, "message") {
            Ok(true) => {}
            // What else a server says there is its own idea.
            Ok(false) => params.retain(|name| matches!(name, "progress" | "total" | "message")),
            Err(_) => return,
        }
        params.set("progressToken", &self.token);
        self.sink.send_or_drop(rpc::notification("notifications/progress", Some(&params.to_text())));
    }

    /// The same as what a request takes.
    pub(super) fn into_listener(self) -> OnProgress {
        Arc::new(move |progress| self.forward(&progress))
    }
}
