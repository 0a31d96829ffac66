//! Shadows live calls: a candidate component or configuration says what it would have decided, without any way to act.
//!
//! It judges calls after they end, on a thread of its own, so no call waits for it. If it falls behind, calls are
//! skipped and counted. If it keeps crashing, it is switched off.

mod agreement_cache;
mod report;
mod runner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::warn;

pub use report::{Divergence, ShadowCounts, ShadowHour, ShadowReport, ShadowState};

use crate::config::model::Config;
use crate::finished_call::{FinishedCall, Observe};
use crate::gate::GateError;
use crate::logic::{self, Component, InstanceLimits};
use crate::record::replay::ReplayError;
use crate::record::{Candidate, UnusableServer};
use report::JudgedCall;
use runner::CandidateRunner;

/// A candidate that judges the calls of a running gate.
pub struct Shadow {
    /// None if the candidate never ran.
    calls: Option<SyncSender<Arc<FinishedCall>>>,
    options: ShadowOptions,
    queued: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    report: Arc<ShadowReport>,
}

/// Limits how many calls the candidate judges, and how many may wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowOptions {
    /// The share of calls that the candidate judges, from 0 to 1.
    pub sample: f64,
    /// The maximum number of waiting calls.
    pub most_calls: usize,
    /// The maximum memory of waiting calls, in bytes.
    pub most_bytes: usize,
}

impl Default for ShadowOptions {
    fn default() -> Self {
        ShadowOptions { sample: 1.0, most_calls: 4096, most_bytes: 32 << 20 }
    }
}

/// Returns the limits for the candidate's component: enough for any ordinary call, and low enough to stop one that
/// loops or hoards memory soon.
pub fn limits() -> InstanceLimits {
    InstanceLimits { fuel: Some(1_000_000_000), memory_bytes: 256 << 20 }
}

/// The reason why a candidate cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ShadowStartError {
    /// No gate can be opened with the candidate's configuration.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The thread cannot be started.
    #[error(transparent)]
    Thread(#[from] std::io::Error),
}

impl Shadow {
    /// Starts judging calls with this component, and with this configuration instead of the one in use; dropping the
    /// shadow ends its thread.
    pub fn start(
        component: Component,
        config: Option<Config>,
        options: ShadowOptions,
    ) -> Result<Self, ShadowStartError> {
        let candidate = Candidate { component: Some(component.clone()), config: config.map(Arc::new) };
        let (candidate, unusable) = candidate.checked(&logic::ComponentOptions::default())?;
        for UnusableServer { server, reason } in unusable {
            warn!(server, "the shadow policy cannot use this server: {reason}");
        }
        let (sender, receiver) = sync_channel(options.most_calls);
        let report = Arc::new(ShadowReport::of(about(&component, candidate.config.as_deref())));
        let (queued, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let worker = ShadowWorker {
            runner: CandidateRunner::new(component, candidate),
            queued: Arc::clone(&queued),
            stopped: Arc::clone(&over),
            report: Arc::clone(&report),
            failures: 0,
        };
        thread::Builder::new().name("toolgate-shadow".to_owned()).spawn(move || worker.run(&receiver))?;
        Ok(Shadow { calls: Some(sender), options, queued, stopped: over, report })
    }

    /// Creates the shadow of a candidate that cannot run, for this reason.
    pub fn off(about: &str, why: &str) -> Self {
        let report = ShadowReport::of(about.to_owned());
        report.switch_off(why);
        Shadow {
            calls: None,
            options: ShadowOptions::default(),
            queued: Arc::default(),
            stopped: Arc::default(),
            report: Arc::new(report),
        }
    }

    /// Returns the report on the candidate so far.
    pub fn report(&self) -> &Arc<ShadowReport> {
        &self.report
    }
}

impl Observe for Shadow {
    fn wants(&self) -> bool {
        let ShadowOptions { sample, .. } = self.options;
        self.calls.is_some() && self.report.is_running() && (sample >= 1.0 || fastrand::f64() < sample)
    }

    fn take(&self, finished: Arc<FinishedCall>) {
        let Some(calls) = &self.calls else { return };
        let bytes = finished.bytes();
        let waiting = self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // A very long call could take even a good candidate to its limits.
        let room = bytes <= LONGEST && waiting <= self.options.most_bytes;
        if !(room && calls.try_send(finished).is_ok()) {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.report.count(|counts| counts.dropped += 1);
        }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // The calls that still wait are not needed any more.
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The state of the candidate's thread.
struct ShadowWorker {
    runner: CandidateRunner,
    queued: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    report: Arc<ShadowReport>,
    failures: u32,
}

impl ShadowWorker {
    fn run(mut self, calls: &Receiver<Arc<FinishedCall>>) {
        yield_to_others();
        while let Ok(first) = calls.recv() {
            // Calls come in bursts, and waking up for each of them would cost more than judging it.
            thread::sleep(GATHER);
            for call in std::iter::once(first).chain(calls.try_iter()) {
                self.queued.fetch_sub(call.bytes(), Ordering::Relaxed);
                if self.stopped.load(Ordering::Relaxed) {
                    return;
                }
                match self.report.is_running() {
                    true => self.judge(Arc::unwrap_or_clone(call)),
                    false => self.report.count(|counts| counts.dropped += 1),
                }
            }
        }
    }

    fn judge(&mut self, finished: FinishedCall) {
        let called = JudgedCall::of(&finished);
        match self.runner.compare(finished) {
            Ok(None) => self.report.add_agreement(),
            Ok(Some(difference)) => self.report.add_divergence(called, &difference),
            Err(broken) => self.note_crash(&called, &broken),
        }
    }

    fn note_crash(&mut self, called: &JudgedCall, broken: &ReplayError) {
        self.failures += 1;
        self.report.count(|counts| counts.failed += 1);
        // The error itself may quote the call, so log only its kind.
        let why = broken.summary();
        warn!(call = called.id, "the shadow policy crashed ({why}); the call itself is not affected");
        if self.failures == MOST_FAILURES {
            let text = format!("it crashed {MOST_FAILURES} times; the last time, {why}");
            warn!("the shadow policy is switched off: {text}");
            self.report.switch_off(&text);
        }
    }
}

/// Describes the candidate in a few words.
fn about(component: &Component, config: Option<&Config>) -> String {
    let digest = component.digest();
    let digest = digest.get(..12).unwrap_or(digest);
    match config.and_then(|config| config.file.as_ref()?.file_name()) {
        Some(file) => format!("component {digest} with {}", file.to_string_lossy()),
        None => format!("component {digest}"),
    }
}

/// Lowers the priority of this thread, so that calls come first.
pub(crate) fn yield_to_others() {
    // On Linux, this sets the priority of the thread and not of the process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// The largest call, with its answer and result, that is judged.
const LONGEST: usize = 4 << 20;
/// How long the thread gathers calls before it judges them.
const GATHER: Duration = Duration::from_millis(5);
/// The number of crashes after which the candidate is switched off.
const MOST_FAILURES: u32 = 5;
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
