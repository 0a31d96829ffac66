//! Finished calls, for observers such as the recorder.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::logic::{CallHistory, directive_bytes, event_bytes};
use crate::session::Reply;

/// A finished call. It may contain secrets, so it has no `Debug`.
#[derive(Clone)]
pub struct FinishedCall {
    /// The call with its events and directives.
    pub history: CallHistory,
    /// When it began.
    pub at: SystemTime,
    /// How long it took.
    pub latency: Duration,
    /// The principal, if it is known.
    pub principal: Option<Arc<str>>,
    /// The admin who approved or declined it, if one did.
    pub approver: Option<Arc<str>>,
    /// The result that bypassed the component.
    pub answer: Option<Reply>,
    /// The caller's own limit of the text.
    pub limit: Option<u64>,
}

/// Observes calls when they are over.
pub trait Observe: Send + Sync {
    /// Reports whether a call that begins now is wanted.
    fn wants(&self) -> bool;

    /// Receives a finished call, which others may share; it must not block.
    fn take(&self, finished: Arc<FinishedCall>);
}

impl FinishedCall {
    /// Returns roughly how much memory it uses, without shared parts.
    pub fn bytes(&self) -> usize {
        let CallHistory { call, events, directives, .. } = &self.history;
        let answer = self.answer.as_ref().map_or(0, |answer| answer.json().len());
        let events = events.iter().map(|(_, event)| event_bytes(event)).sum::<usize>();
        let bytes = events + directives.iter().map(directive_bytes).sum::<usize>();
        SMALL + call.arguments.len() + answer + bytes
    }
}

/// The memory that every call uses, whatever its content.
const SMALL: usize = 1024;
