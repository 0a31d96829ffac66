//! Signals: the first asks for a good end, the second for any end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::failure::INTERRUPTED;
use super::terminal;

/// Waits for signals in a thread of its own, so that they are heard while a write or a question blocks the rest.
#[derive(Clone)]
pub struct Signals(Arc<Notify>);

impl Signals {
    /// From now on, SIGINT, SIGTERM and SIGHUP end the program in good manners. Those that whoever started us wants
    /// ignored stay ignored.
    pub fn new() -> std::io::Result<Self> {
        let first = Arc::new(Notify::new());
        let heard = Arc::clone(&first);
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            runtime.block_on(async {
                let mut signals = listen();
                let _ = ready.send(Ok(()));
                next(&mut signals).await;
                heard.notify_one();
                // Whatever still blocks then blocks for good; the watchdog ends the servers that are left.
                let _ = tokio::time::timeout(PATIENCE, next(&mut signals)).await;
                terminal::restore();
                std::process::exit(i32::from(INTERRUPTED));
            });
        })?;
        is_ready.recv().unwrap_or(Ok(()))?;
        Ok(Signals(first))
    }

    /// Returns at the first signal.
    pub async fn interrupted(&self) {
        self.0.notified().await;
    }
}

#[cfg(unix)]
fn listen() -> Vec<tokio::signal::unix::Signal> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let wanted = kinds.into_iter().filter(|kind| !is_ignored(kind.as_raw_value()));
    wanted.filter_map(|kind| signal(kind).ok()).collect()
}

/// Returns at the next signal; where all are ignored, never.
#[cfg(unix)]
async fn next(signals: &mut [tokio::signal::unix::Signal]) {
    if signals.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
}

#[cfg(not(unix))]
fn listen() {}

#[cfg(not(unix))]
async fn next(_: &mut ()) {
    let _ = tokio::signal::ctrl_c().await;
}

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
