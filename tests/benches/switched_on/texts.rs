//! Masks on ordinary texts of 1 MB, in the component.

use std::hint::black_box;
use std::time::{Duration, Instant};

use toolgate::decide::Decide;
use toolgate::logic::types::masking::Masks;
use toolgate_tests::race::verdict;
use toolgate_tests::rng::Rng;

/// Measures two groups on four texts.
pub fn texts() {
    let mut logic = toolgate_tests::supervisor();
    for (what, text) in [("prose", prose()), ("Rust code", code()), ("JSON of pods", pods()), ("log lines", logs())] {
        for (group, most) in [("basic", 6), ("all", 12)] {
            let masks = Masks { groups: vec![group.to_owned()], patterns: Vec::new(), custom: Vec::new() };
            let mut times: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let begun = Instant::now();
                    black_box(logic.mask(&masks, &text).expect("it answers").expect("good masks"));
                    begun.elapsed()
                })
                .collect();
            times.sort_unstable();
            let time = times[ROUNDS / 2];
            let is_good = time <= Duration::from_millis(most);
            let what = format!("mask 1 MB of {what}, group `{group}`");
            verdict(&what, &format!("{time:.2?}"), &format!("at most {most} ms"), is_good);
        }
    }
}

const ROUNDS: usize = 9;
const BYTES: usize = 1_000_000;

/// Repeats pieces of text until there is enough.
fn repeat(mut piece: impl FnMut(&mut Rng) -> String) -> String {
    let mut rng = Rng::new(1);
    let mut text = String::new();
    while text.len() < BYTES {
        text.push_str(&piece(&mut rng));
    }
    text
}

fn prose() -> String {
    let words = include_str!("../../../docs/src/gateway.md").split_whitespace().collect::<Vec<_>>();
    repeat(|rng| format!("{}{}", rng.pick(&words), if rng.one_in(12) { ".\n" } else { " " }))
}

fn code() -> String {
    repeat(|_| include_str!("../../../host/src/json.rs").to_owned())
}

/// A list as `kubectl get pods --output json` prints it.
fn pods() -> String {
    let pods = repeat(|rng| {
        let (name, address) = (rng.draw() % 100_000, rng.draw() % 250);
        let app = rng.pick(&["web", "api", "worker"]);
        serde_json::to_string_pretty(&serde_json::json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("{app}-{name:05}"), "namespace": "shop", "labels": {"app": app}},
            "spec": {
                "containers": [{
                    "name": app,
                    "image": format!("images.example/{app}:1.{address}"),
                    "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "PORT", "value": "8080"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}},
                }],
                "nodeName": format!("node-{}", address % 7),
            },
            "status": {"phase": "Running", "podIP": format!("10.0.3.{address}"), "qosClass": "Burstable"},
        }))
        .expect("it is JSON")
            + ",\n"
    });
    format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}", pods.trim_end_matches(",\n"))
}

fn logs() -> String {
    let mut second = 0;
    repeat(|rng| {
        second += 1;
        let path = rng.pick(&["/api/orders", "/api/orders/4711/items", "/healthz", "/static/app.js"]);
        let (level, millis) = (rng.pick(&["INFO", "DEBUG", "WARN"]), rng.below(900));
        let (minute, trace) = (second / 60 % 60, rng.draw() & 0xffff_ffff);
        let time = format!("2026-03-01T10:{minute:02}:{:02}.{millis:03}Z", second % 60);
        format!("{time} {level} [http] GET {path} 200 {millis}ms trace={trace:08x} user=anna client=10.0.0.7\n")
    })
}
