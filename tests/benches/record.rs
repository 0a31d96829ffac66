//! What recording costs a gateway, and how fast what it records is replayed.
//!
//! Run with `cargo build --release --workspace && cargo bench -p toolgate-tests --bench record`. Two gateways run as
//! processes of their own, one of which records; their processor time is theirs alone.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use toolgate::decide::Decide;
use toolgate::gate::{CallOptions, Gate, GateView};
use toolgate::logic::Supervisor;
use toolgate::logic::types::execution::{Event, Summary, ToolCall};
use toolgate::record::{Backtest, Candidate, RecordFilter};
use toolgate::registry::{Registry, RegistryOptions};
use toolgate_tests::gateway::Gateway;
use toolgate_tests::race::{base, compare, race, verdict, within};

fn main() {
    gateways();
    replay();
}

/// A gateway that records against one that does not.
fn gateways() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let config = place.path().join("toolgate.yaml");
    let yaml = format!("servers: {{it: {{command: {:?}, protocol: legacy, eager: true}}}}", env!("CARGO_BIN_EXE_echo"));
    std::fs::write(&config, yaml).expect("the folder is writable");
    let records = place.path().join("records");
    let plain = Gateway::start(["--config".as_ref(), config.as_os_str()]);
    let recording = Gateway::start(["--config".as_ref(), config.as_os_str(), "--record".as_ref(), records.as_os_str()]);
    let arguments = format!(r#"{{"text":"{TEXT}"}}"#);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (gateway, times) in [&plain, &recording].into_iter().zip(&mut times) {
            times.extend(gateway.load(1, IN_A_ROW, "it__echo", &arguments));
        }
    }
    let [without, with] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    base("p50 of a gateway call", without);
    within("p50 of a gateway call, recorded", with.as_secs_f64() / without.as_secs_f64(), 1.05);
    // The ticks of the system's count are long, so there are many calls to each reading.
    let mut cpu = [Duration::ZERO; 2];
    for _ in 0..ROUNDS {
        for (gateway, cpu) in [&plain, &recording].into_iter().zip(&mut cpu) {
            let before = gateway.cpu();
            gateway.load(AT_A_TIME, SIDE_BY_SIDE, "it__echo", &arguments);
            *cpu += gateway.cpu() - before;
        }
    }
    let [without, with] = cpu.map(|cpu| cpu / (ROUNDS * SIDE_BY_SIDE) as u32);
    base(&format!("processor time of a gateway call, {AT_A_TIME} at a time"), without);
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    within("processor time of a gateway call, recorded", ratio, 1.10);
    drop((plain, recording));
    let files =
        std::fs::read_dir(&records).expect("calls were recorded").flatten().filter(|entry| entry.path().is_file());
    let (mut bytes, mut lines) = (0, 0);
    for entry in files {
        let text = std::fs::read(entry.path()).expect("records can be read");
        bytes += text.len();
        lines += text.iter().filter(|byte| **byte == b'\n').count();
    }
    let bytes = bytes / lines.max(1);
    verdict("record of a small call", &format!("{bytes} B"), "at most 2048 B", bytes <= 2048);
    println!("{:<58} {lines:>10}", "calls recorded");
}

/// Replays calls, against the loop of directives alone.
fn replay() {
    let component = toolgate_tests::component();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let dir = folder.path().join("records");
    let arguments = |n: usize| format!(r#"{{"a":{n},"b":2}}"#);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let (settings, tools) = runtime.block_on(async {
        let yaml = "servers: {demo: {command: none}}";
        let config = toolgate::config::parse(yaml, Path::new("toolgate.yaml")).expect("the configuration is right");
        let local =
            std::sync::Arc::new(toolgate::demo::InProcessDemo) as std::sync::Arc<dyn toolgate::transport::Connect>;
        let transports = std::collections::HashMap::from([("demo".to_owned(), local)]);
        let options = RegistryOptions { transports, record: Some(dir.clone()), ..RegistryOptions::default() };
        let registry = Registry::new(&component, config, options).expect("the component starts");
        let gate =
            Gate::open(&registry, GateView { pass_through: true, ..GateView::default() }).expect("the gate opens");
        gate.refresh().await;
        for n in 0..RECORDS {
            let call = ToolCall { id: n.to_string(), name: "demo__add".to_owned(), arguments: arguments(n) };
            gate.call(call, &CallOptions::default()).await.expect("the component answers");
            if n % 1000 == 0 {
                registry.recorder().expect("calls are recorded").flush(Duration::from_secs(60));
            }
        }
        registry.close().await;
        let mut logic = Supervisor::new(component.clone()).expect("it starts");
        let settings = logic.default_settings(&["demo".to_owned()]).expect("it answers");
        let link = registry.link("demo").expect("it is there");
        (settings, link.known_tools().expect("it listed its tools"))
    });
    let mut logic = Supervisor::new(component.clone()).expect("it starts");
    let gate = logic.open_gate(&settings).expect("it answers").expect("good settings");
    logic.offer(gate, "demo", &tools.offered).expect("it answers");
    let test = Backtest {
        dirs: vec![dir],
        candidate: Candidate::default(),
        filter: RecordFilter::default(),
        options: component.options().clone(),
        threads: 1,
    };
    let [bare, replayed] = race(
        5,
        1,
        [
            &mut || {
                for n in 0..RECORDS {
                    let call = ToolCall { id: n.to_string(), name: "demo__add".to_owned(), arguments: arguments(n) };
                    let (execution, directive) = logic.begin(gate, call).expect("it answers");
                    black_box(directive);
                    let event = Event::Forwarded(Summary { is_error: false });
                    black_box(logic.next(execution, event).expect("it answers"));
                }
            },
            &mut || {
                let report = test.run(&|_| {}).expect("there are records");
                assert!(report.is_sound() && report.same == RECORDS as u64, "{report:?}");
            },
        ],
    )
    .map(|time| time / RECORDS as u32);
    base("the loop of directives alone, a call", bare);
    compare("replay, a call", replayed, bare);
    let speed = bare.as_secs_f64() / replayed.as_secs_f64();
    verdict("replay, as fast as the loop", &format!("{speed:.2} ×"), "at least 0.5 ×", speed >= 0.5);
}

const ROUNDS: usize = 10;
const IN_A_ROW: usize = 500;
const SIDE_BY_SIDE: usize = 10_000;
const AT_A_TIME: usize = 64;
const RECORDS: usize = 20_000;
const TEXT: &str =
    "about a hundred bytes of text, as a model may well write them: small, but not so small as to be unreal";
