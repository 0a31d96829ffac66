//! A call that is over, for whoever looks at calls then.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Gate;
use super::call::{CallOptions, CallOutcome};
use crate::logic::{CallHistory, directive_bytes, event_bytes};
use crate::session::Reply;

/// A call that is over. It may hold secrets, so it has no `Debug`.
#[derive(Clone)]
pub struct FinishedCall {
    /// Its story.
    pub history: CallHistory,
    /// When it began.
    pub at: SystemTime,
    /// How long it took.
    pub latency: Duration,
    /// Who made it, where that is known.
    pub principal: Option<Arc<str>>,
    /// The answer that went to the caller unread.
    pub answer: Option<Reply>,
    /// The caller's own limit of the text.
    pub limit: Option<u64>,
}

/// Looks at calls when they are over.
pub trait Observe: Send + Sync {
    /// Whether the call that begins now is wanted.
    fn wants(&self) -> bool;

    /// Takes a call that is over, which others may look at too; it must not block.
    fn take(&self, finished: Arc<FinishedCall>);
}

impl FinishedCall {
    /// About how much memory it takes, beside what it shares with others.
    pub fn bytes(&self) -> usize {
        let CallHistory { call, events, directives, .. } = &self.history;
        let answer = self.answer.as_ref().map_or(0, |answer| answer.json().len());
        let events = events.iter().map(|(_, event)| event_bytes(event)).sum::<usize>();
        let told = events + directives.iter().map(directive_bytes).sum::<usize>();
        SMALL + call.arguments.len() + answer + told
    }
}

/// A call under way that somebody wants to look at when it is over.
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
    /// Begins with the call; none where nobody wants it.
    pub(super) fn begin(gate: &Gate, options: &CallOptions) -> Option<Box<Self>> {
        let observers = gate.registry().observers();
        if observers.is_empty() {
            return None;
        }
        let (principal, limit) = (options.principal.clone(), gate.view().max_result_bytes);
        let (at, started) = (SystemTime::now(), Instant::now());
        Some(Box::new(ObservedCall { observers, at, started, latency: None, principal, answer: None, limit }))
    }

    /// Takes what the component has not seen of it.
    pub(super) fn finish(&mut self, called: &CallOutcome) {
        self.latency = Some(called.latency);
        self.answer.clone_from(&called.answer);
    }

    /// The call is over, or nobody waits for it any more.
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

/// What a call takes whatever is told in it.
const SMALL: usize = 1024;
