//! Tests the lifecycle of servers with real processes: killed, stuck, shared, replaced and released.
#![cfg(target_os = "linux")]

mod changing;
mod closing;
mod dying;
mod hanging;
mod leaking;
mod queueing;
mod reading;
mod sharing;
mod stopping;
mod telling;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use toolgate::config;
use toolgate::config::model::Config;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateView};
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::logic::types::lifecycle::State;
use toolgate::registry::{Registry, RegistryOptions, ServerStatus};

use crate::fixtures::{LONG, component, until};

/// A registry over fixtures, and the folder in which they keep their diaries.
struct World {
    folder: TempDir,
    registry: Arc<Registry>,
}

impl World {
    /// The servers of a `toolgate.yaml`; `FIXTURE` stands for the fixture, and `DIR` for the folder.
    fn new(yaml: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let config = config_in(folder.path(), yaml);
        let registry = Registry::new(&component(), config, RegistryOptions::default()).expect("the component starts");
        World { folder, registry }
    }

    /// A world with the server `a`, which works, and these further keys of its.
    fn of_one(keys: &str) -> World {
        World::new(&format!("servers:\n  a: {{command: FIXTURE, args: [works, DIR/a], grace: 200ms{keys}}}\n"))
    }

    /// Another configuration for the same folder.
    fn config(&self, yaml: &str) -> Config {
        config_in(self.folder.path(), yaml)
    }

    fn gate(&self) -> Arc<Gate> {
        Arc::new(Gate::open(&self.registry, GateView::default()).expect("the gate opens"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The arguments of a call that says this, and lasts until the same is released.
    fn held(&self, text: &str) -> String {
        json!({"text": text, "until": self.path(&format!("release-{text}"))}).to_string()
    }

    /// Lets a call end.
    fn release(&self, text: &str) {
        fs::write(self.path(&format!("release-{text}")), "").unwrap();
    }

    /// What a server has written down.
    fn diary(&self, server: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(server)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often it has written this.
    fn count(&self, server: &str, line: &str) -> usize {
        self.diary(server).iter().filter(|written| *written == line).count()
    }

    /// The processes that ever ran as this server.
    fn processes(&self, server: &str) -> Vec<u32> {
        self.diary(server).iter().filter_map(|line| line.strip_prefix("up ")?.parse().ok()).collect()
    }

    /// Waits until it has written this so many times.
    async fn wrote(&self, server: &str, line: &str, times: usize) {
        let seen = || self.count(server, line) >= times;
        until(&format!("{times} times {line:?} in the diary of {server}"), seen).await;
    }

    /// The ids that a fixture leaves in a file of its own.
    async fn pids(&self, file: &str) -> Vec<u32> {
        let path = self.path(file);
        until(&format!("a file {file}"), || path.exists()).await;
        fs::read_to_string(&path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    fn status(&self, server: &str) -> ServerStatus {
        self.registry.link(server).expect("the server is configured").status()
    }

    fn pid(&self, server: &str) -> u32 {
        self.status(server).pid.expect("the server runs")
    }

    /// Waits until the server runs as another process.
    async fn up_again(&self, server: &str, before: u32) -> ServerStatus {
        let up = || {
            let status = self.status(server);
            status.state == State::Ready && status.pid.is_some_and(|pid| pid != before)
        };
        until(&format!("another process of {server}"), up).await;
        self.status(server)
    }
}

fn config_in(folder: &Path, yaml: &str) -> Config {
    let folder = folder.to_str().expect("the folder for temporary files has a plain name");
    let yaml = yaml.replace("FIXTURE", env!("CARGO_BIN_EXE_fixture")).replace("DIR", folder);
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let problems: Vec<_> = config.servers.iter().filter_map(|server| server.problem.as_ref()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    config
}

/// Calls a tool with a text.
async fn call(gate: &Gate, name: &str, text: &str) -> CallOutcome {
    call_with(gate, name, &json!({ "text": text }).to_string(), &CallOptions::default()).await
}

/// Calls a tool; the id of the call is its name.
async fn call_with(gate: &Gate, name: &str, arguments: &str, options: &CallOptions) -> CallOutcome {
    let call = ToolCall { id: name.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    gate.call(call, options).await.expect("the component answers")
}

/// Makes the call in a task of its own, beside the test.
fn begin(gate: &Arc<Gate>, name: &str, arguments: &str) -> JoinHandle<CallOutcome> {
    begin_with(gate, name, arguments, CallOptions::default())
}

fn begin_with(gate: &Arc<Gate>, name: &str, arguments: &str, options: CallOptions) -> JoinHandle<CallOutcome> {
    let (gate, name, arguments) = (Arc::clone(gate), name.to_owned(), arguments.to_owned());
    tokio::spawn(async move { call_with(&gate, &name, &arguments, &options).await })
}

/// What a call that was begun came to.
async fn ended(call: JoinHandle<CallOutcome>) -> CallOutcome {
    tokio::time::timeout(LONG, call).await.expect("every call ends").expect("no call panics")
}

fn assert_ok(called: &CallOutcome, text: &str) {
    assert_eq!((called.result.code, called.result.text.as_str()), (Code::Ok, text), "{:?}", called.result.trace);
}

fn assert_code(called: &CallOutcome, code: Code) {
    assert_eq!(called.result.code, code, "{}\n{:?}", called.result.text, called.result.trace);
}

/// Sends a signal to one process.
fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "no signal to {pid}");
}

/// Kills a process, and waits until it is dead.
async fn kill(pid: u32) {
    signal(pid, "KILL");
    until_dead(&[pid]).await;
}

async fn until_dead(pids: &[u32]) {
    until(&format!("the end of {pids:?}"), || !pids.iter().any(|pid| lives(*pid))).await;
}

/// Whether any thread of a process runs; one that waits to be waited for does not. Its first may have ended before the
/// others, which still hold its pipes.
fn lives(pid: u32) -> bool {
    let runs = |stat: String| !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('Z' | 'X'));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).any(runs)
}
