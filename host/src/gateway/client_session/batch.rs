//! JSON-RPC batches, which MCP had up to 2025-03-26. Each message counts against every limit as if it were sent alone.

use std::collections::HashSet;
use std::sync::Arc;

use super::{ClientSession, Envelope, error_response, invalid_message};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::{Admission, AdmissionGuard, GatewayResponse, NO_BATCH, VERSION_META};
use crate::lock::lock;
use crate::rpc::code::INVALID_REQUEST;
use crate::rpc::{self, Message};
use futures_util::future::join_all;

impl ClientSession {
    /// Answers the messages of a batch if the client's version has batches.
    pub(super) async fn handle_batch(
        self: &Arc<Self>,
        parts: Vec<Message>,
        envelope: &Envelope,
    ) -> Option<GatewayResponse> {
        let Some(admission) = envelope.batch.as_ref().filter(|_| self.takes_batches(envelope)) else {
            return Some(error_response(&RpcError::new(INVALID_REQUEST, NO_BATCH)));
        };
        if parts.is_empty() {
            return Some(invalid_message("the batch is empty"));
        }
        if let Err(error) = bounds::check_batch(parts.len()) {
            return Some(error_response(&error));
        }
        let (mut ids, mut answers, mut running) = (HashSet::new(), Vec::new(), Vec::new());
        // One response to messages without an id is enough, since it cannot say which message it means.
        let mut refused_without_id = false;
        for part in parts {
            match admit(&part, admission, &mut ids).await {
                Ok(place) => running.push(async move {
                    let answer = self.handle_one(part, envelope).await;
                    drop(place);
                    answer
                }),
                Err(_) if part.request_id().is_none() && std::mem::replace(&mut refused_without_id, true) => {}
                Err(text) => answers.push(text),
            }
        }
        answers.extend(join_all(running).await.into_iter().flatten().map(|answer| answer.text));
        (!answers.is_empty()).then(|| GatewayResponse::ok(format!("[{}]", answers.join(","))))
    }

    /// Reports whether this client may send batches: its session's version has them, and over HTTP it claims no other.
    fn takes_batches(&self, envelope: &Envelope) -> bool {
        let has_batches = |version: &str| matches!(version, "2025-03-26" | "2024-11-05");
        let claimed = envelope.headers.as_ref().and_then(|headers| headers.version.as_deref());
        !self.is_shared() && lock(&self.negotiated).version.is_some_and(has_batches) && claimed.is_none_or(has_batches)
    }
}

/// Admits one message of a batch, or returns the error response to it. Ids must be unique, or the responses could not
/// be told apart.
async fn admit(part: &Message, admission: &Admission, ids: &mut HashSet<String>) -> Result<AdmissionGuard, String> {
    let id = part.request_id();
    // Invalid messages count too.
    let place = admission(part.wants_answer(), id).await?;
    let wrong = if part.is_request_of("initialize") {
        "initialize cannot be part of a batch: send it on its own"
    } else if part.has_meta(VERSION_META) {
        "a message of 2026-07-28 cannot be part of a batch: send it on its own"
    } else if id.is_some_and(|id| !ids.insert(id.to_owned())) {
        "another request of this batch has the same id: give each its own"
    } else {
        return Ok(place);
    };
    Err(rpc::error(id, &RpcError::new(INVALID_REQUEST, wrong)))
}
