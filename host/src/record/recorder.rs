//! Records finished calls on a thread of its own; no call ever waits for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::builder::RecordBuilder;
use super::store::RecordError;
use super::writer::{RecordOptions, RecordWriter};
use crate::config::secrets::Secrets;
use crate::failure::format_chain;
use crate::finished_call::{FinishedCall, Observe};
use crate::lock::lock;
use crate::logic::Component;

/// Records finished calls.
pub struct Recorder {
    shared: Arc<RecorderShared>,
    options: RecordOptions,
}

/// The state that calls and the recording thread share.
#[derive(Default)]
struct RecorderShared {
    queue: Mutex<RecordQueue>,
    /// Signals that there is something to do, or that recording ends.
    wake: Condvar,
    /// Signals that everything is recorded.
    idle: Condvar,
}

#[derive(Default)]
struct RecordQueue {
    calls: Vec<Arc<FinishedCall>>,
    bytes: usize,
    /// Calls were taken from the queue and are not in a file yet.
    busy: bool,
    /// Somebody waits until everything is recorded.
    hurry: bool,
    closed: bool,
    /// The recording thread has ended.
    over: bool,
    stats: RecordStats,
}

/// Counts of what was recorded and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordStats {
    /// The number of calls that are recorded.
    pub written: u64,
    /// The number of calls that came faster than they could be recorded.
    pub dropped: u64,
    /// The number of calls that could not be written, because the disk is full or the folder is read-only, for example.
    pub failed: u64,
    /// The number of calls that could not be recorded without a secret, or would have been too long.
    pub withheld: u64,
    /// The number of bytes recorded.
    pub bytes: u64,
}

impl Recorder {
    /// Starts recording the calls that this component decides; nothing is created or checked before the first call.
    pub fn start(
        options: RecordOptions,
        component: &Component,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> std::io::Result<Self> {
        if options.raw {
            warn!(
                "record.raw: arguments and answers are recorded unmasked in {}; anybody who can read that \
                 folder can read the secrets in them",
                options.dir.display()
            );
        }
        let shared = Arc::<RecorderShared>::default();
        let writer = RecordWriter::new(options.clone());
        let builder = RecordBuilder::new(component.clone(), Arc::clone(secrets), options.raw);
        let thread =
            RecorderThread { shared: Arc::clone(&shared), builder, writer, reported: ReportedLosses::default() };
        std::thread::Builder::new().name("toolgate-record".to_owned()).spawn(move || thread.run())?;
        Ok(Recorder { shared, options })
    }

    /// Returns the options that the recorder was started with.
    pub fn options(&self) -> &RecordOptions {
        &self.options
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> RecordStats {
        lock(&self.shared.queue).stats
    }

    /// Waits up to `limit` until all calls so far are in a file, and reports whether they are.
    pub fn flush(&self, limit: Duration) -> bool {
        let mut queue = lock(&self.shared.queue);
        queue.hurry = true;
        self.shared.wake.notify_one();
        let busy = |queue: &mut RecordQueue| !queue.over && (queue.busy || !queue.calls.is_empty());
        let (_queue, waited) =
            self.shared.idle.wait_timeout_while(queue, limit, busy).unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }
}

impl Observe for Recorder {
    fn wants(&self) -> bool {
        true
    }

    /// Queues the call without waiting; if the queue is full, the call is counted and dropped.
    fn take(&self, finished: Arc<FinishedCall>) {
        let bytes = finished.bytes();
        let mut queue = lock(&self.shared.queue);
        if queue.closed || queue.calls.len() >= MOST_CALLS || queue.bytes + bytes > MOST_BYTES {
            queue.stats.dropped += 1;
            return;
        }
        queue.bytes += bytes;
        queue.calls.push(finished);
        let first = queue.calls.len() == 1 && !queue.busy;
        drop(queue);
        if first {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The thread still records what is queued; call `flush` first to be sure.
        lock(&self.shared.queue).closed = true;
        self.shared.wake.notify_one();
    }
}

/// The state of the recording thread.
struct RecorderThread {
    shared: Arc<RecorderShared>,
    builder: RecordBuilder,
    writer: RecordWriter,
    reported: ReportedLosses,
}

/// The losses that have been logged already.
#[derive(Default)]
struct ReportedLosses {
    /// Set while calls cannot be written, once that has been logged.
    outage: Option<WriteOutage>,
    dropped: u64,
    withheld: u64,
    at: Option<Instant>,
}

/// A period in which calls cannot be written.
struct WriteOutage {
    /// The time of the last failure.
    at: Instant,
    /// The number of calls that were not written.
    calls: u64,
}

impl ReportedLosses {
    /// Notes that calls could not be written; reports whether that must be logged.
    fn note_failure(&mut self, calls: u64, now: Instant) -> bool {
        let calls_before = self.outage.as_ref().map(|broken| broken.calls);
        self.outage = Some(WriteOutage { at: now, calls: calls_before.unwrap_or(0) + calls });
        calls_before.is_none()
    }

    /// Notes that calls were written; returns how many were lost if that must be logged. A full disk accepts a little
    /// now and then, which does not end the outage.
    fn note_success(&mut self, now: Instant) -> Option<u64> {
        self.outage.take_if(|broken| now.duration_since(broken.at) >= STEADY).map(|broken| broken.calls)
    }
}

impl RecorderThread {
    fn run(mut self) {
        while let Some(calls) = self.wait() {
            for call in calls {
                let waiting = self.writer.lines;
                let outcome = self.builder.write(Arc::unwrap_or_clone(call), &mut self.writer);
                // Lines that were queued before it may have been written, or lost, together with it.
                self.count_outcome(outcome, waiting);
            }
            let waiting = self.writer.lines;
            let flushed = self.writer.flush();
            self.count(flushed, waiting);
            self.warn_losses();
        }
    }

    /// Waits for calls; returns `None` when recording ends.
    fn wait(&mut self) -> Option<Vec<Arc<FinishedCall>>> {
        let mut queue = lock(&self.shared.queue);
        queue.busy = false;
        while queue.calls.is_empty() {
            self.shared.idle.notify_all();
            if queue.closed {
                return None;
            }
            queue.hurry = false;
            let (waited, timeout) = self.shared.wake.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner);
            queue = waited;
            if timeout.timed_out() && queue.calls.is_empty() {
                drop(queue);
                self.writer.clean_up_if_due();
                queue = lock(&self.shared.queue);
            }
        }
        queue.busy = true;
        if !queue.hurry && !queue.closed {
            // Calls come in bursts; gather them to wake up once and write once.
            drop(queue);
            std::thread::sleep(GATHER);
            queue = lock(&self.shared.queue);
        }
        queue.bytes = 0;
        Some(std::mem::take(&mut queue.calls))
    }

    /// Counts the outcome of one call, and of the calls that were queued before it.
    fn count_outcome(&mut self, outcome: Result<(), RecordError>, waiting: u64) {
        let written_early = self.writer.lines == 0 && waiting > 0;
        match outcome {
            Ok(()) if self.writer.lines == 0 => self.count(Ok(()), waiting + 1),
            Ok(()) => {}
            Err(RecordError::Disk(error)) => {
                let lost = if written_early { waiting + 1 } else { 1 };
                self.count(Err(error), lost);
            }
            Err(RecordError::Withheld | RecordError::TooLong(_) | RecordError::Replay(_)) => {
                lock(&self.shared.queue).stats.withheld += 1;
            }
        }
    }

    fn count(&mut self, outcome: std::io::Result<()>, calls: u64) {
        match outcome {
            Ok(()) => {
                lock(&self.shared.queue).stats.written += calls;
                lock(&self.shared.queue).stats.bytes = self.writer.bytes;
                if calls > 0
                    && let Some(lost) = self.reported.note_success(Instant::now())
                {
                    warn!("recording works again; {} not recorded", were(lost));
                }
            }
            Err(error) => {
                lock(&self.shared.queue).stats.failed += calls;
                if self.reported.note_failure(calls, Instant::now()) {
                    let dir = self.writer.options.dir.display();
                    warn!("calls continue, but cannot be recorded in {dir}: {}", format_chain(&error));
                }
            }
        }
    }

    /// Logs from time to time how many calls are not recorded.
    fn warn_losses(&mut self) {
        let RecordStats { dropped, withheld, .. } = lock(&self.shared.queue).stats;
        let lately = self.reported.at.is_some_and(|at| at.elapsed() < TELL);
        if lately || (dropped, withheld) == (self.reported.dropped, self.reported.withheld) {
            return;
        }
        if dropped > self.reported.dropped {
            let calls = were(dropped - self.reported.dropped);
            warn!("{calls} not recorded, because calls came faster than they could be written");
        }
        if withheld > self.reported.withheld {
            let calls = were(withheld - self.reported.withheld);
            warn!("{calls} not recorded, because a secret cannot be removed or the record is too long");
        }
        (self.reported.dropped, self.reported.withheld, self.reported.at) = (dropped, withheld, Some(Instant::now()));
    }
}

impl Drop for RecorderThread {
    /// Wakes everybody who waits for the thread, however it ended.
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        (queue.closed, queue.over) = (true, true);
        drop(queue);
        self.shared.idle.notify_all();
    }
}

fn were(count: u64) -> String {
    if count == 1 { "1 call was".to_owned() } else { format!("{count} calls were") }
}

/// The number of calls that may wait to be recorded.
const MOST_CALLS: usize = 8192;
/// The memory that waiting calls may take.
const MOST_BYTES: usize = 64 << 20;
/// How long the thread gathers calls before it writes them.
const GATHER: Duration = Duration::from_millis(2);
/// How often an idle recorder removes old records.
const LOOK: Duration = Duration::from_secs(600);
/// How often losses are logged.
const TELL: Duration = Duration::from_secs(10);
/// How long writing must work before the log says that it works again.
const STEADY: Duration = Duration::from_secs(1);

#[cfg(test)]
pub(super) mod tests;
