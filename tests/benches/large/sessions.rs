//! What the sessions of older clients cost: the time of a request in one, and the memory of those that rest.

use std::path::Path;
use std::time::Duration;

use toolgate_tests::race::verdict;

use super::configuration::Size;
use super::servers::Servers;
use super::{Ready, memory, time};

/// Measures pings with and without a session, and many sessions that nobody uses any more.
pub async fn sessions(folder: &Path) {
    let servers = Servers::start(1, 1).await;
    let ready = Ready::start(folder, &servers, Size { servers: 1, principals: 0, list: "all" }).await;
    let mut times = [Duration::ZERO; 2];
    for (time, is_modern) in times.iter_mut().zip([true, false]) {
        let mut client = ready.connect(0, is_modern).await;
        let mut asked = Duration::ZERO;
        for round in 0..2 {
            let cpu = ready.gateway.cpu();
            for _ in 0..PINGS {
                assert_eq!(client.status().await, 200);
            }
            // The first round only warms up.
            if round == 1 {
                asked = ready.gateway.cpu() - cpu;
            }
        }
        *time = asked / PINGS;
    }
    let [without, with] = times;
    time("processor time of a ping without a session", without);
    time("processor time of a ping in a session", with);
    let more = with.saturating_sub(without);
    verdict("what a session adds", &format!("{more:.2?}"), "at most 5 µs", more <= Duration::from_micros(5));

    let before = ready.gateway.memory();
    for _ in 0..SESSIONS {
        ready.connect(0, false).await;
    }
    memory(&format!("memory of {SESSIONS} new sessions"), ready.gateway.memory().saturating_sub(before));
    tokio::time::sleep(AT_REST).await;
    // The allocator keeps pages for a while; as many sessions again show whether the first ones are gone.
    let rested = ready.gateway.memory();
    for _ in 0..SESSIONS {
        ready.connect(0, false).await;
    }
    let more = ready.gateway.memory().saturating_sub(rested);
    let is_little = more < SESSIONS * 256;
    verdict("memory of as many again, after these rest", &format!("{} KiB", more >> 10), "hardly any", is_little);
}

const PINGS: u32 = 20_000;
const SESSIONS: usize = 3_000;
/// A session is forgotten half a minute after its last use, and at the next sweep.
const AT_REST: Duration = Duration::from_secs(65);
