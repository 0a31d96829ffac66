//! Batches: several messages in one text, which MCP had up to 2025-03-26. Each message counts against every bound as if it had
//! come alone.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::{Front, INVALID_REQUEST, error_text, no_message, refused};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::{Admission, Answer, Incoming, Place};
use crate::gateway::http::{Message, NO_BATCH};
use crate::session::message;

impl Front {
    /// Answers the messages of a batch, where the client is of a version that has batches.
    pub(super) async fn batch(&self, parts: &[&RawValue], incoming: &Incoming) -> Option<Answer> {
        let Some(admission) = incoming.batch.as_deref().filter(|_| self.takes_batches(incoming)) else {
            return Some(refused(INVALID_REQUEST, NO_BATCH.to_owned()));
        };
        if parts.is_empty() {
            return Some(no_message("this batch holds none"));
        }
        if let Err(error) = bounds::batch(parts.len()) {
            return Some(refused(error.code, error.message));
        }
        let (mut ids, mut answers, mut running) = (HashSet::new(), Answers::default(), Vec::new());
        for part in parts {
            match admit(part, admission, &mut ids) {
                Ok(place) => running.push(async move {
                    let answer = self.one(part.get(), None, incoming).await;
                    drop(place);
                    answer
                }),
                Err(Refused { id, text }) => answers.refuse(id, text),
            }
        }
        answers.texts.extend(join_all(running).await.into_iter().flatten().map(|answer| answer.text));
        (!answers.texts.is_empty()).then(|| Answer::new(format!("[{}]", answers.texts.join(",")), 200))
    }

    /// Whether this client may send batches: its session is of a version that has them, and over HTTP it does not claim another.
    fn takes_batches(&self, incoming: &Incoming) -> bool {
        let has_batches = |version: &str| matches!(version, "2025-03-26" | "2024-11-05");
        let claimed = incoming.headers.as_ref().and_then(|headers| headers.version.as_deref());
        !self.is_shared() && self.session().version.is_some_and(has_batches) && claimed.is_none_or(has_batches)
    }
}

/// A message of a batch that is not let in.
struct Refused<'a> {
    id: Option<&'a str>,
    text: String,
}

/// Lets one message of a batch in. Its id must not be that of another one, or nobody could tell the answers apart.
fn admit<'a>(part: &'a RawValue, admission: &dyn Admission, ids: &mut HashSet<&'a str>) -> Result<Place, Refused<'a>> {
    let id = match message::read(part.get()) {
        Ok(message::Incoming::Request { id, .. }) => Some(id.get()),
        _ => None,
    };
    // What is no message is answered, with an error.
    let message = Message::peek(part.get()).unwrap_or(Message { asks: true, ..Message::default() });
    // What is wrong with a message does not make it free.
    let place = admission.admit(message.asks, id).map_err(|text| Refused { id, text })?;
    let wrong = if message.initialize {
        "initialize is never part of a batch: send it on its own"
    } else if message.modern {
        "a message of 2026-07-28 is never part of a batch: send it on its own"
    } else if id.is_some_and(|id| !ids.insert(id)) {
        "another request of this batch has the same id: give each its own"
    } else {
        return Ok(place);
    };
    Err(Refused { id, text: error_text(id.unwrap_or("null"), &RpcError::new(INVALID_REQUEST, wrong)) })
}

/// The answers to a batch.
#[derive(Default)]
struct Answers {
    texts: Vec<String>,
    /// Something without an id was refused, which is said once: nobody could tell which it was.
    nameless: bool,
}

impl Answers {
    fn refuse(&mut self, id: Option<&str>, text: String) {
        if id.is_some() || !std::mem::replace(&mut self.nameless, true) {
            self.texts.push(text);
        }
    }
}
