//! Tests that no process of a stopped server survives, however the processes are related.

use std::time::Instant;

use tokio::time::timeout;
use toolgate::gate::{CallOptions, CloseMode};
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{World, assert_code, assert_ok, begin, call, call_with, ended, lives, until, until_dead};
use crate::fixtures::LONG;

const FAMILIES: &str = "servers:
  works: {command: FIXTURE, args: [works, DIR/works]}
  launcher: {command: FIXTURE, args: [launcher, DIR/launcher], grace: 300ms}
  litter: {command: FIXTURE, args: [litter, DIR/litter], grace: 300ms}
  stubborn: {command: FIXTURE, args: [stubborn], grace: 50ms}
";

/// All processes of a world, each of whose servers has been used.
async fn started(world: &World) -> Vec<u32> {
    let gate = world.gate();
    for call in ["launcher.echo", "litter.echo", "stubborn.echo", "works.look"] {
        assert_ok(&super::call(&gate, call, "x").await, "x");
    }
    let mut pids: Vec<u32> = world.registry.statuses().iter().filter_map(|status| status.pid).collect();
    for file in ["launcher", "litter"] {
        pids.extend(world.pids(file).await);
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 4 + 1 + 2, "{pids:?}");
    assert!(pids.iter().all(|pid| lives(*pid)));
    pids
}

#[tokio::test]
async fn closing_the_registry_leaves_no_process() {
    let world = World::new(FAMILIES);
    let pids = started(&world).await;
    timeout(LONG, world.registry.close()).await.unwrap();
    let left: Vec<_> = pids.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "{left:?}");
    for status in world.registry.statuses() {
        assert_eq!(status.pid, None, "{}", status.server);
    }
    assert_code(&call(&world.gate(), "works.look", "x").await, Code::ServerUnavailable);
    assert_eq!(world.processes("works").len(), 1);
}

#[tokio::test]
async fn dropping_the_registry_leaves_no_process() {
    let world = World::new(FAMILIES);
    let pids = started(&world).await;
    drop(world.registry);
    until_dead(&pids).await;
    // Nor one that nobody has waited for.
    let zombie = |pid: &u32| std::fs::exists(format!("/proc/{pid}")).unwrap();
    until("no zombie", || !pids.iter().any(zombie)).await;
}

#[tokio::test]
async fn closing_ends_servers_that_are_just_starting() {
    let yaml = "servers:\n  a: {command: sh, args: [-c, 'echo $$ > DIR/part; mv DIR/part DIR/pid; exec sleep 1000']}\n";
    for close in [true, false] {
        let world = World::new(yaml);
        let running = begin(&world.gate(), "a.x", "{}");
        let pids = world.pids("pid").await;
        assert_eq!(world.status("a").state, State::Connecting);
        if close {
            timeout(LONG, world.registry.close()).await.unwrap();
            // The runtime gets no chance to clear up after a close that came too early.
            let since = Instant::now();
            while lives(pids[0]) {
                assert!(since.elapsed() < LONG, "it outlives the registry's end");
                std::thread::yield_now();
            }
            assert_code(&ended(running).await, Code::ServerUnavailable);
        } else {
            // Whoever waits for a server keeps the registry.
            running.abort();
            drop(world.registry);
            until_dead(&pids).await;
        }
    }
}

#[tokio::test]
async fn a_launcher_that_ends_at_once_leaves_no_child_and_its_end_is_told() {
    let world = World::new(
        "servers:\n  a: {command: FIXTURE, args: [litter, DIR/a, now], restart_delays: [1h], acquire_timeout: 1s}\n",
    );
    let called = call(&world.gate(), "a.echo", "x").await;
    assert_code(&called, Code::ServerUnavailable);
    let pids = world.pids("a").await;
    until_dead(&pids).await;
}

#[tokio::test]
async fn a_server_that_nobody_uses_is_stopped_with_its_family_and_started_when_it_is_wanted() {
    let world =
        World::new("servers:\n  a: {command: FIXTURE, args: [litter, DIR/a], idle_timeout: 40ms, grace: 50ms}\n");
    let gate = world.gate();
    for _ in 0..2 {
        assert_ok(&call(&gate, "a.echo", "x").await, "x");
        let pids = world.pids("a").await;
        until("rest", || world.status("a").state == State::Dormant).await;
        until_dead(&pids).await;
        std::fs::remove_file(world.path("a")).unwrap();
        let status = world.status("a");
        assert_eq!((status.pid, status.ready, status.restarts, status.last_error), (None, true, 0, None));
    }
}

#[tokio::test]
async fn a_server_is_not_idle_while_a_call_runs() {
    let world = World::of_one(", idle_timeout: 8ms, health_interval: 10ms");
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    // Many times as long as it may be idle, by its own account.
    let mut checked = world.status("a").last_check;
    for _ in 0..10 {
        until("a check", || world.status("a").last_check > checked).await;
        checked = world.status("a").last_check;
    }
    world.release("one");
    assert_ok(&ended(running).await, "one");
    until("rest", || world.status("a").state == State::Dormant).await;
    assert_eq!(world.processes("a").len(), 1);
}

#[tokio::test]
async fn a_list_that_never_comes_does_not_keep_a_server_whose_registry_is_gone() {
    let world =
        World::new("servers:\n  a: {command: FIXTURE, args: [list-lost, DIR/a], timeouts: {list: 10m}, grace: 50ms}\n");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.echo", "x").await, "x");
    let pid = world.pid("a");
    world.wrote("a", "tools/list", 1).await;
    gate.close(CloseMode::Cancel).await;
    drop((gate, world.registry));
    until_dead(&[pid]).await;
}

#[tokio::test]
async fn calls_under_way_end_when_the_registry_is_closed() {
    for keys in ["", ", shared: false"] {
        end_with_calls_under_way(&World::of_one(keys)).await;
    }
}

async fn end_with_calls_under_way(world: &World) {
    let gate = world.gate();
    let (held, watched) = (begin(&gate, "a.hold", &world.held("one")), begin(&gate, "a.watch", &world.held("two")));
    world.wrote("a", "began one", 1).await;
    world.wrote("a", "began two", 1).await;
    timeout(LONG, world.registry.close()).await.unwrap();
    assert_code(&ended(held).await, Code::OutcomeUnknown);
    assert_code(&ended(watched).await, Code::ServerUnavailable);
    let called = call_with(&gate, "a.look", r#"{"text":"x"}"#, &CallOptions::default()).await;
    assert_code(&called, Code::ServerUnavailable);
    assert_eq!(world.processes("a").len(), 1);
}

#[tokio::test]
async fn closing_does_not_wait_for_calls_on_servers_that_are_no_longer_configured() {
    let yaml = "servers:\n  a: {command: FIXTURE, args: [works, DIR/a], timeouts: {call: 10m}}\n";
    let world = World::new(yaml);
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    let pid = world.pid("a");
    world.registry.set_servers(world.config("servers: {}\n")).unwrap();
    timeout(LONG, world.registry.close()).await.expect("no call may hold up the end");
    assert!(!lives(pid));
    assert_code(&ended(running).await, Code::OutcomeUnknown);
}

#[tokio::test]
async fn nothing_is_started_after_the_end() {
    let world = World::of_one("");
    world.registry.close().await;
    let eager = "servers:\n  a: {command: FIXTURE, args: [works, DIR/a], eager: true, shared: false}\n";
    world.registry.set_servers(world.config(eager)).unwrap();
    assert_code(&call(&world.gate(), "a.note", "one").await, Code::ServerUnavailable);
    assert_eq!(world.processes("a"), [0; 0]);
}
