//! A candidate in the shade: another component or configuration is asked what it would have decided on the calls of now,
//! and has no way to act.
//!
//! It runs beside the calls, on a thread of its own, on what they were when they are over: nothing waits for it. Under
//! pressure calls are left out and counted; a candidate that breaks off again and again is switched off.

mod agreement_cache;
mod report;
mod runner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::warn;

pub use report::{Divergence, ShadowCounts, ShadowReport, ShadowState};

use crate::config::model::Config;
use crate::gate::{FinishedCall, GateError, Observe};
use crate::logic::{self, Component, InstanceLimits};
use crate::record::replay::ReplayError;
use crate::record::{Candidate, UnusableServer};
use report::JudgedCall;
use runner::CandidateRunner;

/// A candidate that is asked beside the logic that decides.
pub struct Shadow {
    /// None where it never ran.
    calls: Option<SyncSender<Arc<FinishedCall>>>,
    options: ShadowOptions,
    queued: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    report: Arc<ShadowReport>,
}

/// How much of a candidate is asked, and how much may wait for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowOptions {
    /// Which part of all calls it is asked about, from 0 to 1.
    pub sample: f64,
    /// The most calls that wait to be looked at.
    pub most_calls: usize,
    /// The most memory that they take.
    pub most_bytes: usize,
}

impl Default for ShadowOptions {
    fn default() -> Self {
        ShadowOptions { sample: 1.0, most_calls: 4096, most_bytes: 32 << 20 }
    }
}

/// The limits that the component of a candidate is to be loaded with: enough for any honest call, and little enough that one
/// that loops or hoards is soon found out.
pub fn limits() -> InstanceLimits {
    InstanceLimits { fuel: Some(1_000_000_000), memory_bytes: 256 << 20 }
}

/// Why a candidate cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ShadowStartError {
    /// No gate can be opened with its configuration.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// It gets no thread.
    #[error(transparent)]
    Thread(#[from] std::io::Error),
}

impl Shadow {
    /// Asks this component about calls from now on, with a configuration that it decides by in place of the one in use. Its
    /// thread ends with this.
    pub fn start(
        component: Component,
        config: Option<Config>,
        options: ShadowOptions,
    ) -> Result<Self, ShadowStartError> {
        let candidate = Candidate { component: Some(component.clone()), config: config.map(Arc::new) };
        let (candidate, unusable) = candidate.checked(&logic::ComponentOptions::default())?;
        for UnusableServer { server, reason } in unusable {
            warn!(server, "in the shade it cannot be used: {reason}");
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

    /// A candidate that cannot be asked, and why.
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

    /// How the candidate has done so far.
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
        // One that is very long would take an honest candidate to its limits.
        let room = bytes <= LONGEST && waiting <= self.options.most_bytes;
        if !(room && calls.try_send(finished).is_ok()) {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.report.add_dropped();
        }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // What is still waiting is of no interest any more.
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// What runs on the candidate's thread.
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
            // Calls come in rows, and to be woken for each of them would cost more than to look at it.
            thread::sleep(GATHER);
            for call in std::iter::once(first).chain(calls.try_iter()) {
                self.queued.fetch_sub(call.bytes(), Ordering::Relaxed);
                if self.stopped.load(Ordering::Relaxed) {
                    return;
                }
                match self.report.is_running() {
                    true => self.judge(Arc::unwrap_or_clone(call)),
                    false => self.report.add_dropped(),
                }
            }
        }
    }

    fn judge(&mut self, finished: FinishedCall) {
        let called = JudgedCall::of(&finished);
        match self.runner.compare(finished) {
            Ok(None) => self.report.add_same(),
            Ok(Some(difference)) => self.report.add_divergence(called, &difference),
            Err(broken) => self.note_crash(&called, &broken),
        }
    }

    fn note_crash(&mut self, called: &JudgedCall, broken: &ReplayError) {
        self.failures += 1;
        self.report.add_failed();
        // Why it broke off may quote what it was given.
        let why = broken.summary();
        warn!(call = called.id, "the shadow broke off ({why}); the call was not touched");
        if self.failures == MOST_FAILURES {
            let text = format!("it broke off {MOST_FAILURES} times, the last time for this: {why}");
            warn!("the shadow is switched off: {text}");
            self.report.switch_off(&text);
        }
    }
}

/// What is tried, in short.
fn about(component: &Component, config: Option<&Config>) -> String {
    let digest = component.digest();
    let digest = digest.get(..12).unwrap_or(digest);
    match config.and_then(|config| config.file.as_ref()?.file_name()) {
        Some(file) => format!("component {digest} with {}", file.to_string_lossy()),
        None => format!("component {digest}"),
    }
}

/// Calls have the right of way.
fn yield_to_others() {
    // On Linux this is the priority of the thread alone.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// The longest call that is looked at, with its answer and its result.
const LONGEST: usize = 4 << 20;
/// How long calls are gathered before they are looked at.
const GATHER: Duration = Duration::from_millis(5);
/// How often a candidate may break off.
const MOST_FAILURES: u32 = 5;
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
