//! Signals: the first asks for a good end, the second for any end; a file that is full ends nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::error::INTERRUPTED;
use super::terminal;

/// Waits for signals in a thread of its own, so that they are heard while a write or a question blocks the rest.
#[derive(Clone)]
pub struct Signals {
    interrupt: Arc<Notify>,
    hangup: Arc<Notify>,
}

/// What SIGHUP is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HangupAction {
    /// The end, as of the terminal that it comes from.
    Exit,
    /// To look at the configuration again.
    Reload,
}

impl Signals {
    /// From now on, SIGINT, SIGTERM and SIGHUP end the program in good manners. Those that whoever started us wants
    /// ignored stay ignored.
    pub fn new() -> std::io::Result<Self> {
        Self::with(HangupAction::Exit, PATIENCE)
    }

    /// The same for a service that gives its clients some time at its end. SIGHUP asks it to look at the configuration
    /// again, unless the terminal has gone.
    pub fn of_service(grace: Duration) -> std::io::Result<Self> {
        Self::with(HangupAction::Reload, grace.saturating_add(PATIENCE))
    }

    fn with(hangup: HangupAction, patience: Duration) -> std::io::Result<Self> {
        let signals = Signals { interrupt: Arc::new(Notify::new()), hangup: Arc::new(Notify::new()) };
        let heard = signals.clone();
        let at_terminal = has_terminal();
        let reloads = move |signal: SignalClass| {
            signal == SignalClass::Hangup && hangup == HangupAction::Reload && (!at_terminal || has_terminal())
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
                while reloads(next(&mut signals).await) {
                    heard.hangup.notify_one();
                }
                heard.interrupt.notify_one();
                // Whatever still blocks then blocks for good; the watchdog ends the servers that are left.
                let second = async { while reloads(next(&mut signals).await) {} };
                let _ = tokio::time::timeout(patience, second).await;
                terminal::restore_echo();
                std::process::exit(i32::from(INTERRUPTED));
            });
        })?;
        is_ready.recv().unwrap_or(Ok(()))?;
        Ok(signals)
    }

    /// Returns at the first signal.
    pub async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    /// Returns when the configuration is to be looked at again.
    pub async fn hangup(&self) {
        self.hangup.notified().await;
    }
}

/// Which signal it was, as far as that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignalClass {
    Hangup,
    Other,
}

/// Whether there is a terminal that can hang up, or has not done so yet.
#[cfg(unix)]
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

#[cfg(not(unix))]
fn has_terminal() -> bool {
    false
}

#[cfg(unix)]
fn listen() -> Vec<(SignalClass, tokio::signal::unix::Signal)> {
    use tokio::signal::unix::{SignalKind, signal};
    let ends = [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| (SignalClass::Other, kind));
    let kinds = ends.into_iter().chain([(SignalClass::Hangup, SignalKind::hangup())]);
    let wanted = kinds.filter(|(_, kind)| !is_ignored(kind.as_raw_value()));
    wanted.filter_map(|(heard, kind)| Some((heard, signal(kind).ok()?))).collect()
}

/// Returns at the next signal; where all are ignored, never.
#[cfg(unix)]
async fn next(signals: &mut [(SignalClass, tokio::signal::unix::Signal)]) -> SignalClass {
    if signals.is_empty() {
        return std::future::pending().await;
    }
    let heard = signals.iter_mut().map(|(heard, signal)| {
        Box::pin(async move {
            signal.recv().await;
            *heard
        })
    });
    futures_util::future::select_all(heard).await.0
}

#[cfg(not(unix))]
fn listen() {}

#[cfg(not(unix))]
async fn next(_: &mut ()) -> SignalClass {
    let _ = tokio::signal::ctrl_c().await;
    SignalClass::Other
}

/// From now on a file that grows beyond what the process may write (`ulimit -f`) is a write that fails, and not the end of
/// the program. Whatever is started from here has that signal as we were given it.
#[cfg(unix)]
pub fn catch_file_size_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let signal_number = rustix::process::Signal::XFSZ.as_raw();
    if is_ignored(signal_number) {
        return;
    }
    // A handler stays when its runtime has gone, and ends with `exec`. Without one, all is as it was.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
        let _entered = runtime.enter();
        let _ = signal(SignalKind::from_raw(signal_number));
    }
}

#[cfg(not(unix))]
pub fn catch_file_size_signal() {}

/// Whether this process was started with the signal ignored, as `nohup` does it. Only Linux tells without asking for
/// trouble.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

/// How long a good end may take.
const PATIENCE: Duration = Duration::from_secs(15);
