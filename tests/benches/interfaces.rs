//! Every interface, as plain code and through the component.
//!
//! Run with `cargo bench -p toolgate-tests --bench interfaces`.

use divan::Bencher;
use toolgate::decide::Decide;
use toolgate::eval;
use toolgate_tests::native::Native;

fn main() {
    divan::main();
}

/// A question of each kind.
const QUESTIONS: [(&str, &str); 13] = [
    ("naming", r#"{"op":"split","name":"kubernetes-server.get_pods"}"#),
    (
        "fit",
        r#"{"op":"fit","target":"gemini","tools":[{"server":"a","tool":"b","schema":{"type":"object","properties":{"n":{"type":["integer","null"]}}}}]}"#,
    ),
    ("arguments json", r#"{"op":"arguments","text":"{\"namespace\":\"default\",\"limit\":10}"}"#),
    ("arguments key-value", r#"{"op":"arguments","text":"namespace: default, limit: 10"}"#),
    ("arguments yaml", r#"{"op":"arguments","text":"names:\n  - a\n  - b\nn: 1"}"#),
    (
        "filtering",
        r#"{"op":"filter","allow":["get_*"],"deny":["*secret*"],"tools":["get_pods","get_secrets","delete_pod"]}"#,
    ),
    ("recovery", r#"{"op":"classify","failure":{"kind":"closed"},"phase":"sent"}"#),
    ("backoff", r#"{"op":"backoff","attempt":3}"#),
    ("lifecycle", r#"{"op":"lifecycle","events":[{"at_ms":0,"event":"wanted"},{"at_ms":40,"event":"connected"}]}"#),
    ("content", r#"{"op":"extract","result":{"content":[{"type":"text","text":"hello"}]}}"#),
    ("masking", r#"{"op":"mask","groups":["basic"],"text":"password: hunter2hunter2"}"#),
    ("catalog", r#"{"op":"instructions","servers":{"a":{"instructions":"Be kind.","tools":{"x":"note"}}}}"#),
    (
        "execution",
        r#"{"op":"execute","servers":{"a":{"tools":["x"]}},"call":{"name":"a.x"},"events":[{"answered":{"content":[]}}]}"#,
    ),
];

fn names() -> impl Iterator<Item = &'static str> {
    QUESTIONS.iter().map(|(name, _)| *name)
}

fn question(name: &str) -> &'static str {
    QUESTIONS.iter().find(|(known, _)| *known == name).expect("the name is one of the questions").1
}

#[divan::bench(args = names())]
fn plain(bencher: Bencher<'_, '_>, name: &str) {
    let mut logic = Native::default();
    bencher.bench_local(|| eval::answer(&mut logic, question(name)));
}

#[divan::bench(args = names())]
fn component(bencher: Bencher<'_, '_>, name: &str) {
    let mut logic = toolgate_tests::supervisor();
    bencher.bench_local(|| eval::answer(&mut logic, question(name)));
}

/// Opening a gate with so many tools, and one call through it.
fn catalog(bencher: Bencher<'_, '_>, logic: &mut impl Decide, tools: usize) {
    use toolgate::logic::types::{Annotations, Tool, execution::ToolCall};
    let settings = logic.default_settings(&["a".to_owned()]).expect("it answers");
    let gate = logic.open_gate(&settings).expect("it answers").expect("good settings");
    let annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
    let tool = |n: usize| Tool { name: format!("tool_{n}"), description: None, input_schema: None, annotations };
    let offered: Vec<Tool> = (0..tools).map(tool).collect();
    logic.offer(gate, "a", &offered).expect("it answers");
    let name = format!("a__tool_{}", tools / 2);
    bencher.bench_local(|| {
        let call = ToolCall { id: String::new(), name: name.clone(), arguments: String::new() };
        let (execution, _) = logic.begin(gate, call).expect("it answers");
        logic.end(execution).expect("it answers");
    });
}

#[divan::bench(args = [10, 1_000, 10_000])]
fn route_plain(bencher: Bencher<'_, '_>, tools: usize) {
    catalog(bencher, &mut Native::default(), tools);
}

#[divan::bench(args = [10, 1_000, 10_000])]
fn route_component(bencher: Bencher<'_, '_>, tools: usize) {
    catalog(bencher, &mut toolgate_tests::supervisor(), tools);
}
