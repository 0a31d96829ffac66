//! A running call that observers, such as the recorder, want when it is over.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Gate;
use super::call_options::{CallOptions, CallOutcome};
use crate::finished_call::{FinishedCall, Observe};
use crate::logic::CallHistory;
use crate::session::Reply;

/// A running call that an observer wants when it is over.
pub(super) struct ObservedCall {
    observers: Vec<Arc<dyn Observe>>,
    at: SystemTime,
    started: Instant,
    /// How long it took, once it is over.
    latency: Option<Duration>,
    principal: Option<Arc<str>>,
    answer: Option<Reply>,
    limit: Option<u64>,
}

impl ObservedCall {
    /// Starts to observe a call; `None` if nobody wants it.
    pub(super) fn begin(gate: &Gate, options: &CallOptions) -> Option<Box<Self>> {
        let observers = gate.registry().observers();
        if observers.is_empty() {
            return None;
        }
        let (principal, limit) = (options.principal.clone(), gate.view().max_result_bytes);
        let (at, started) = (SystemTime::now(), Instant::now());
        Some(Box::new(ObservedCall { observers, at, started, latency: None, principal, answer: None, limit }))
    }

    /// Stores the parts of the outcome that the component does not see.
    pub(super) fn finish(&mut self, called: &CallOutcome) {
        self.latency = Some(called.latency);
        self.answer.clone_from(&called.answer);
    }

    /// Passes the call to the observers, whether it finished or was dropped, with the admin who decided it.
    pub(super) fn end(self, past: Option<CallHistory>, approver: Option<Arc<str>>) {
        let Some(history) = past else { return };
        let latency = self.latency.unwrap_or_else(|| self.started.elapsed());
        let ObservedCall { observers, at, principal, answer, limit, .. } = self;
        let finished = Arc::new(FinishedCall { history, at, latency, principal, approver, answer, limit });
        for observer in observers {
            observer.take(Arc::clone(&finished));
        }
    }
}
