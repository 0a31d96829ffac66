//! What an open gate costs in memory.

use std::process::Command;

use toolgate::logic::{Allocation, Cache, Component, ComponentOptions};
use toolgate_tests::race::{base, verdict};

use super::{FIXTURE, gate, narrow_runtime, registry, tell};

/// The part that measures in a process of its own.
pub const ALONE: &str = "memory-alone";

/// Measures each way to allocate in a process of its own, so that neither finds what the other has left.
pub fn memory() {
    for how in ["on-demand", "pooled"] {
        let program = std::env::current_exe().expect("a bench has a path");
        let status = Command::new(program).args([ALONE, how]).status().expect("it starts again");
        assert!(status.success(), "{status}");
    }
}

/// Opens gates, and looks what has become of the memory.
pub fn alone(how: &str) {
    let allocation = match how {
        "pooled" => Allocation::Pooled { instances: GATES as u32 + 8 },
        _ => Allocation::OnDemand,
    };
    let cache = Cache::Dir(std::env::temp_dir().join(format!("toolgate-bench-{how}")));
    let component =
        Component::embedded(&ComponentOptions { allocation, cache, ..ComponentOptions::default() }).expect("it loads");
    let runtime = narrow_runtime();
    runtime.block_on(async {
        let server = format!("it: {{command: {FIXTURE}, args: [catalog, \"{TOOLS}\", \"500\"]}}");
        let registry = registry(&component, &[server]);
        let open = async || {
            let gate = gate(&registry);
            assert!(gate.refresh().await.failed.is_empty());
            assert_eq!(gate.tools(&gate.style()).expect("the component answers").len(), TOOLS);
            let called = super::call(&gate, "it__tool_7", "{}".to_owned()).await;
            assert_eq!(called.result.text, "this is \"tool_7\"");
            gate
        };
        let first = open().await;
        let before = resident();
        let mut gates = Vec::with_capacity(GATES);
        for _ in 0..GATES {
            gates.push(open().await);
        }
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let each = mib(resident().saturating_sub(before)) / GATES as f64;
        let what = format!("memory of an open gate with {TOOLS} tools, {how}");
        verdict(&what, &format!("{each:.2} MiB"), "at most 1.5 MiB", each <= 1.5);
        tell("linear memory of its component, most of it untouched", format!("{:.2} MiB", mib(first.memory_bytes())));
        // A gate that is closed gives it back.
        drop(gates);
        let left = mib(resident().saturating_sub(before)) / GATES as f64;
        tell("left for each after all of them are closed", format!("{left:.2} MiB"));
        let mut times: Vec<_> = (0..50)
            .map(|_| {
                let begun = std::time::Instant::now();
                drop(gate(&registry));
                begun.elapsed()
            })
            .collect();
        base("to open and close a gate", super::median(&mut times));
        registry.close().await;
    });
}

/// The memory of this process that is in use, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<usize>().ok()).expect("it is a number") << 10
}

const GATES: usize = 200;
const TOOLS: usize = 100;
