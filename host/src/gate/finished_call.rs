//! Finished calls, for observers such as the recorder.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Gate;
use super::call::{CallOptions, CallOutcome};
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
        let told = events + directives.iter().map(directive_bytes).sum::<usize>();
        SMALL + call.arguments.len() + answer + told
    }
}

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

    /// Passes the call to the observers, whether it finished or was dropped.
    pub(super) fn end(self, past: Option<CallHistory>) {
        let Some(history) = past else { return };
        let latency = self.latency.unwrap_or_else(|| self.started.elapsed());
        let ObservedCall { observers, at, principal, answer, limit, .. } = self;
        let finished = Arc::new(FinishedCall { history, at, latency, principal, answer, limit });
        for observer in observers {
            observer.take(Arc::clone(&finished));
        }
    }
}

/// The memory that every call uses, whatever its content.
const SMALL: usize = 1024;
