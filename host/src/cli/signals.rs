//! Signals: the first one ends the program cleanly, the second one at once; a full file ends nothing.
//!
//! A service still takes requests for a while after SIGTERM, its drain delay, until another signal ends that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::error::INTERRUPTED;
use super::terminal;
use crate::lock::lock;

/// Waits for signals on a thread of its own, so that they work while a write or a prompt blocks the rest.
#[derive(Clone)]
pub(super) struct Signals {
    drain: Arc<Notify>,
    interrupt: Arc<Notify>,
    hangup: Arc<Notify>,
    times: Arc<Mutex<StopTimes>>,
}

/// How long a service takes to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StopTimes {
    /// How long it still takes requests after SIGTERM.
    pub(super) drain_delay: Duration,
    /// How long its clients have to finish.
    pub(super) grace: Duration,
}

/// What SIGHUP does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HangupAction {
    /// Ends the program, as when the terminal closes.
    Exit,
    /// Reloads the configuration.
    Reload,
}

impl Signals {
    /// Handles SIGINT, SIGTERM and SIGHUP, which end the program cleanly; signals that were ignored at the start stay
    /// ignored.
    pub(super) fn new() -> std::io::Result<Self> {
        Self::with(HangupAction::Exit, StopTimes::default())
    }

    /// Handles signals for a service that takes this long to stop; SIGHUP reloads the configuration, unless the terminal
    /// has closed.
    pub(super) fn of_service(times: StopTimes) -> std::io::Result<Self> {
        Self::with(HangupAction::Reload, times)
    }

    fn with(hangup: HangupAction, times: StopTimes) -> std::io::Result<Self> {
        let (drain, interrupt, hangup_heard) = Default::default();
        let signals = Signals { drain, interrupt, hangup: hangup_heard, times: Arc::new(Mutex::new(times)) };
        let heard = signals.clone();
        let at_terminal = has_terminal();
        let reloads = move |signal: SignalKind| {
            signal == SignalKind::hangup() && hangup == HangupAction::Reload && (!at_terminal || has_terminal())
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            runtime.block_on(async {
                let mut signals = listen();
                let _ = ready.send(Ok(()));
                let first = heard.wait_for_end(&mut signals, &reloads).await;
                let StopTimes { drain_delay, grace } = *lock(&heard.times);
                if first == SignalKind::terminate() && !drain_delay.is_zero() {
                    heard.drain.notify_one();
                    // The signal that ends the delay is not the one that ends the program at once.
                    let _ = tokio::time::timeout(drain_delay, heard.wait_for_end(&mut signals, &reloads)).await;
                }
                heard.interrupt.notify_one();
                // Whatever still blocks after this blocks forever; the watchdog stops the remaining servers.
                let last = async { while reloads(next(&mut signals).await) {} };
                let _ = tokio::time::timeout(grace.saturating_add(PATIENCE), last).await;
                terminal::restore_echo();
                std::process::exit(i32::from(INTERRUPTED));
            });
        })?;
        is_ready.recv().unwrap_or(Ok(()))?;
        Ok(signals)
    }

    /// Sets how long the service takes to stop.
    pub(super) fn set_times(&self, times: StopTimes) {
        *lock(&self.times) = times;
    }

    /// Waits for the signal that begins the drain delay; not every end has one.
    pub(super) async fn draining(&self) {
        self.drain.notified().await;
    }

    /// Waits for the signal that ends the program, and for the end of the drain delay if there is one.
    pub(super) async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    /// Waits until the configuration should be reloaded.
    pub(super) async fn hangup(&self) {
        self.hangup.notified().await;
    }

    /// Waits for a signal that ends the program, and passes on those before it that reload the configuration.
    async fn wait_for_end(
        &self,
        signals: &mut [(SignalKind, Signal)],
        reloads: &impl Fn(SignalKind) -> bool,
    ) -> SignalKind {
        loop {
            let kind = next(signals).await;
            if !reloads(kind) {
                return kind;
            }
            self.hangup.notify_one();
        }
    }
}

/// Reports whether there is a terminal that has not hung up.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

fn listen() -> Vec<(SignalKind, Signal)> {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let wanted = kinds.into_iter().filter(|kind| !is_ignored(kind.as_raw_value()));
    wanted.filter_map(|kind| Some((kind, signal(kind).ok()?))).collect()
}

/// Waits for the next signal, or forever if all are ignored.
async fn next(signals: &mut [(SignalKind, Signal)]) -> SignalKind {
    if signals.is_empty() {
        return std::future::pending().await;
    }
    let heard = signals.iter_mut().map(|(kind, signal)| {
        Box::pin(async move {
            signal.recv().await;
            *kind
        })
    });
    futures_util::future::select_all(heard).await.0
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail instead of ending the program; child processes are not
/// affected.
pub(super) fn catch_file_size_signal() {
    let signal_number = rustix::process::Signal::XFSZ.as_raw();
    if is_ignored(signal_number) {
        return;
    }
    // A handler outlives its runtime, and `exec` resets it. Without one, nothing changes.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
        let _entered = runtime.enter();
        let _ = signal(SignalKind::from_raw(signal_number));
    }
}

/// Reports whether this process was started with the signal ignored, as by `nohup`; only Linux offers a safe way to
/// tell.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

/// How long a clean end may take.
const PATIENCE: Duration = Duration::from_secs(15);
