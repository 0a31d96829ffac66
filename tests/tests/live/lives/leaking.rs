//! Tests that gates that open and close leave nothing behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use toolgate::gate::CloseMode;

use super::{World, assert_ok, call, until};

/// What this process has at the moment.
#[derive(Debug, Clone, Copy)]
struct Holdings {
    descriptors: usize,
    tasks: usize,
    children: usize,
}

impl Holdings {
    fn now() -> Holdings {
        Holdings {
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            tasks: Handle::current().metrics().num_alive_tasks(),
            children: children(),
        }
    }

    /// Tasks that look after the shared server may end in the meantime.
    fn is_within(self, before: Holdings) -> bool {
        self.descriptors <= before.descriptors && self.tasks <= before.tasks && self.children <= before.children
    }
}

/// The processes that this one has started and that are there still, in whatever state.
fn children() -> usize {
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    threads.map(|thread| of_thread(thread).split_whitespace().count()).sum()
}

/// The memory of this process that is in use, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// Runs a test in a process of its own, where nothing but itself is counted; true there.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let run = Command::new(program).args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{output}");
    assert!(output.contains("1 passed"), "{output}");
    false
}

const ALONE: &str = "TOOLGATE_TEST_ALONE";

#[test]
fn two_hundred_gates_leave_nothing_behind() {
    if !is_alone("lives::leaking::two_hundred_gates_leave_nothing_behind") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new(
            "servers:
  shared: {command: FIXTURE, args: [works, DIR/shared], health_interval: 0}
  own: {command: FIXTURE, args: [works, DIR/own], shared: false, health_interval: 0}
",
        );
        round(&world, 20).await;
        let before = Holdings::now();
        let mut memory = Vec::new();
        for _ in 0..3 {
            round(&world, 200).await;
            let no_more = || Holdings::now().is_within(before);
            until(&format!("{before:?}, but there is {:?}", Holdings::now()), no_more).await;
            memory.push(resident());
        }
        assert_eq!(world.processes("shared").len(), 1);
        assert_eq!(world.processes("own").len(), 620);
        // The first round may find the size that is needed; a gate that stayed would be felt in megabytes.
        let grown = memory[2].saturating_sub(memory[0]);
        assert!(grown < 16 << 20, "{memory:?}");
        world.registry.close().await;
        let nothing = || (Holdings::now().tasks, Holdings::now().children);
        until(&format!("nothing, but there is {:?}", nothing()), || nothing() == (0, watchdogs())).await;
    });
}

/// The program that watches over our servers in case that we are killed stays for the next of them.
fn watchdogs() -> usize {
    usize::from(children() > 0)
}

/// Opens, uses and closes so many gates, ten at a time; some calls are given up with their gate.
async fn round(world: &World, gates: usize) {
    for batch in 0..gates / 10 {
        let gates = (0..10).map(|n| async move {
            let gate = world.gate();
            let text = format!("{batch}-{n}");
            assert_ok(&call(&gate, "shared.note", &text).await, &text);
            assert_ok(&call(&gate, "own.note", &text).await, &text);
            gate.tools(&gate.style()).unwrap();
            match n % 3 {
                0 => gate.close(CloseMode::Cancel).await,
                1 => gate.close(CloseMode::Wait(Duration::from_secs(5))).await,
                // Merely dropped.
                _ => {}
            }
        });
        join_all(gates).await;
    }
}
