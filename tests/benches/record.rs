//! What recording costs a gateway, and how fast what it records is replayed.
//!
//! Run with `cargo build --release --workspace && cargo bench -p toolgate-tests --bench record`. Two gateways run as
//! processes of their own, one of which records; their processor time is theirs alone.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use toolgate::decide::Decide;
use toolgate::gate::{CallOptions, Gate, GateView};
use toolgate::logic::Supervisor;
use toolgate::logic::types::execution::{Event, Summary, ToolCall};
use toolgate::record::{Backtest, Candidate, RecordFilter};
use toolgate::registry::{Registry, RegistryOptions};
use toolgate_tests::race::{base, compare, race};

fn main() {
    gateways();
    replay();
}

/// A gateway that records against one that does not.
fn gateways() {
    let folder = std::env::current_exe().expect("a bench has a path");
    let release = folder.ancestors().nth(2).expect("benches lie in target/release/deps").to_owned();
    let toolgate = release.join("toolgate");
    if !toolgate.exists() {
        println!("a gateway that records: SKIPPED, first run `cargo build --release --workspace`");
        return;
    }
    let place = tempfile::tempdir().expect("a folder can be made");
    let config = place.path().join("toolgate.yaml");
    let yaml = format!("servers: {{it: {{command: {:?}, protocol: legacy, eager: true}}}}", env!("CARGO_BIN_EXE_echo"));
    std::fs::write(&config, yaml).expect("the folder is writable");
    let records = place.path().join("records");
    let plain = Gateway::start(&toolgate, &config, None);
    let recording = Gateway::start(&toolgate, &config, Some(&records));
    let (mut one, mut other) = (plain.client(), recording.client());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (client, times) in [&mut one, &mut other].into_iter().zip(&mut times) {
            for _ in 0..IN_A_ROW {
                let since = Instant::now();
                client.call();
                times.push(since.elapsed());
            }
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
            gateway.side_by_side();
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
    println!("{:<58} {:>8} B  (at most 2048 B)", "record of a small call", bytes / lines.max(1));
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
        dir,
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
    println!("{:<58} {speed:>8.2} ×  (at least 0.5 ×) {}", "replay, as fast as the loop", verdict(speed >= 0.5));
}

fn within(what: &str, ratio: f64, most: f64) {
    println!("{what:<58} {ratio:>8.3} ×  (at most {most} ×) {}", verdict(ratio <= most));
}

fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "MISSED" }
}

/// A gateway that runs.
struct Gateway {
    process: Child,
    address: String,
}

impl Gateway {
    fn start(toolgate: &PathBuf, config: &Path, records: Option<&Path>) -> Self {
        let mut command = Command::new(toolgate);
        command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(config);
        if let Some(records) = records {
            command.arg("--record").arg(records);
        }
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the gateway starts");
        let mut lines = BufReader::new(process.stderr.take().expect("it has one")).lines();
        let listening = lines.find_map(|line| line.ok()?.split_once("//").map(|(_, rest)| rest.to_owned()));
        let address = listening.expect("it says where").trim_end_matches("/mcp").to_owned();
        // What else it has to say is read, so that it never waits.
        std::thread::spawn(move || lines.for_each(drop));
        Gateway { process, address }
    }

    fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// Its processor time, in the ticks of the system.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs on Linux");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("it has fields").split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }

    fn side_by_side(&self) {
        let left = AtomicUsize::new(SIDE_BY_SIDE);
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    let mut client = self.client();
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                        client.call();
                    }
                });
            }
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // A signal, so that what was recorded last is written.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// A client of 2026-07-28 on one connection.
struct Client {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: String,
    body: Vec<u8>,
}

impl Client {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("it is a socket");
        let meta = concat!(
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"#,
            r#""io.modelcontextprotocol/clientCapabilities":{}}"#
        );
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"it__echo","arguments":{{"text":"{TEXT}"}},"_meta":{meta}}}}}"#
        );
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
             Mcp-Name: it__echo\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body.as_bytes()].concat();
        Client { stream: BufReader::new(stream), request, line: String::new(), body: Vec::new() }
    }

    fn call(&mut self) {
        self.stream.get_mut().write_all(&self.request).expect("it reads");
        let mut length = 0;
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line).expect("it answers");
            let line = self.line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length is a number");
            }
            if line.is_empty() {
                break;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body).expect("it answers");
        assert!(self.body.windows(8).any(|part| part == b"\"result\""), "{}", String::from_utf8_lossy(&self.body));
    }
}

const ROUNDS: usize = 10;
const IN_A_ROW: usize = 500;
const SIDE_BY_SIDE: usize = 10_000;
const AT_A_TIME: usize = 64;
const RECORDS: usize = 20_000;
const TEXT: &str =
    "about a hundred bytes of text, as a model may well write them: small, but not so small as to be unreal";
