//! What new sessions cost with all masks: the time of a gate, and the memory of a thousand sessions.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use toolgate::decide::Decide;
use toolgate::logic::types::masking::Masks;
use toolgate::logic::{Component, Supervisor};
use toolgate_tests::gateway::Gateway;
use toolgate_tests::race::verdict;

use super::ECHO;

/// Measures a gate of its own, and sessions that share gates.
pub fn sessions() {
    gate(&toolgate_tests::component());
    memory();
}

/// A gate in a new instance, up to the first masked text.
fn gate(component: &Component) {
    let mut first = Supervisor::new(component.clone()).expect("an instance starts");
    let mut settings = first.default_settings(&["it".to_owned()]).expect("it answers");
    settings.masks = Masks { groups: vec!["all".to_owned()], patterns: Vec::new(), custom: Vec::new() };
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let begun = Instant::now();
            let mut logic = Supervisor::new(component.clone()).expect("an instance starts");
            let gate = logic.open_gate(&settings).expect("it answers").expect("good settings");
            let masked = logic.mask_json(gate, "it", r#"{"password":"hunter22"}"#).expect("it answers");
            assert!(masked.contains("MASKED"), "{masked}");
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    let time = times[times.len() / 2];
    let is_good = time <= Duration::from_millis(1);
    verdict("a new gate with all masks, and its first text", &format!("{time:.2?}"), "at most 1 ms", is_good);
}

/// A gateway whose sessions belong to few principals.
fn memory() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let config = folder.path().join("toolgate.yaml");
    let mut yaml = format!("masking: {{groups: [all]}}\nservers: {{it: {{command: {ECHO:?}}}}}\n");
    yaml.push_str("gateway:\n  max_sessions: 2000\n  tokens:\n");
    for n in 0..PRINCIPALS {
        let _ = writeln!(yaml, "    - {{principal: p{n}, token: {}}}", token(n));
    }
    std::fs::write(&config, yaml).expect("the folder is writable");
    let gateway = Gateway::start(["--config".as_ref(), config.as_os_str()]);
    let session = |n| {
        let mut client = gateway.connect_as(&token(n % PRINCIPALS));
        client.call("it__echo", r#"{"text":"password: hunter22"}"#);
    };
    session(0);
    let before = gateway.memory();
    (0..SESSIONS).for_each(session);
    let (mib, more) = (gateway.memory() >> 20, (gateway.memory() - before) >> 10);
    let what = format!("memory with {SESSIONS} sessions of {PRINCIPALS} principals, all masks");
    verdict(&what, &format!("{mib} MiB"), "at most 120 MiB", mib <= 120);
    println!("{:<58} {:>10}", "memory of one more session", format!("{} KiB", more / SESSIONS));
}

fn token(n: usize) -> String {
    format!("bench-token-of-principal-number-{n:04}")
}

const SESSIONS: usize = 1000;
const PRINCIPALS: usize = 10;
