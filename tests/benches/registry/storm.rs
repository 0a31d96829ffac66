//! Many gates on many servers that are killed at random: who was told what, against what was done.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use toolgate::gate::Gate;
use toolgate::logic::types::execution::Code;
use toolgate::registry::Registry;
use toolgate_tests::rng::Rng;

use toolgate_tests::race::verdict;

use super::{FIXTURE, call, gate, kill, registry, runtime, tell};

/// Runs the storm and compares.
pub fn storm() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let runtime = runtime();
    let (reports, kills, registry, took) = runtime.block_on(run(folder.path()));
    let runs = runs(folder.path());
    let done = |report: &Report| runs.get(&report.text).copied().unwrap_or(0);

    tell(&format!("{} calls of {GATES} gates on {SERVERS} servers", reports.len()), format!("{:.1?}", took));
    tell("kill -9 of servers meanwhile", kills.len());
    tell("restarts", registry.statuses().iter().map(|status| status.restarts).sum::<u64>());
    let count = |wanted: &dyn Fn(&Report) -> bool| reports.iter().filter(|report| wanted(report)).count();

    let lost = count(&|report| report.code == Code::Ok && done(report) == 0);
    verdict("calls that were lost: answered, but never run", &lost.to_string(), "0", lost == 0);
    let twice = count(&|report| !report.safe && done(report) > 1);
    verdict("calls of unsafe tools that ran twice", &twice.to_string(), "0", twice == 0);
    let denied = count(&|report| !report.safe && !answered(report.code) && done(report) > 0);
    verdict("calls of unsafe tools that ran and were said not to", &denied.to_string(), "0", denied == 0);
    let thrice = count(&|report| report.safe && done(report) > 2);
    verdict("calls of safe tools that ran more than twice", &thrice.to_string(), "0", thrice == 0);

    let safe = count(&|report| report.safe);
    let good = count(&|report| report.safe && report.code == Code::Ok);
    let share = good as f64 / safe as f64;
    verdict("calls of safe tools that succeeded", &format!("{:.2} %", share * 100.0), "at least 99 %", share >= 0.99);
    tell("calls of safe tools that took two attempts", count(&|report| report.safe && report.attempts > 1));

    let unknown = count(&|report| report.code == Code::OutcomeUnknown);
    let hit = |report: &&Report| kills.iter().any(|kill| report.was_hit_by(kill));
    let unexplained = reports.iter().filter(|report| report.code == Code::OutcomeUnknown && !hit(report)).count();
    tell("calls whose outcome is unknown", unknown);
    verdict("of these, not in flight at a kill", &unexplained.to_string(), "0", unexplained == 0);
    let ran = count(&|report| report.code == Code::OutcomeUnknown && done(report) == 1);
    tell("of these, run", ran);
    let mut failures: HashMap<String, usize> = HashMap::new();
    for report in reports.iter().filter(|report| !answered(report.code)) {
        let kind = if report.safe { "safe" } else { "unsafe" };
        *failures.entry(format!("calls of {kind} tools that ended as {:?}", report.code)).or_default() += 1;
    }
    failures.iter().for_each(|(what, count)| tell(what, count));
    runtime.block_on(registry.close());
}

/// Whether this may be said of a call that ran.
fn answered(code: Code) -> bool {
    matches!(code, Code::Ok | Code::OutcomeUnknown)
}

/// What a gate was told of a call.
struct Report {
    server: usize,
    text: String,
    safe: bool,
    code: Code,
    attempts: u32,
    begun: Instant,
    ended: Instant,
}

/// When a server was killed: from the decision until it was dead.
struct Kill {
    server: usize,
    begun: Instant,
    ended: Instant,
}

impl Report {
    fn was_hit_by(&self, kill: &Kill) -> bool {
        self.server == kill.server && self.begun <= kill.ended && kill.begun <= self.ended
    }
}

type Course = (Vec<Report>, Vec<Kill>, Arc<Registry>, Duration);

async fn run(folder: &Path) -> Course {
    // Servers that die so often would be left alone for a minute with the usual delays.
    let server = |n: usize| {
        let folder = folder.display();
        format!("s{n}: {{command: {FIXTURE}, args: [works, {folder}/s{n}, \"5\"], restart_delays: [0s, 100ms, 500ms]}}")
    };
    let servers: Vec<_> = (0..SERVERS).map(server).collect();
    let registry = registry(&toolgate_tests::component(), &servers);
    let (ended, reports) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let begun = Instant::now();
    let calls: Vec<_> = (0..GATES)
        .map(|n| {
            let (gate, ended, reports) = (gate(&registry), Arc::clone(&ended), Arc::clone(&reports));
            tokio::spawn(async move {
                let mut rng = Rng::new(n as u64 + 1);
                for turn in 0..CALLS / GATES {
                    let report = one(&gate, rng.below(SERVERS), format!("{n}-{turn}"), turn % 2 == 0).await;
                    reports.lock().expect("nobody panics").push(report);
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (links, done) = (registry.links(), Arc::clone(&ended));
    let killer = std::thread::spawn(move || {
        let (mut rng, mut kills) = (Rng::new(7), Vec::new());
        let mut next = 0;
        loop {
            // Spread over the calls, not over the time: a slow machine sees as many.
            next += 1 + rng.below(2 * CALLS / KILLS);
            while done.load(Ordering::Relaxed) < next.min(CALLS) {
                std::thread::sleep(Duration::from_micros(200));
            }
            if next >= CALLS {
                return kills;
            }
            let running: Vec<_> =
                links.iter().enumerate().filter_map(|(n, link)| Some((n, link.status().pid?))).collect();
            if running.is_empty() {
                continue;
            }
            let (server, pid) = *rng.pick(&running);
            let begun = Instant::now();
            kill(pid);
            kills.push(Kill { server, begun, ended: Instant::now() });
        }
    });
    for call in calls {
        call.await.expect("no gate panics");
    }
    let took = begun.elapsed();
    let kills = killer.join().expect("the killer does not panic");
    let reports = std::mem::take(&mut *reports.lock().expect("nobody panics"));
    (reports, kills, registry, took)
}

async fn one(gate: &Gate, server: usize, text: String, safe: bool) -> Report {
    let name = format!("s{server}__{}", if safe { "look" } else { "note" });
    let begun = Instant::now();
    let called = call(gate, &name, format!(r#"{{"text":"{text}"}}"#)).await;
    if called.result.code == Code::Ok {
        assert_eq!(called.result.text, text, "an answer to another call");
    }
    let (code, attempts) = (called.result.code, called.result.attempts);
    Report { server, text, safe, code, attempts, begun, ended: Instant::now() }
}

/// How often each call was run, by the servers' own account.
fn runs(folder: &Path) -> HashMap<String, usize> {
    let mut runs = HashMap::new();
    for server in 0..SERVERS {
        let diary = std::fs::read_to_string(folder.join(format!("s{server}"))).unwrap_or_default();
        for text in diary.lines().filter_map(|line| line.strip_prefix("ran ")) {
            *runs.entry(text.to_owned()).or_default() += 1;
        }
    }
    runs
}

const GATES: usize = 100;
const SERVERS: usize = 20;
const CALLS: usize = 10_000;
const KILLS: usize = 200;
