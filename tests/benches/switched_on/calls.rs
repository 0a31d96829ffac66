//! Calls through gateways that have more and more switched on, and through another gateway that has nothing.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use toolgate_tests::gateway::{Client, Gateway, load};
use toolgate_tests::race::verdict;

use super::ECHO;

/// Measures answers of three sizes, and judges them.
pub fn calls() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let mut contenders: Vec<Contender> = LAYERS.iter().map(|layer| Contender::new(layer, folder.path())).collect();
    contenders.extend(Contender::peer());
    let sizes = SIZES.map(|size| (size.name, measure(&mut contenders, &size)));
    for (name, rows) in &sizes {
        let one = |row: &Row| format!("{:.2?}", row.one.median);
        let rate = |load: &Load| format!("{:.0}/s", load.rate);
        println!("{:<38} {:>12} {:>12} {:>12} {:>24}", format!("answers of {name}"), "1 client", "16", "64", "CPU, 64");
        for (contender, row) in contenders.iter().zip(rows) {
            let cpu = format!("{:.1?} ({:.2} ×)", row.many.cpu, ratio(row.many.cpu, rows[0].many.cpu));
            let (some, many) = (rate(&row.some), rate(&row.many));
            println!("{:<38} {:>12} {some:>12} {many:>12} {cpu:>24}", contender.name, one(row));
        }
        println!();
    }
    let [(_, small), (_, large), (_, huge)] = &sizes;
    let cpu = ratio(small[ALL].many.cpu, small[0].many.cpu);
    verdict("CPU of a call, 64 clients, against nothing", &format!("{cpu:.2} ×"), "at most 2 ×", cpu <= 2.0);
    if let Some(peer) = small.get(LAYERS.len()) {
        let rate = small[ALL].many.rate / peer.many.rate;
        verdict("calls, 64 clients, against the peer", &format!("{rate:.2} ×"), "at least 1.3 ×", rate >= 1.3);
    }
    for (what, rows, most) in [("100 KB", large, 2), ("1 MB", huge, 16)] {
        let time = rows[ALL].one.median;
        let is_good = time <= Duration::from_millis(most);
        verdict(&format!("an answer of {what}"), &format!("{time:.2?}"), &format!("at most {most} ms"), is_good);
    }
}

/// What is switched on, and in which sections of the configuration: its first keys, and those of its server.
const LAYERS: [(&str, &str, &str); 5] = [
    ("nothing switched on", "", ""),
    ("filters", "", ", deny: [drop_*]"),
    ("filters, all masks", "masking: {groups: [all]}", ", deny: [drop_*]"),
    ("filters, all masks, records", "masking: {groups: [all]}\nrecord: {dir: records}", ", deny: [drop_*]"),
    (
        "filters, all masks, records, approval",
        "masking: {groups: [all]}\nrecord: {dir: asked}",
        ", deny: [drop_*], ask: [close_*]",
    ),
];
/// The layer with filters, all masks and records.
const ALL: usize = 3;

/// An answer's size, and how many calls one, 16 and 64 clients make in a round.
struct Size {
    name: &'static str,
    bytes: usize,
    calls: [usize; 3],
}

const SIZES: [Size; 3] = [
    Size { name: "1 KB", bytes: 1_000, calls: [2_000, 6_000, 12_000] },
    Size { name: "100 KB", bytes: 100_000, calls: [100, 300, 600] },
    Size { name: "1 MB", bytes: 1_000_000, calls: [12, 48, 128] },
];
const ROUNDS: usize = 5;

/// A gateway and its clients.
struct Contender {
    name: &'static str,
    tool: String,
    // Before the gateway, which waits for them when it is dropped.
    clients: Vec<Client>,
    gateway: Gateway,
}

impl Contender {
    fn new((name, first, of_server): &(&'static str, &str, &str), folder: &Path) -> Self {
        let config = folder.join(format!("{name}.yaml"));
        let server = format!("servers: {{it: {{command: {ECHO:?}{of_server}}}}}");
        std::fs::write(&config, format!("max_result_bytes: 0\n{first}\n{server}\n")).expect("the folder is writable");
        Contender::of(name, Gateway::start(["--config".as_ref(), config.as_os_str()]))
    }

    /// Starts the gateway that `PEER` names.
    fn peer() -> Option<Self> {
        let program = std::env::var_os("PEER")?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port is free").port();
        let path = std::env::var("PEER_PATH").unwrap_or_else(|_| "/mcp".to_owned());
        let gateway = Gateway::other(Command::new(program).arg(port.to_string()).arg(ECHO), port, path);
        Some(Contender::of("the peer", gateway))
    }

    fn of(name: &'static str, gateway: Gateway) -> Self {
        let clients: Vec<Client> = (0..64).map(|_| gateway.connect()).collect();
        let tool = gateway.connect().tools("payload").pop().expect("the server has it");
        Contender { name, tool, clients, gateway }
    }

    /// Makes calls side by side.
    fn run(&mut self, clients: usize, calls: usize, arguments: &str) -> Run {
        let (cpu, begun) = (self.gateway.cpu(), Instant::now());
        let times = load(&mut self.clients[..clients], calls, &self.tool, arguments);
        Run { calls, times, wall: begun.elapsed(), cpu: self.gateway.cpu() - cpu }
    }
}

/// One round of calls.
struct Run {
    calls: usize,
    times: Vec<Duration>,
    wall: Duration,
    cpu: Duration,
}

/// What all rounds have shown.
struct Load {
    median: Duration,
    rate: f64,
    cpu: Duration,
}

impl Load {
    fn new(runs: Vec<Run>) -> Self {
        let calls: usize = runs.iter().map(|run| run.calls).sum();
        let wall: Duration = runs.iter().map(|run| run.wall).sum();
        let cpu: Duration = runs.iter().map(|run| run.cpu).sum();
        let mut times: Vec<Duration> = runs.into_iter().flat_map(|run| run.times).collect();
        times.sort_unstable();
        Load { median: times[times.len() / 2], rate: calls as f64 / wall.as_secs_f64(), cpu: cpu / calls as u32 }
    }
}

/// A contender's loads of one, 16 and 64 clients.
struct Row {
    one: Load,
    some: Load,
    many: Load,
}

/// Has all contenders answer in turns.
fn measure(contenders: &mut [Contender], size: &Size) -> Vec<Row> {
    let arguments = format!(r#"{{"bytes":{}}}"#, size.bytes);
    let mut runs: Vec<[Vec<Run>; 3]> = contenders.iter().map(|_| Default::default()).collect();
    // The first round warms everything up.
    for round in 0..=ROUNDS {
        for (contender, runs) in contenders.iter_mut().zip(&mut runs) {
            for ((clients, calls), runs) in [1, 16, 64].into_iter().zip(size.calls).zip(runs) {
                let run = contender.run(clients, calls, &arguments);
                if round > 0 {
                    runs.push(run);
                }
            }
        }
    }
    runs.into_iter().map(|runs| runs.map(Load::new)).map(|[one, some, many]| Row { one, some, many }).collect()
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
