//! A call that is to be recorded when it is over.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Gate;
use super::call::{CallOptions, Called};
use crate::logic::Past;
use crate::record::{Finished, Recorder};
use crate::session::Reply;

/// A call that is to be recorded when it is over.
pub(super) struct Recording {
    recorder: Arc<Recorder>,
    at: SystemTime,
    started: Instant,
    /// How long it took, once it is over.
    latency: Option<Duration>,
    principal: Option<Arc<str>>,
    /// The answer that went to the caller unread.
    answer: Option<Reply>,
    /// The caller's own limit of the text.
    limit: Option<u64>,
}

impl Recording {
    /// Begins with the call; none where nothing is recorded.
    pub(super) fn begin(gate: &Gate, options: &CallOptions) -> Option<Self> {
        let recorder = gate.registry().recorder()?;
        let (principal, limit) = (options.principal.clone(), gate.view().max_result_bytes);
        let (at, started) = (SystemTime::now(), Instant::now());
        Some(Recording { recorder, at, started, latency: None, principal, answer: None, limit })
    }

    /// Takes what the component has not seen of it.
    pub(super) fn finish(&mut self, called: &Called) {
        self.latency = Some(called.latency);
        self.answer.clone_from(&called.answer);
    }

    /// The call is over, or nobody waits for it any more.
    pub(super) fn end(self, past: Option<Past>) {
        let Some(past) = past else { return };
        let latency = self.latency.unwrap_or_else(|| self.started.elapsed());
        let Recording { recorder, at, principal, answer, limit, .. } = self;
        recorder.take(Finished { past, at, latency, principal, answer, limit });
    }
}
