//! A simulation with the real registry, gates and component, random servers, and a virtual clock.
//!
//! Each schedule follows from its seed, except for the order in which Tokio wakes tasks that waited for the same thing.
//! `WORLD_SEED=7` repeats one schedule, and `WORLD_SCHEDULES=100` runs a hundred, or that one a hundred times. If a
//! schedule breaks a rule, its log is written to a file.

mod chance;
mod ledger;
mod life;
mod line;
mod panics;
mod plan;
mod records;
mod rules;
mod server;
mod states;
mod timelines;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use ledger::Story;
use life::Life;
use panics::Panics;
use rules::Broken;
use states::Moves;

#[test]
fn no_schedule_breaks_a_rule() {
    let (seed, count) = (number("WORLD_SEED"), number("WORLD_SCHEDULES"));
    let count = count.unwrap_or(if seed.is_some() { 1 } else { SCHEDULES });
    let next = Arc::new(AtomicU64::new(0));
    let (sender, receiver) = channel();
    let folder = tempfile::tempdir().expect("a folder can be made");
    for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
        let (next, sender) = (Arc::clone(&next), sender.clone());
        let folder = folder.path().to_owned();
        std::thread::spawn(move || {
            let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|n| *n < count);
            // Few enough in each folder that nobody looks for old files all the time.
            let records = |number: u64| folder.join((number / 50).to_string());
            let lives = numbers.map(|number| live(seed.unwrap_or(number), records(number)));
            lives.for_each(|lived| drop(sender.send(lived)));
        });
    }
    drop(sender);
    let (mut counts, mut broken) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for _ in 0..count {
        // The world's clock stands still while anything is to be done, so this is for a loop without end.
        let lived = receiver.recv_timeout(STUCK).unwrap_or_else(|_| {
            panic!("a schedule before {} has no end", next.load(Ordering::Relaxed));
        });
        match lived {
            Ok(more) => more.into_iter().for_each(|(code, count)| *counts.entry(code).or_default() += count),
            Err(why) => broken.push(why),
        }
    }
    println!("{counts:?}");
    let shown = broken.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(broken.is_empty(), "{} of {count} schedules broke a rule:\n{shown}", broken.len());
    let calls = counts.iter().filter(|(code, _)| **code != "turned away").map(|(_, count)| *count as u64).sum();
    records::replay(folder.path(), calls);
    // Otherwise the schedules are not wild enough to prove anything.
    let seen = |code: &&str| counts.get(code).is_some_and(|count| *count >= 20);
    assert!(count < SCHEDULES || CODES.iter().all(seen), "{counts:?}");
}

/// Lives one schedule: how calls ended, or the rule that it broke and where its story is to be read.
fn live(seed: u64, records: PathBuf) -> Result<BTreeMap<&'static str, usize>, Broken> {
    // The host draws from the generator of the thread.
    fastrand::seed(seed);
    let panics = Panics::listen();
    let (story, moves) = (Story::default(), Moves::default());
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime starts").block_on(async {
            let _watch = moves.watch();
            let life = Life::begin(seed, &story, moves.clone(), records);
            let recorder = life.recorder();
            let lived = tokio::time::timeout(DAY, life.live()).await;
            let lived = lived.unwrap_or_else(|_| Err("the schedule has no end".to_owned()));
            lived.and_then(|lived| records::check(&recorder).map(|()| lived))
        })
    }));
    let panics = panics.heard();
    let lived = match lived {
        Ok(lived) if panics.is_empty() => lived,
        _ => Err(panics.join("\n")),
    };
    lived.map_err(|why| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("world-{seed}.txt"));
        std::fs::write(&file, format!("{}\n{why}\n", story.text())).expect("the story is written");
        format!("WORLD_SEED={seed} ({}): {why}", file.display())
    })
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

const SCHEDULES: u64 = 2_000;
/// Longer than all limits of a schedule together, by the world's clock.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long one schedule may take by the clock on the wall.
const STUCK: Duration = Duration::from_secs(60);

/// How calls end when everything happens that can happen.
const CODES: [&str; 14] = [
    "ok",
    "tool-error",
    "rpc-error",
    "timeout",
    "cancelled",
    "queue-full",
    "outcome-unknown",
    "server-unavailable",
    "restart-in-progress",
    "restart-failed",
    "needs-auth",
    "not-allowed",
    "dropped",
    "turned away",
];
