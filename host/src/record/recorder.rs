//! Takes calls that are over and has them recorded, beside the calls: none of them ever waits for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::builder::{RecordBuilder, RecordError};
use super::writer::{RecordOptions, RecordWriter};
use crate::config::secrets::Secrets;
use crate::failure::format_chain;
use crate::gate::{FinishedCall, Observe};
use crate::logic::Component;

/// Has calls recorded.
pub struct Recorder {
    shared: Arc<RecorderShared>,
    options: RecordOptions,
}

/// What the calls and the thread that records them share.
#[derive(Default)]
struct RecorderShared {
    queue: Mutex<RecordQueue>,
    /// There is something to do, or all is over.
    wake: Condvar,
    /// All that came is recorded.
    idle: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    withheld: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct RecordQueue {
    calls: Vec<Arc<FinishedCall>>,
    bytes: usize,
    /// Calls were taken and are not in a file yet.
    busy: bool,
    /// Somebody waits until all is recorded.
    hurry: bool,
    closed: bool,
    /// There is no thread any more.
    over: bool,
}

/// How recording goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordStats {
    /// Calls that are recorded.
    pub written: u64,
    /// Calls that came faster than they could be recorded.
    pub dropped: u64,
    /// Calls that could not be written: a full disk, a folder that is read-only.
    pub failed: u64,
    /// Calls that could not be recorded without a secret, or would have been too long.
    pub withheld: u64,
    /// The bytes of what is recorded.
    pub bytes: u64,
}

impl Recorder {
    /// Records calls that this component decides. Nothing is made or checked before the first one.
    pub fn start(
        options: RecordOptions,
        component: &Component,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> std::io::Result<Self> {
        if options.raw {
            warn!(
                "record.raw: arguments and answers are recorded in {} as they are, with whatever secrets are in them; \
                 whoever reads the folder reads them",
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

    /// Where calls are recorded, and how many.
    pub fn options(&self) -> &RecordOptions {
        &self.options
    }

    /// How recording goes.
    pub fn stats(&self) -> RecordStats {
        let RecorderShared { written, dropped, failed, withheld, bytes, .. } = &*self.shared;
        let [written, dropped, failed, withheld, bytes] =
            [written, dropped, failed, withheld, bytes].map(|count| count.load(Relaxed));
        RecordStats { written, dropped, failed, withheld, bytes }
    }

    /// Waits until all that came so far is in a file, but no longer than this; says whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        let mut queue = self.shared.queue();
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

    /// It never waits: what is too much is counted and dropped.
    fn take(&self, finished: Arc<FinishedCall>) {
        let bytes = finished.bytes();
        let mut queue = self.shared.queue();
        if queue.closed || queue.calls.len() >= MOST_CALLS || queue.bytes + bytes > MOST_BYTES {
            self.shared.dropped.fetch_add(1, Relaxed);
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
        // What came is still recorded; who wants to be sure of it flushes before.
        self.shared.queue().closed = true;
        self.shared.wake.notify_one();
    }
}

impl RecorderShared {
    fn queue(&self) -> MutexGuard<'_, RecordQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who records.
struct RecorderThread {
    shared: Arc<RecorderShared>,
    builder: RecordBuilder,
    writer: RecordWriter,
    reported: ReportedLosses,
}

/// What was said of calls that are not recorded.
#[derive(Default)]
struct ReportedLosses {
    /// Nothing can be written, and that was said.
    outage: Option<WriteOutage>,
    dropped: u64,
    withheld: u64,
    at: Option<Instant>,
}

/// Calls cannot be written.
struct WriteOutage {
    /// When that was last so.
    at: Instant,
    /// How many were not written.
    calls: u64,
}

impl ReportedLosses {
    /// Calls could not be written now; says whether that is news.
    fn note_failure(&mut self, calls: u64, now: Instant) -> bool {
        let calls_before = self.outage.as_ref().map(|broken| broken.calls);
        self.outage = Some(WriteOutage { at: now, calls: calls_before.unwrap_or(0) + calls });
        calls_before.is_none()
    }

    /// Calls were written now; where that is news, says how many were not until then. A disk that is full takes a little now
    /// and then, which is none.
    fn note_success(&mut self, now: Instant) -> Option<u64> {
        self.outage.take_if(|broken| now.duration_since(broken.at) >= STEADY).map(|broken| broken.calls)
    }
}

impl RecorderThread {
    fn run(mut self) {
        while let Some(calls) = self.wait() {
            for call in calls {
                let waiting = self.writer.waiting();
                let outcome = self.builder.write(Arc::unwrap_or_clone(call), &mut self.writer);
                // What waited with it may have been written, or lost.
                self.count_outcome(outcome, waiting);
            }
            let waiting = self.writer.waiting();
            let flushed = self.writer.flush();
            self.count(flushed, waiting);
            self.warn_losses();
        }
    }

    /// Waits for calls; none when all is over.
    fn wait(&mut self) -> Option<Vec<Arc<FinishedCall>>> {
        let mut queue = self.shared.queue();
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
                queue = self.shared.queue();
            }
        }
        queue.busy = true;
        if !queue.hurry && !queue.closed {
            // Calls come in rows: one waking and one write for all of them.
            drop(queue);
            std::thread::sleep(GATHER);
            queue = self.shared.queue();
        }
        queue.bytes = 0;
        Some(std::mem::take(&mut queue.calls))
    }

    /// Counts what became of one call, and of those that waited before it.
    fn count_outcome(&mut self, outcome: Result<(), RecordError>, waiting: u64) {
        let written_early = self.writer.waiting() == 0 && waiting > 0;
        match outcome {
            Ok(()) if self.writer.waiting() == 0 => self.count(Ok(()), waiting + 1),
            Ok(()) => {}
            Err(RecordError::Disk(error)) => {
                let lost = if written_early { waiting + 1 } else { 1 };
                self.count(Err(error), lost);
            }
            Err(RecordError::Withheld | RecordError::TooLong(_) | RecordError::Replay(_)) => {
                self.shared.withheld.fetch_add(1, Relaxed);
            }
        }
    }

    fn count(&mut self, outcome: std::io::Result<()>, calls: u64) {
        match outcome {
            Ok(()) => {
                self.shared.written.fetch_add(calls, Relaxed);
                self.shared.bytes.store(self.writer.bytes(), Relaxed);
                if calls > 0
                    && let Some(lost) = self.reported.note_success(Instant::now())
                {
                    warn!("calls are recorded again; {} not", were(lost));
                }
            }
            Err(error) => {
                self.shared.failed.fetch_add(calls, Relaxed);
                if self.reported.note_failure(calls, Instant::now()) {
                    let dir = self.writer.options().dir.display();
                    warn!("calls go on, but cannot be recorded in {dir}: {}", format_chain(&error));
                }
            }
        }
    }

    /// Says once in a while how many calls are not recorded.
    fn warn_losses(&mut self) {
        let (dropped, withheld) = (self.shared.dropped.load(Relaxed), self.shared.withheld.load(Relaxed));
        let lately = self.reported.at.is_some_and(|at| at.elapsed() < TELL);
        if lately || (dropped, withheld) == (self.reported.dropped, self.reported.withheld) {
            return;
        }
        if dropped > self.reported.dropped {
            let calls = were(dropped - self.reported.dropped);
            warn!("{calls} not recorded, since calls came faster than they could be written");
        }
        if withheld > self.reported.withheld {
            let calls = were(withheld - self.reported.withheld);
            warn!("{calls} not recorded, for secrets that cannot be taken out, or for being too long");
        }
        (self.reported.dropped, self.reported.withheld, self.reported.at) = (dropped, withheld, Some(Instant::now()));
    }
}

impl Drop for RecorderThread {
    /// Whoever waits for it is told, however it ended.
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        (queue.closed, queue.over) = (true, true);
        drop(queue);
        self.shared.idle.notify_all();
    }
}

fn were(count: u64) -> String {
    if count == 1 { "1 call was".to_owned() } else { format!("{count} calls were") }
}

/// How many calls may wait to be recorded.
const MOST_CALLS: usize = 8192;
/// How much memory they may take.
const MOST_BYTES: usize = 64 << 20;
/// How long calls are gathered.
const GATHER: Duration = Duration::from_millis(2);
/// How often an idle recorder looks whether records are too old.
const LOOK: Duration = Duration::from_secs(600);
/// How often it says that calls are not recorded.
const TELL: Duration = Duration::from_secs(10);
/// For how long calls must have been written before it says that they are.
const STEADY: Duration = Duration::from_secs(1);

#[cfg(test)]
pub(super) mod tests {
    use super::super::recorded_settings::RecordedSettings;
    use super::*;
    use crate::logic::types::execution::{Settings, ToolCall};
    use crate::logic::{CallHistory, OfferedTools};

    const SETTINGS: &str = r#"{"servers":[],"selection":null,"read_only":false,"destructive":"allow","capabilities":null,
        "style":"dot","bare_names":false,"describe_server":false,"check_arguments":true,"retry":"safe",
        "masks":{"groups":[],"patterns":[],"custom":[]},"server_masks":[],"form":"text","max_result_bytes":0,
        "spill":false,"summarize_above_tokens":null}"#;

    /// A call of which nothing came.
    pub(crate) fn finished(arguments: String) -> Arc<FinishedCall> {
        let shape: RecordedSettings = serde_json::from_str(SETTINGS).unwrap();
        let history = CallHistory {
            settings: Arc::new(Settings::try_from(shape).unwrap()),
            call: ToolCall { id: "1".to_owned(), name: "a.x".to_owned(), arguments },
            offers: OfferedTools::default(),
            events: Vec::new(),
            directives: Vec::new(),
        };
        let (at, latency) = (std::time::SystemTime::now(), Duration::ZERO);
        Arc::new(FinishedCall { history, at, latency, principal: None, answer: None, limit: None })
    }

    /// A recorder whose thread never comes to it.
    fn stuck() -> Recorder {
        Recorder { shared: Arc::default(), options: RecordOptions::new("nowhere".into()) }
    }

    #[test]
    fn that_nothing_can_be_written_is_told_once_and_that_it_can_again_with_what_was_lost() {
        let (mut told, start) = (ReportedLosses::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(told.note_success(at(0)), None);
        assert!(told.note_failure(3, at(0)));
        assert_eq!(told.note_success(at(100)), None, "it is not steady");
        assert!(!told.note_failure(2, at(200)));
        assert_eq!(told.note_success(at(1200)), Some(5));
        assert_eq!(told.note_success(at(1300)), None);
        assert!(told.note_failure(1, at(1400)), "it is news again");
        assert_eq!(were(5), "5 calls were");
    }

    #[test]
    fn calls_that_come_too_fast_are_dropped_and_counted_and_none_waits() {
        let recorder = stuck();
        (0..MOST_CALLS + 5).for_each(|_| recorder.take(finished(String::new())));
        assert_eq!(recorder.stats(), RecordStats { dropped: 5, ..RecordStats::default() });
        assert!(!recorder.flush(Duration::ZERO), "they are not in a file");
        let recorder = stuck();
        (0..5).for_each(|_| recorder.take(finished("x".repeat(MOST_BYTES / 4))));
        assert_eq!(recorder.stats().dropped, 2);
    }
}
