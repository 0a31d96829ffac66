//! What a registry promises: nothing is lost or done twice though servers die, and nothing is slow for it.
//!
//! Run with `cargo bench -p toolgate-tests --bench registry [-- PART]`; the parts are `storm`, `recovery`, `flow`,
//! `stalled` and `memory`. Times of so few microseconds hang on where the processes run; a machine with something
//! else to do tells little.

mod flow;
mod memory;
mod recovery;
mod stalled;
mod storm;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use toolgate::config;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateView};
use toolgate::logic::Component;
use toolgate::logic::types::execution::ToolCall;
use toolgate::registry::{Registry, RegistryOptions};

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let part = arguments.next();
    if part.as_deref() == Some(memory::ALONE) {
        return memory::alone(&arguments.next().expect("how instances are allocated"));
    }
    let wanted = |name: &str| part.as_deref().is_none_or(|part| name == part);
    let parts: [(&str, fn()); 5] = [
        ("storm", storm::storm),
        ("recovery", recovery::recovery),
        ("flow", flow::flow),
        ("stalled", stalled::stalled),
        ("memory", memory::memory),
    ];
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, run)| run());
}

const ECHO: &str = env!("CARGO_BIN_EXE_echo");
const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture");
const TEXT: &str =
    "about a hundred bytes of text, as a model may well write them: small, but not so small as to be unreal";

/// A runtime as a server would have it.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts")
}

/// A runtime of one thread, beside a driver of one thread.
fn narrow_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

/// A registry over servers, each a line of YAML.
fn registry(component: &Component, servers: &[String]) -> Arc<Registry> {
    let yaml = format!("max_result_bytes: 0\nservers:\n  {}\n", servers.join("\n  "));
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the bench's configuration is right");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    Registry::new(component, config, RegistryOptions::default()).expect("the component starts")
}

fn gate(registry: &Arc<Registry>) -> Arc<Gate> {
    Arc::new(Gate::open(registry, GateView::default()).expect("the gate opens"))
}

async fn call(gate: &Gate, name: &str, arguments: String) -> CallOutcome {
    let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments };
    gate.call(call, &CallOptions::default()).await.expect("the component answers")
}

/// Kills a process and waits until it is dead.
fn kill(pid: u32) {
    // It may have been killed before.
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(std::process::Stdio::null()).status();
    while lives(pid) {
        std::thread::yield_now();
    }
}

/// Whether any thread of a process runs: its first may have ended before the others, which still hold its pipes.
fn lives(pid: u32) -> bool {
    let runs = |stat: String| !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('Z' | 'X'));
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).any(runs)
}

/// Prints a figure, for those who want to know.
fn tell(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<58} {figure:>10}");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
