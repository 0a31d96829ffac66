//! What the sessions of older clients cost: to take one up from its id, and the memory of those that rest.

use std::path::Path;
use std::time::Duration;

use toolgate_tests::race::verdict;

use super::configuration::{MANY_SESSIONS, Size};
use super::servers::Servers;
use super::{Ready, memory, time};

/// Measures pings in sessions that are in memory, and in sessions that must be taken up each time; and then the memory of
/// many sessions that nobody uses any more.
pub async fn sessions(folder: &Path) {
    let servers = Servers::start(1, 1).await;
    let size = |sessions| Size { servers: 1, principals: 0, list: "all", sessions };
    let ready = Ready::start(folder, &servers, size(MANY_SESSIONS)).await;
    let kept = ping(&ready).await;
    // Two clients push each other's session out of memory.
    let taken_up = ping(&Ready::start(folder, &servers, size(1)).await).await;
    time("processor time of a ping in a session in memory", kept);
    time("processor time of a ping in a session that is taken up", taken_up);

    let before = ready.gateway.memory();
    for _ in 0..SESSIONS {
        ready.connect(0, false).await;
    }
    let first = ready.gateway.memory();
    memory(&format!("memory of {SESSIONS} new sessions"), first.saturating_sub(before));
    tokio::time::sleep(AT_REST).await;
    // The allocator may keep what sessions had, so as many again show whether the first ones are gone.
    for _ in 0..SESSIONS {
        ready.connect(0, false).await;
    }
    let more = ready.gateway.memory().saturating_sub(first);
    let is_little = more < SESSIONS * 256;
    verdict("memory of as many again, after these rest", &format!("{} KiB", more >> 10), "hardly any", is_little);
}

/// Returns the processor time of a ping, if two sessions take turns.
async fn ping(ready: &Ready) -> Duration {
    let mut clients = [ready.connect(0, false).await, ready.connect(0, false).await];
    let mut asked = Duration::ZERO;
    // The first round only warms up.
    for _ in 0..2 {
        let cpu = ready.gateway.cpu();
        for turn in 0..PINGS {
            assert_eq!(clients[turn as usize % 2].status().await, 200);
        }
        asked = ready.gateway.cpu() - cpu;
    }
    asked / PINGS
}

const PINGS: u32 = 20_000;
const SESSIONS: usize = 3_000;
/// A session is forgotten half a minute after its last use, and at the next sweep.
const AT_REST: Duration = Duration::from_secs(65);
