//! A large gateway: 200 servers with 10,000 tools, 500 principals in ten sets of equal rights, and 2,000 clients.
//!
//! Run with `cargo build --release --workspace --bin toolgate && cargo bench -p toolgate-tests --bench large [-- PART]`;
//! the parts are `growth`, `search`, `sessions` and `crowd`. The servers are in this process, so the memory is that of the
//! gateway alone.

mod clients;
mod configuration;
mod crowd;
mod growth;
mod search;
mod servers;
mod sessions;

use std::path::Path;
use std::time::{Duration, Instant};

use clients::Client;
use configuration::Size;
use servers::Servers;
use toolgate_tests::gateway::Gateway;

fn main() {
    let part = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| part.as_deref().is_none_or(|part| name == part);
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        if wanted("growth") {
            growth::growth(folder.path()).await;
        }
        if wanted("search") {
            search::search(folder.path()).await;
        }
        if wanted("sessions") {
            sessions::sessions(folder.path()).await;
        }
        if wanted("crowd") {
            crowd::crowd(folder.path()).await;
        }
    });
}

const SERVERS: usize = 200;
const TOOLS: usize = 50;

/// A gateway whose servers have all listed their tools.
struct Ready {
    gateway: Gateway,
    /// From its start until it listened.
    listening: Duration,
    /// From there until all servers were ready.
    ready: Duration,
    /// The processor time that both together took.
    cpu: Duration,
    /// The memory at both moments, in bytes.
    memory: [usize; 2],
}

impl Ready {
    async fn start(folder: &Path, servers: &Servers, size: Size) -> Ready {
        let file = configuration::write(folder, servers.address, size);
        let begun = Instant::now();
        let gateway = Gateway::start(["--config".as_ref(), file.as_os_str()]);
        let listening = begun.elapsed();
        let before = gateway.memory();
        // Without a token, as probes ask.
        let mut client = Client::connect(gateway.address(), "", true).await;
        while client.get("/ready").await != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ready = begun.elapsed() - listening;
        let memory = [before, gateway.memory()];
        let cpu = gateway.cpu();
        Ready { gateway, listening, ready, cpu, memory }
    }

    /// Prints what the start took.
    fn tell(&self) {
        time("start until it listens", self.listening);
        time("until all servers are ready", self.ready);
        time("processor time until then", self.cpu);
        memory("memory when it listens", self.memory[0]);
        memory("memory when all are ready", self.memory[1]);
    }

    async fn connect(&self, principal: usize, is_modern: bool) -> Client {
        Client::connect(self.gateway.address(), &configuration::token(principal), is_modern).await
    }
}

/// Returns the time below which this part of the sorted times is.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part) as usize]
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Prints a figure that is not judged.
fn tell(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<58} {figure:>10}");
}

/// Prints a time that is not judged.
fn time(what: &str, time: Duration) {
    tell(what, format!("{time:.2?}"));
}

/// Prints a size that is not judged.
fn memory(what: &str, bytes: usize) {
    tell(what, format!("{:.1} MiB", mib(bytes)));
}
