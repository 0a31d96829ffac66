//! Compares the component with the native code; any difference is a fault of the boundary.

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate::eval;
use toolgate::logic::Supervisor;
use toolgate::logic::types::{arguments, execution, recovery};
use toolgate::words::NamedCase;
use toolgate_tests::generate;
use toolgate_tests::native::Native;
use toolgate_tests::rng::Rng;

/// How often each thing must have come up for the comparison to mean something.
const ENOUGH: usize = 200;

struct Pair {
    component: Supervisor,
    native: Native,
    asked: usize,
    seen: BTreeMap<String, usize>,
}

impl Pair {
    fn new() -> Self {
        let (component, native) = (toolgate_tests::supervisor(), Native::default());
        Pair { component, native, asked: 0, seen: BTreeMap::new() }
    }

    /// Asks both, and gives the answer that they agree on.
    fn ask(&mut self, question: &Value) -> Value {
        let line = generate::line(question);
        let answer = eval::answer(&mut self.component, &line);
        assert_eq!(answer, eval::answer(&mut self.native, &line), "the sandbox changes the answer to {line}");
        self.asked += 1;
        serde_json::from_str(&answer).expect("an answer is JSON")
    }

    fn saw(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_default() += 1;
    }

    fn assert_enough<T: NamedCase>(&self) {
        for (_, name) in T::ALL {
            let seen = self.seen.get(*name).copied().unwrap_or(0);
            assert!(seen >= ENOUGH, "{name} came up {seen} times only: {:?}", self.seen);
        }
    }
}

#[test]
fn arguments_are_read_alike_in_every_stage() {
    let (mut pair, mut rng) = (Pair::new(), Rng::new(1));
    for _ in 0..5_000 {
        let answer = pair.ask(&generate::arguments(&mut rng));
        pair.saw(answer["ok"]["stage"].as_str().unwrap_or("refused"));
    }
    pair.assert_enough::<arguments::Stage>();
}

#[test]
fn failures_are_classified_alike_in_every_action() {
    let (mut pair, mut rng) = (Pair::new(), Rng::new(2));
    for _ in 0..8_000 {
        let answer = pair.ask(&generate::classify(&mut rng));
        pair.saw(answer["ok"]["action"].as_str().expect("every failure has an action"));
    }
    pair.assert_enough::<recovery::Action>();
}

#[test]
fn lifecycles_go_alike_through_every_state_and_event() {
    let (mut pair, mut rng) = (Pair::new(), Rng::new(3));
    for (state, path) in generate::PATHS {
        for event in generate::EVENTS {
            for _ in 0..ENOUGH {
                let question = generate::lifecycle(&mut rng, path, event);
                let answer = pair.ask(&question);
                let steps = answer["ok"].as_array().expect("every lifecycle has steps");
                let before =
                    steps.get(path.len().wrapping_sub(1)).map_or("dormant", |step| step["state"].as_str().unwrap());
                if before == state {
                    pair.saw(&format!("{state} {event}"));
                }
            }
        }
    }
    for (state, _) in generate::PATHS {
        for event in generate::EVENTS {
            let seen = pair.seen.get(&format!("{state} {event}")).copied().unwrap_or(0);
            assert!(seen >= ENOUGH, "{event} came up {seen} times only in {state}");
        }
    }
}

#[test]
fn calls_end_alike_in_every_code() {
    let (mut pair, mut rng) = (Pair::new(), Rng::new(4));
    for ending in 0..generate::ENDINGS {
        for _ in 0..2 * ENOUGH {
            let answer = pair.ask(&generate::execute(&mut rng, ending));
            let last = answer["ok"].as_array().and_then(|steps| steps.last()).expect("every call has directives");
            if let Some(code) = last["done"]["code"].as_str() {
                pair.saw(code);
            }
        }
    }
    for _ in 0..4_000 {
        pair.ask(&generate::wander(&mut rng));
    }
    pair.assert_enough::<execution::Code>();
}

#[test]
fn everything_else_is_decided_alike() {
    let (mut pair, mut rng) = (Pair::new(), Rng::new(5));
    for _ in 0..4_000 {
        pair.ask(&generate::resolve(&mut rng));
        pair.ask(&generate::small(&mut rng));
    }
    for _ in 0..150 {
        pair.ask(&generate::mask(&mut rng));
    }
    assert!(pair.asked >= 8_000);
}
