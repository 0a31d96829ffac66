//! How tests wait for what happens outside of this process.

use std::time::{Duration, Instant};

/// Everything that a test waits for comes within this, even on a machine that is busy.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a fact of which nobody tells.
pub(super) async fn until(what: &str, fact: impl Fn() -> bool) {
    let start = Instant::now();
    while !fact() {
        assert!(start.elapsed() < DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
