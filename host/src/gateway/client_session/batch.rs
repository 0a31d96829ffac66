//! Batches: several messages in one text, which MCP had up to 2025-03-26. Each message counts against every bound as if it had
//! come alone.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::{ClientSession, INVALID_REQUEST, error_response, error_text, invalid_message};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::{Admission, AdmissionGuard, ClientMessage, GatewayResponse};
use crate::gateway::http::{MessageClass, NO_BATCH};
use crate::session::message;

impl ClientSession {
    /// Answers the messages of a batch, where the client is of a version that has batches.
    pub(super) async fn handle_batch(&self, parts: &[&RawValue], incoming: &ClientMessage) -> Option<GatewayResponse> {
        let Some(admission) = incoming.batch.as_deref().filter(|_| self.takes_batches(incoming)) else {
            return Some(error_response(INVALID_REQUEST, NO_BATCH.to_owned()));
        };
        if parts.is_empty() {
            return Some(invalid_message("this batch holds none"));
        }
        if let Err(error) = bounds::check_batch(parts.len()) {
            return Some(error_response(error.code, error.message));
        }
        let (mut ids, mut answers, mut running) = (HashSet::new(), BatchResponses::default(), Vec::new());
        for part in parts {
            match admit(part, admission, &mut ids) {
                Ok(place) => running.push(async move {
                    let answer = self.handle_one(part.get(), None, incoming).await;
                    drop(place);
                    answer
                }),
                Err(RejectedMessage { id, text }) => answers.refuse(id, text),
            }
        }
        answers.texts.extend(join_all(running).await.into_iter().flatten().map(|answer| answer.text));
        (!answers.texts.is_empty()).then(|| GatewayResponse::new(format!("[{}]", answers.texts.join(",")), 200))
    }

    /// Whether this client may send batches: its session is of a version that has them, and over HTTP it does not claim another.
    fn takes_batches(&self, incoming: &ClientMessage) -> bool {
        let has_batches = |version: &str| matches!(version, "2025-03-26" | "2024-11-05");
        let claimed = incoming.headers.as_ref().and_then(|headers| headers.version.as_deref());
        !self.is_shared() && self.session().version.is_some_and(has_batches) && claimed.is_none_or(has_batches)
    }
}

/// A message of a batch that is not let in.
struct RejectedMessage<'a> {
    id: Option<&'a str>,
    text: String,
}

/// Lets one message of a batch in. Its id must not be that of another one, or nobody could tell the answers apart.
fn admit<'a>(
    part: &'a RawValue,
    admission: &dyn Admission,
    ids: &mut HashSet<&'a str>,
) -> Result<AdmissionGuard, RejectedMessage<'a>> {
    let id = match message::read(part.get()) {
        Ok(message::Incoming::Request { id, .. }) => Some(id.get()),
        _ => None,
    };
    // What is no message is answered, with an error.
    let message =
        MessageClass::classify(part.get()).unwrap_or(MessageClass { wants_response: true, ..MessageClass::default() });
    // What is wrong with a message does not make it free.
    let place = admission.admit(message.wants_response, id).map_err(|text| RejectedMessage { id, text })?;
    let wrong = if message.initialize {
        "initialize is never part of a batch: send it on its own"
    } else if message.modern {
        "a message of 2026-07-28 is never part of a batch: send it on its own"
    } else if id.is_some_and(|id| !ids.insert(id)) {
        "another request of this batch has the same id: give each its own"
    } else {
        return Ok(place);
    };
    Err(RejectedMessage { id, text: error_text(id.unwrap_or("null"), &RpcError::new(INVALID_REQUEST, wrong)) })
}

/// The answers to a batch.
#[derive(Default)]
struct BatchResponses {
    texts: Vec<String>,
    /// Something without an id was refused, which is said once: nobody could tell which it was.
    refused_without_id: bool,
}

impl BatchResponses {
    fn refuse(&mut self, id: Option<&str>, text: String) {
        if id.is_some() || !std::mem::replace(&mut self.refused_without_id, true) {
            self.texts.push(text);
        }
    }
}
