//! The figures that the design promises, as ratios taken in one run.
//!
//! Run with `cargo bench -p toolgate-tests --bench figures`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use toolgate::decide::Decide;
use toolgate::logic::types::execution::{Directive, Event, ToolCall};
use toolgate::logic::types::rules::{AgentContext, Caller, Circumstances, Effect, Rule};
use toolgate::logic::types::{self, catalog::Offered};
use toolgate::logic::{Cache, Component, ComponentOptions, EMBEDDED, InstanceLimits};
use toolgate_guest as native;
use toolgate_tests::race::{base, race, report, verdict};

fn main() {
    let folder = std::env::temp_dir().join("toolgate-figures");
    let options = |fuel| ComponentOptions {
        limits: InstanceLimits { fuel, ..InstanceLimits::default() },
        cache: Cache::Dir(folder.clone()),
        ..ComponentOptions::default()
    };
    let fuelled = Component::embedded(&options(InstanceLimits::default().fuel)).expect("the component loads");
    let free = Component::embedded(&options(None)).expect("the component loads");
    calls(&free, &fuelled);
    rules(&fuelled);
    routing(&fuelled);
    search(&fuelled);
    starts();
    size_and_memory(&fuelled);
}

const ROUNDS: usize = 25;

const SCHEMA: &str = r#"{"type":"object","properties":{"namespace":{"type":"string"},"labels":{"type":"object"},"limit":{"type":"integer"},"query":{"type":"string"}},"required":["namespace"]}"#;

/// 200 bytes, as a model writes them.
fn arguments() -> String {
    let query = "x".repeat(200 - 88);
    let text = format!(
        r#"{{"namespace":"kube-system","limit":100,"labels":{{"app":"nginx","tier":"web"}},"query":"{query}"}}"#
    );
    assert_eq!(text.len(), 200, "the bench promises 200 bytes");
    text
}

/// 1 KB, as a server answers.
fn answer() -> String {
    let line = "pod-1   Running   10.0.0.1   node-7\\n";
    let text = line.repeat(27);
    let answer = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#);
    assert!((980..1060).contains(&answer.len()), "the bench promises 1 KB, not {}", answer.len());
    answer
}

/// `begin`, one answer, `done`: the plain code against the component.
fn calls(free: &Component, fuelled: &Component) {
    let (arguments, answer) = (arguments(), answer());
    let call = || ToolCall { id: "1".into(), name: "k8s__find".into(), arguments: arguments.clone() };

    let gate =
        native::execution::Gate::new(native::execution::Settings::new(["k8s".to_owned()])).expect("good settings");
    gate.offer(
        "k8s",
        vec![native::types::Tool { name: "find".into(), input_schema: Some(SCHEMA.into()), ..Default::default() }],
    );
    let mut plain = || {
        let call =
            native::execution::ToolCall { id: "1".into(), name: "k8s__find".into(), arguments: arguments.clone() };
        let (mut execution, directive) = gate.begin(call);
        black_box(directive);
        black_box(execution.next(native::execution::Event::Answered(answer.clone())));
    };

    let instance = |component: &Component| {
        let mut instance = component.instantiate().expect("an instance starts");
        let settings = instance.default_settings(&["k8s".to_owned()]).expect("it answers");
        let gate = instance.new_gate(&settings).expect("it answers").expect("good settings");
        instance.offer(&gate, "k8s", &[tool("find")]).expect("it answers");
        (instance, gate)
    };
    let run = |(instance, gate): &mut (toolgate::logic::Instance, toolgate::logic::GateHandle)| {
        let (execution, directive) = instance.begin(gate, &call()).expect("it answers");
        black_box(directive);
        black_box(instance.next(&execution, &Event::Answered(answer.clone())).expect("it answers"));
        instance.drop_execution(execution).expect("it answers");
    };
    let (mut free, mut fuelled_instance) = (instance(free), instance(fuelled));
    let mut supervisor = toolgate::logic::Supervisor::new(fuelled.clone()).expect("it starts");
    let settings = supervisor.default_settings(&["k8s".to_owned()]).expect("it answers");
    let supervised_gate = supervisor.open_gate(&settings).expect("it answers").expect("good settings");
    supervisor.offer(supervised_gate, "k8s", &[tool("find")]).expect("it answers");
    let mut supervised = || {
        let (execution, directive) = supervisor.begin(supervised_gate, call()).expect("it answers");
        black_box(directive);
        black_box(supervisor.next(execution, Event::Answered(answer.clone())).expect("it answers"));
    };
    let [plain, free, fuelled, supervised] =
        race(ROUNDS, 2_000, [&mut plain, &mut || run(&mut free), &mut || run(&mut fuelled_instance), &mut supervised]);
    base("call, plain code", plain);
    report("call, component without fuel", free, plain, 2.5);
    report("call, component with fuel", fuelled, plain, 4.0);
    report("call, component with fuel, supervised", supervised, plain, 4.0);
}

/// A call as above with rules, of which three are for its tool: what they cost beyond a call without any.
fn rules(component: &Component) {
    let (arguments, answer) = (arguments(), answer());
    let caller = Caller { principal: Some("ann".into()), groups: Vec::new(), admin: false, client: "agent".into() };
    let context = AgentContext { labels: vec!["private".into()], known: (0..20).map(|value| (value, value)).collect() };
    let circumstances = Circumstances { caller, now_ms: Some(1_790_000_000_000), context };
    let contender = |count: usize| {
        let mut logic = toolgate::logic::Supervisor::new(component.clone()).expect("it starts");
        let mut settings = logic.default_settings(&["k8s".to_owned()]).expect("it answers");
        let rule = |number: usize| Rule {
            name: format!("rule {number}"),
            tools: vec![if number < 3 { "k8s.find".to_owned() } else { format!("k8s.other_{number}_*") }],
            condition: Some(CONDITIONS[number % 3].to_owned()),
            effect: Effect::Deny,
            limit: None,
            because: None,
        };
        settings.rules.lists = vec![(0..count).map(rule).collect()];
        let gate = logic.open_gate(&settings).expect("it answers").expect("good settings");
        logic.offer(gate, "k8s", &[tool("find")]).expect("it answers");
        (logic, gate)
    };
    let run = |(logic, gate): &mut (toolgate::logic::Supervisor, toolgate::decide::GateId)| {
        let call = ToolCall { id: "1".into(), name: "k8s__find".into(), arguments: arguments.clone() };
        let (execution, mut directive) = logic.begin(*gate, call).expect("it answers");
        if let Directive::Circumstances(_) = directive {
            directive = logic.next(execution, Event::Circumstances(circumstances.clone())).expect("it answers");
        }
        assert!(matches!(directive, Directive::Request(_)), "{directive:?}");
        black_box(logic.next(execution, Event::Answered(answer.clone())).expect("it answers"));
    };
    let (mut none, mut few, mut many) = (contender(0), contender(20), contender(200));
    let [none, few, many] =
        race(ROUNDS, 1_000, [&mut || run(&mut none), &mut || run(&mut few), &mut || run(&mut many)]);
    base("call without rules, supervised", none);
    for (name, time, most) in [("call with 20 rules", few, 10), ("call with 200 rules", many, 25)] {
        let more = time.saturating_sub(none);
        let wanted = format!("at most {most}µs more than without");
        verdict(name, &format!("+{more:.2?}"), &wanted, more <= Duration::from_micros(most));
    }
}

/// What the three rules for the tool of the bench say; no call of it fits.
const CONDITIONS: [&str; 3] = [
    r#""untrusted" in labels && !known(args.query)"#,
    r#"args.limit > 1000 || args.labels.app == "postgres""#,
    r#"!path.within("/srv/agent/" + args.namespace, "/srv/agent") || args.query.matches("^(drop|delete) ")"#,
];

fn tool(name: &str) -> types::Tool {
    let annotations = types::Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
    types::Tool { name: name.to_owned(), description: None, input_schema: Some(SCHEMA.to_owned()), annotations }
}

/// A name in a small catalog against one in a large catalog.
fn routing(component: &Component) {
    let catalog = |tools: usize| {
        let mut instance = component.instantiate().expect("an instance starts");
        let tools = (0..tools).map(|n| tool(&format!("tool_{n}"))).collect();
        let offered = [Offered { server: "k8s".to_owned(), tools }];
        let catalog = instance.new_catalog(&offered, false).expect("it answers");
        (instance, catalog)
    };
    let (mut small, mut large) = (catalog(10), catalog(10_000));
    let run = |(instance, catalog): &mut (toolgate::logic::Instance, toolgate::logic::CatalogHandle), name: &str| {
        black_box(instance.resolve(catalog, name).expect("it answers").expect("the tool is there"));
    };
    let [small, large] =
        race(ROUNDS, 5_000, [&mut || run(&mut small, "k8s__tool_7"), &mut || run(&mut large, "k8s__tool_7777")]);
    base("routing among 10 tools, component", small);
    report("routing among 10,000 tools, component", large, small, 1.5);
}

/// Queries through a gate with few and with many tools, and the memory of an index.
fn search(component: &Component) {
    let gate = |count: usize| {
        let mut instance = component.instantiate().expect("an instance starts");
        let settings = instance.default_settings(&["shop".to_owned()]).expect("it answers");
        let gate = instance.new_gate(&settings).expect("it answers").expect("good settings");
        let tools: Vec<_> = (0..count).map(described_tool).collect();
        instance.offer(&gate, "shop", &tools).expect("it answers");
        (instance, gate)
    };
    let find = |(instance, gate): &mut (toolgate::logic::Instance, toolgate::logic::GateHandle)| {
        let found = instance.gate_search(gate, QUERY, 5, None).expect("it answers");
        assert_eq!(black_box(found).len(), 5);
    };
    let (mut few, mut many, mut thousand) = (gate(100), gate(4_000), gate(1_000));
    let before = thousand.0.memory_bytes();
    find(&mut thousand);
    let index = (thousand.0.memory_bytes() - before) as f64 / f64::from(1 << 20);
    let [few, many] = race(ROUNDS, 50, [&mut || find(&mut few), &mut || find(&mut many)]);
    for (tools, time, most) in [("100", few, 200), ("4,000", many, 2_000)] {
        let name = format!("search among {tools} tools with 500 B of text, component");
        let most = Duration::from_micros(most);
        verdict(&name, &format!("{time:.2?}"), &format!("at most {most:?}"), time <= most);
    }
    println!("{:<58} {index:>6.2} MiB  (at most 2 MiB)", "memory of an index of 1,000 such tools");
}

const QUERY: &str = "find the open orders of a customer";

/// A tool with 500 bytes of text, made of the words of a shop.
fn described_tool(number: usize) -> types::Tool {
    let words =
        ["order", "customer", "invoice", "article", "refund", "basket", "address", "payment", "parcel", "stock"];
    let verbs = ["list", "get", "create", "update", "delete", "find", "export", "count", "archive", "share"];
    let (verb, word) = (verbs[number % 10], words[number / 10 % 10]);
    let mut text = format!("{verb} one {word} of department {number}: ");
    for n in 0.. {
        let next = words[(number + n * n) % 10];
        if text.len() + next.len() + 4 > 500 {
            break;
        }
        text += &format!("{next}{} ", (number * 7 + n) % 97);
    }
    types::Tool { description: Some(text), ..tool(&format!("{verb}_{word}_{number}")) }
}

/// `toolgate eval` with one line against a program that does nothing.
fn starts() {
    let folder = std::env::current_exe().expect("a bench has a path");
    let release = folder.ancestors().nth(2).expect("benches lie in target/release/deps").to_owned();
    let (empty, toolgate) = (release.join("empty"), release.join("toolgate"));
    if !toolgate.exists() || !empty.exists() {
        println!("start of `toolgate eval`: SKIPPED, first run `cargo build --release --workspace`");
        return;
    }
    let input = std::env::temp_dir().join("toolgate-figures-line");
    std::fs::write(&input, "{\"op\":\"normalize\",\"name\":\"a__b\"}\n")
        .expect("the folder for temporary files is writable");
    let [empty, toolgate] =
        race(ROUNDS, 20, [&mut || start(&empty, &[], &input), &mut || start(&toolgate, &["eval"], &input)]);
    base("start and end of an empty program", empty);
    report("start and end of `toolgate eval` with one line, warm cache", toolgate, empty, 6.0);
}

fn start(program: &PathBuf, arguments: &[&str], input: &Path) {
    let line = std::fs::File::open(input).expect("the line was written");
    let status = Command::new(program).args(arguments).stdin(line).stdout(Stdio::null()).status();
    assert!(status.expect("the program starts").success());
}

fn size_and_memory(component: &Component) {
    println!("{:<58} {:>8} B  (at most 2500000 B)", "component file", EMBEDDED.len());
    let mut instance = component.instantiate().expect("an instance starts");
    let settings = instance.default_settings(&["k8s".to_owned()]).expect("it answers");
    let gate = instance.new_gate(&settings).expect("it answers").expect("good settings");
    let schema = format!(r#"{{"type":"object","description":"{}"}}"#, "d".repeat(466));
    assert_eq!(schema.len(), 500);
    let tools: Vec<_> =
        (0..1_000).map(|n| types::Tool { input_schema: Some(schema.clone()), ..tool(&format!("tool_{n}")) }).collect();
    instance.offer(&gate, "k8s", &tools).expect("it answers");
    let mib = instance.memory_bytes() as f64 / f64::from(1 << 20);
    println!("{:<58} {mib:>6.2} MiB  (at most 8 MiB)", "memory of a gate with 1,000 tools of 500 B schemas");
}
