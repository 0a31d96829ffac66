//! How tests wait for events outside of this process.

use std::time::{Duration, Instant};

/// Everything that a test waits for comes within this time, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until a condition holds that nobody announces.
pub(crate) async fn until(what: &str, fact: impl Fn() -> bool) {
    let start = Instant::now();
    while !fact() {
        assert!(start.elapsed() < DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
