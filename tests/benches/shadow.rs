//! What a shadow policy costs the calls of a gateway: nothing that can be measured of their time, and little processor time.
//!
//! Run with `cargo build --release --workspace && cargo bench -p toolgate-tests --bench shadow`. Two gateways run side by
//! side and are called in turns, so that a busy machine slows both of them down alike.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use toolgate_tests::gateway::Gateway;
use toolgate_tests::race::within;

fn main() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let servers = format!("servers: {{it: {{command: {ECHO}}}}}\n");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path
    };
    let plain = write("plain.yaml", &servers);
    let shadowed = write("shadowed.yaml", &format!("{servers}shadow: {{config: plain.yaml, sample: 1.0}}\n"));
    let gateways = [&plain, &shadowed].map(|config| Gateway::start(["--config".as_ref(), config.as_os_str()]));
    // Both warm up: servers are started, pages are touched.
    gateways.iter().for_each(|gateway| drop(load(gateway, CLIENTS, 200)));
    time_of_a_call(&gateways);
    work_of_a_call(&gateways);
    let counts = Counts::read(&gateways[1]);
    println!(
        "the shadow was asked about {} calls; {} left out, {} differ, {} failed",
        counts.same, counts.dropped, counts.different, counts.failed
    );
}

/// One client that calls again when it has its answer.
fn time_of_a_call([plain, shadowed]: &[Gateway; 2]) {
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (gateway, times) in [plain, shadowed].into_iter().zip(&mut times) {
            times.extend(load(gateway, 1, 500));
        }
    }
    let [plain, shadowed] = times.map(|mut times| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() * 99 / 100])
    });
    println!("{:<58} {:>10.2?}", "p50 of a call through a gateway", plain.0);
    within("p50 with a shadow policy", shadowed.0.as_secs_f64() / plain.0.as_secs_f64(), 1.03);
    println!("{:<58} {:>10.2?}", "p99 of a call through a gateway", plain.1);
    println!("{:<58} {:>10.2?}", "p99 with a shadow policy", shadowed.1);
}

/// Many clients at a time.
fn work_of_a_call([plain, shadowed]: &[Gateway; 2]) {
    let mut work: [Duration; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (gateway, work) in [plain, shadowed].into_iter().zip(&mut work) {
            let before = gateway.cpu();
            load(gateway, CLIENTS, CALLS);
            settle(gateway);
            *work += gateway.cpu().saturating_sub(before);
        }
    }
    let calls = (ROUNDS * CLIENTS * CALLS) as u32;
    println!("{:<58} {:>10.2?}", "CPU of a call through a gateway, 64 at a time", work[0] / calls);
    println!("{:<58} {:>10.2?}", "the same with a shadow policy", work[1] / calls);
    within("CPU with a shadow policy", work[1].as_secs_f64() / work[0].as_secs_f64(), 1.15);
}

/// Has so many clients make so many calls each.
fn load(gateway: &Gateway, clients: usize, calls: usize) -> Vec<Duration> {
    gateway.load(clients, clients * calls, "it__echo", &format!(r#"{{"text":"{TEXT}"}}"#))
}

/// What became of the calls that the shadow policy was asked about.
struct Counts {
    same: u64,
    different: u64,
    dropped: u64,
    failed: u64,
}

impl Counts {
    /// Reads the gateway's page about its shadow policy.
    fn read(gateway: &Gateway) -> Self {
        let page: Value = serde_json::from_slice(gateway.connect().get("/api/v1/shadow")).expect("JSON");
        let count = |name: &str| page["shadow"][name].as_u64().unwrap_or_default();
        Counts {
            same: count("same"),
            different: count("different"),
            dropped: count("dropped"),
            failed: count("failed"),
        }
    }

    fn sum(&self) -> u64 {
        self.same + self.different + self.dropped + self.failed
    }
}

/// Waits until the candidate has been asked about all calls.
fn settle(gateway: &Gateway) {
    let mut before = Counts::read(gateway).sum();
    loop {
        thread::sleep(Duration::from_millis(50));
        let now = Counts::read(gateway).sum();
        if now == before {
            return;
        }
        before = now;
    }
}

const ECHO: &str = env!("CARGO_BIN_EXE_echo");
const CLIENTS: usize = 64;
const CALLS: usize = 100;
const ROUNDS: usize = 10;
const TEXT: &str =
    "about a hundred bytes of text, as a model may well write them: small, but not so small as to be unreal";
