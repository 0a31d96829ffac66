//! What a candidate in the shade costs the calls of a gateway: nothing that can be measured of their time, and little of the
//! processor's.
//!
//! Run with `cargo build --release --workspace && cargo bench -p toolgate-tests --bench shadow`. Two gateways run side by
//! side and are called in turns, so that a busy machine slows both of them down alike.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

fn main() {
    let bench = std::env::current_exe().expect("a bench has a path");
    let toolgate = bench.ancestors().nth(2).expect("benches lie in target/release/deps").join("toolgate");
    if !toolgate.exists() {
        println!("shadow: SKIPPED, first run `cargo build --release --workspace`");
        return;
    }
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let servers = format!("servers: {{it: {{command: {ECHO}}}}}\n");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path
    };
    let plain = write("plain.yaml", &servers);
    let shaded = write("shaded.yaml", &format!("{servers}shadow: {{config: plain.yaml, sample: 1.0}}\n"));
    let gateways = [Gateway::start(&toolgate, &plain), Gateway::start(&toolgate, &shaded)];
    // Both warm up: servers are started, pages are touched.
    gateways.iter().for_each(|gateway| drop(gateway.load(CLIENTS, 200)));
    time_of_a_call(&gateways);
    work_of_a_call(&gateways);
    let counts = gateways[1].counts();
    println!(
        "the shadow was asked about {} calls; {} left out, {} differ, {} failed",
        counts.same, counts.dropped, counts.different, counts.failed
    );
}

/// One client that calls again when it has its answer.
fn time_of_a_call([plain, shaded]: &[Gateway; 2]) {
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (gateway, times) in [plain, shaded].into_iter().zip(&mut times) {
            times.extend(gateway.load(1, 500));
        }
    }
    let [plain, shaded] = times.map(|mut times| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() * 99 / 100])
    });
    println!("{:<58} {:>10.2?}", "p50 of a call through a gateway", plain.0);
    judge("p50 with a candidate in the shade", shaded.0.as_secs_f64() / plain.0.as_secs_f64(), 1.03);
    println!("{:<58} {:>10.2?}", "p99 of a call through a gateway", plain.1);
    println!("{:<58} {:>10.2?}", "p99 with a candidate in the shade", shaded.1);
}

/// Many clients at a time.
fn work_of_a_call([plain, shaded]: &[Gateway; 2]) {
    let mut work: [Duration; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (gateway, work) in [plain, shaded].into_iter().zip(&mut work) {
            let before = gateway.work();
            gateway.load(CLIENTS, CALLS);
            gateway.settle();
            *work += gateway.work().saturating_sub(before);
        }
    }
    let calls = (ROUNDS * CLIENTS * CALLS) as u32;
    println!("{:<58} {:>10.2?}", "CPU of a call through a gateway, 64 at a time", work[0] / calls);
    println!("{:<58} {:>10.2?}", "the same with a candidate in the shade", work[1] / calls);
    judge("CPU with a candidate in the shade", work[1].as_secs_f64() / work[0].as_secs_f64(), 1.15);
}

fn judge(what: &str, ratio: f64, limit: f64) {
    let verdict = if ratio <= limit { "ok" } else { "TOO MUCH" };
    println!("{what:<58} {ratio:>10.3} × (at most {limit} ×) {verdict}");
}

/// A gateway that runs as a process of its own.
struct Gateway {
    child: Child,
    address: String,
}

/// What became of the calls in the shade.
struct Counts {
    same: u64,
    different: u64,
    dropped: u64,
    failed: u64,
}

impl Gateway {
    fn start(toolgate: &PathBuf, config: &Path) -> Self {
        let mut command = Command::new(toolgate);
        command.arg("--config").arg(config).args(["serve", "--http", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("toolgate starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it has one")).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("listening on")).expect("it listens");
        // Nobody waits to be read.
        thread::spawn(move || lines.for_each(drop));
        let address = line.split("//").nth(1).expect("an address").trim_end_matches("/mcp").to_owned();
        Gateway { child, address }
    }

    /// Has so many clients make so many calls each, and gives how long each call took.
    fn load(&self, clients: usize, calls: usize) -> Vec<Duration> {
        thread::scope(|scope| {
            let clients: Vec<_> = (0..clients).map(|_| scope.spawn(|| self.client(calls))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("every call is answered")).collect()
        })
    }

    fn client(&self, calls: usize) -> Vec<Duration> {
        let mut connection = Connection::open(&self.address);
        let mut call = || {
            let start = Instant::now();
            let answer = connection.post(&BODY.replace("TEXT", TEXT));
            assert!(answer.contains(TEXT), "{answer}");
            start.elapsed()
        };
        (0..calls).map(|_| call()).collect()
    }

    /// How long the processor has worked for it.
    fn work(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("this needs Linux");
        // After the name, which may have blanks in it.
        let fields: Vec<_> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
        let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
        Duration::from_millis((ticks(11) + ticks(12)) * MILLIS_PER_TICK)
    }

    fn counts(&self) -> Counts {
        let page = Connection::open(&self.address).request("GET /api/v1/shadow", "", "");
        let page: Value = serde_json::from_str(&page).expect("JSON");
        let count = |name: &str| page["shadow"][name].as_u64().unwrap_or_default();
        Counts {
            same: count("same"),
            different: count("different"),
            dropped: count("dropped"),
            failed: count("failed"),
        }
    }

    /// Waits until the candidate has been asked about all calls.
    fn settle(&self) {
        let all = |counts: Counts| counts.same + counts.different + counts.dropped + counts.failed;
        let mut before = all(self.counts());
        loop {
            thread::sleep(Duration::from_millis(50));
            let now = all(self.counts());
            if now == before {
                return;
            }
            before = now;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is used again and again.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a socket has options");
        Connection(BufReader::new(stream))
    }

    fn post(&mut self, body: &str) -> String {
        self.request("POST /mcp", HEADERS, body)
    }

    fn request(&mut self, line: &str, headers: &str, body: &str) -> String {
        let mut text = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}");
        let _ = write!(text, "Content-Length: {}\r\n\r\n{body}", body.len());
        self.0.get_mut().write_all(text.as_bytes()).expect("it reads");
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("it answers") > 0, "it has closed the connection");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("the whole answer comes");
        String::from_utf8(body).expect("JSON is UTF-8")
    }
}

const ECHO: &str = env!("CARGO_BIN_EXE_echo");
const CLIENTS: usize = 64;
const CALLS: usize = 100;
const ROUNDS: usize = 10;
/// The ticks of `/proc/PID/stat` are hundredths of a second on every Linux of today.
const MILLIS_PER_TICK: u64 = 10;
const TEXT: &str =
    "about a hundred bytes of text, as a model may well write them: small, but not so small as to be unreal";
const HEADERS: &str = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
    MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: it__echo\r\n";
const BODY: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"it__echo","arguments":{"text":"TEXT"},"_meta":{"#,
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}"#
);
