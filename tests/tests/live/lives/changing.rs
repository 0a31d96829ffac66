//! Tests changes while calls run: enabled servers, configurations and lists of tools.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use toolgate::gate::{Gate, ServerToolChange};
use toolgate::logic::types::catalog::Change;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{World, assert_code, assert_ok, begin, call, ended, kill, lives, until, until_dead};
use crate::fixtures::LONG;

#[tokio::test]
async fn a_server_switched_off_during_a_call_is_gone_until_it_is_switched_on() {
    let world = World::of_one("");
    let gate = world.gate();
    let registry = &world.registry;
    let (held, watched) = (begin(&gate, "a.hold", &world.held("one")), begin(&gate, "a.watch", &world.held("two")));
    world.wrote("a", "began one", 1).await;
    world.wrote("a", "began two", 1).await;
    let before = world.pid("a");
    registry.disable("a");
    let status = world.status("a");
    assert_eq!((status.state, status.pid, status.ready), (State::Disabled, None, false));
    assert_code(&ended(held).await, Code::OutcomeUnknown);
    assert_code(&ended(watched).await, Code::ServerUnavailable);
    until_dead(&[before]).await;
    let called = call(&gate, "a.note", "three").await;
    assert_code(&called, Code::ServerUnavailable);
    assert!(called.result.text.contains("disabled"), "{}", called.result.text);
    assert!(world.registry.readiness().warnings.is_empty(), "what is switched off is not wrong");
    registry.enable("a");
    assert_ok(&call(&gate, "a.note", "four").await, "four");
    let status = world.status("a");
    assert_eq!((status.state, status.restarts, status.calls.unknown), (State::Ready, 0, 1));
    assert_eq!((world.count("a", "began one"), world.count("a", "ran three")), (1, 0));
}

#[tokio::test]
async fn a_server_that_is_reconnected_runs_as_another_process() {
    let world = World::of_one("");
    let gate = world.gate();
    let registry = &world.registry;
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    let before = world.pid("a");
    let running = begin(&gate, "a.watch", &world.held("two"));
    world.wrote("a", "began two", 1).await;
    registry.reconnect("a");
    world.wrote("a", "began two", 2).await;
    world.release("two");
    assert_ok(&ended(running).await, "two");
    let status = world.up_again("a", before).await;
    assert_eq!((status.restarts, status.last_error), (0, None), "it was asked for");
    until_dead(&[before]).await;
    // One that is switched off stays so.
    registry.disable("a");
    registry.reconnect("a");
    assert_eq!(world.status("a").state, State::Disabled);
}

#[tokio::test]
async fn a_server_that_was_given_up_is_tried_at_once_when_it_is_reconnected() {
    let world = World::new(
        "servers:\n  a: {command: DIR/program, args: [works, DIR/a], restart_delays: [1h], acquire_timeout: 2s}\n",
    );
    let gate = world.gate();
    assert_code(&call(&gate, "a.note", "one").await, Code::ServerUnavailable);
    until("it is given up", || world.status("a").state == State::Failed).await;
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fixture"), world.path("program")).unwrap();
    let yaml =
        "servers:\n  a: {command: DIR/program, args: [works, DIR/a], restart_delays: [1h], acquire_timeout: 2s}\n";
    // An unchanged configuration that is read again is enough.
    let changes = world.registry.set_servers(world.config(yaml)).unwrap();
    assert_eq!(changes.unchanged, ["a"]);
    assert_ok(&call(&gate, "a.note", "two").await, "two");
}

const THREE: &str = "servers:
  kept: {command: FIXTURE, args: [works, DIR/kept]}
  updated: {command: FIXTURE, args: [works, DIR/updated]}
  removed: {command: FIXTURE, args: [works, DIR/removed]}
";

/// The kept one stands elsewhere, and that is no change.
const OTHERS: &str = "servers:
  added: {command: FIXTURE, args: [works, DIR/added]}
  updated: {command: FIXTURE, args: [works, DIR/updated], env: {NEW: \"1\"}}

  kept: {command: FIXTURE, args: [works, DIR/kept]}
";

#[tokio::test]
async fn a_new_configuration_drops_no_call() {
    let world = World::new(THREE);
    let (gate, sleeper) = (world.gate(), world.gate());
    for server in ["kept", "updated", "removed"] {
        assert_ok(&call(&sleeper, &format!("{server}.note"), "before").await, "before");
    }
    let running: Vec<_> = ["kept", "updated", "removed"]
        .map(|server| begin(&gate, &format!("{server}.hold"), &world.held(server)))
        .into();
    for server in ["kept", "updated", "removed"] {
        world.wrote(server, &format!("began {server}"), 1).await;
    }
    let before = ["kept", "updated", "removed"].map(|server| world.pid(server));
    let changes = world.registry.set_servers(world.config(OTHERS)).unwrap();
    assert_eq!((changes.added, changes.removed), (vec!["added".to_owned()], vec!["removed".to_owned()]));
    assert_eq!((changes.updated, changes.unchanged), (vec!["updated".to_owned()], vec!["kept".to_owned()]));
    assert!(changes.errors.is_empty());
    // New calls find the new servers, and the old ones still work for those who began with them.
    for gate in [&gate, &sleeper] {
        assert_ok(&call(gate, "updated.note", "after").await, "after");
        assert_ok(&call(gate, "kept.note", "after").await, "after");
        assert_ok(&call(gate, "added.note", "after").await, "after");
        assert_code(&call(gate, "removed.note", "after").await, Code::UnknownServer);
    }
    assert!(before.iter().all(|pid| lives(*pid)), "a call still runs on each");
    assert_ne!(world.pid("updated"), before[1]);
    assert_eq!(world.pid("kept"), before[0]);
    for (server, running) in ["kept", "updated", "removed"].into_iter().zip(running) {
        world.release(server);
        assert_ok(&ended(running).await, server);
    }
    until_dead(&before[1..]).await;
    assert_eq!(world.processes("kept").len(), 1);
    assert_eq!(world.processes("updated").len(), 2);
    assert_eq!(world.count("removed", "ran after"), 0);
}

#[tokio::test]
async fn a_steady_stream_of_calls_survives_many_new_configurations() {
    let world = World::new(THREE);
    let gate = world.gate();
    let calls = tokio::spawn({
        let gate = std::sync::Arc::clone(&gate);
        async move {
            for n in 0..200 {
                let word = format!("word-{n}");
                assert_ok(&call(&gate, "kept.note", &word).await, &word);
            }
        }
    });
    let mut rounds = 0;
    while !calls.is_finished() {
        let yaml = if rounds % 2 == 0 { OTHERS } else { THREE };
        world.registry.set_servers(world.config(yaml)).unwrap();
        rounds += 1;
        let seen = world.diary("kept").len();
        until("more calls", || calls.is_finished() || world.diary("kept").len() > seen).await;
    }
    calls.await.unwrap();
    assert!(rounds > 1, "the configuration did not change while calls were made");
    assert_eq!(world.processes("kept").len(), 1);
    assert!((0..200).all(|n| world.count("kept", &format!("ran word-{n}")) == 1));
}

#[tokio::test]
async fn a_new_configuration_leaves_unchanged_servers_of_single_gates_alone() {
    let yaml = "servers:\n  own: {command: FIXTURE, args: [works, DIR/own], shared: false}\n";
    let world = World::new(yaml);
    let gate = world.gate();
    assert_ok(&call(&gate, "own.note", "one").await, "one");
    let more = format!("{yaml}  more: {{command: FIXTURE, args: [works, DIR/more]}}\n");
    let changes = world.registry.set_servers(world.config(&more)).unwrap();
    assert_eq!(changes.unchanged, ["own"]);
    assert_ok(&call(&gate, "own.note", "two").await, "two");
    assert_eq!(world.processes("own").len(), 1, "what it had in mind is lost");
}

#[tokio::test]
async fn calls_that_wait_for_a_server_which_is_replaced_go_on() {
    let script = "until [ -e DIR/go ]; do sleep 0.01; done; exec FIXTURE works DIR/old";
    let world = World::new(&format!("servers:\n  a: {{command: sh, args: [-c, {script:?}]}}\n"));
    let gates = [world.gate(), world.gate()];
    let running = gates.each_ref().map(|gate| begin(gate, "a.note", r#"{"text":"one"}"#));
    until("two who wait", || world.status("a").users == 2).await;
    let changes = world.registry.set_servers(world.config("servers:\n  a: {command: FIXTURE, args: [works, DIR/a]}\n"));
    assert_eq!(changes.unwrap().updated, ["a"]);
    std::fs::write(world.path("go"), "").unwrap();
    for running in running {
        let called =
            timeout(Duration::from_secs(20), running).await.expect("it is told when the old one is up").unwrap();
        assert_ok(&called, "one");
    }
    assert_eq!((world.count("a", "ran one"), world.count("old", "ran one")), (2, 0));
    until_dead(&world.processes("old")).await;
}

fn names(gate: &Gate) -> BTreeSet<String> {
    gate.tools(&gate.style()).unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn a_server_that_became_another_offers_other_tools() {
    let world = World::of_one("");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    world.registry.set_servers(world.config("servers:\n  a: {command: FIXTURE, args: [plain]}\n")).unwrap();
    assert_ok(&call(&gate, "a.echo", "two").await, "two");
    assert_code(&call(&gate, "a.note", "three").await, Code::UnknownTool);
}

#[tokio::test]
async fn a_gate_sees_a_changed_list_without_asking_for_it() {
    let world = World::new("servers:\n  a: {command: FIXTURE, args: [list-changed]}\n");
    let (one, other) = (world.gate(), world.gate());
    one.refresh().await;
    other.refresh().await;
    let mut changed = world.registry.tools_changed();
    changed.mark_unchanged();
    assert_ok(&call(&one, "a.grow", "x").await, "grown_1");
    timeout(LONG, changed.changed()).await.unwrap().unwrap();
    // One looks and the other calls; neither asks.
    assert_eq!(names(&one), BTreeSet::from(["a__grow", "a__grown_1"].map(str::to_owned)));
    assert_ok(&call(&other, "a.grown_1", "x").await, "this is \"grown_1\"");
    assert_eq!(world.status("a").tools, Some(2));
}

#[tokio::test]
async fn a_server_that_came_back_with_other_tools_is_seen_to_have_them() {
    let world = World::new("servers:\n  a: {command: FIXTURE, args: [list-changed]}\n");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.grow", "x").await, "grown_1");
    until("a longer list", || world.status("a").tools == Some(2)).await;
    let before = world.pid("a");
    kill(before).await;
    until("the list of another process", || world.status("a").tools == Some(1)).await;
    assert_eq!(names(&gate), BTreeSet::from(["a__grow".to_owned()]));
}

#[tokio::test]
async fn a_refresh_tells_what_has_changed() {
    let world = World::new("servers:\n  a: {command: FIXTURE, args: [list-changed]}\n");
    let (one, other) = (world.gate(), world.gate());
    assert!(one.refresh().await.changes.is_empty(), "a first offer changes nothing");
    let mut changed = world.registry.tools_changed();
    changed.mark_unchanged();
    assert_ok(&call(&other, "a.grow", "x").await, "grown_1");
    timeout(LONG, changed.changed()).await.unwrap().unwrap();
    let refreshed = one.refresh().await;
    assert!(refreshed.failed.is_empty());
    let added = ServerToolChange { server: "a".to_owned(), tool: "grown_1".to_owned(), change: Change::Added };
    assert_eq!(refreshed.changes, [added]);
    assert!(one.refresh().await.changes.is_empty());
    // A new process begins with one tool again.
    let before = world.pid("a");
    kill(before).await;
    world.up_again("a", before).await;
    let refreshed = one.refresh().await;
    let removed = ServerToolChange { server: "a".to_owned(), tool: "grown_1".to_owned(), change: Change::Removed };
    assert_eq!(refreshed.changes, [removed]);
}

#[tokio::test]
async fn a_server_that_waits_to_be_restarted_offers_what_it_did_before() {
    let world = World::of_one(", restart_delays: [10m]");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    // Whoever holds it wants it back.
    let _lease = world.registry.link("a").unwrap().lease().await.unwrap();
    kill(world.pid("a")).await;
    until("a restart that is waited for", || world.status("a").state == State::Restarting).await;
    let newcomer = world.gate();
    let refreshed = timeout(Duration::from_secs(30), newcomer.refresh()).await.expect("nobody waits for the restart");
    assert!(refreshed.failed.is_empty(), "{refreshed:?}");
    assert_eq!(names(&newcomer), names(&gate));
    assert!(names(&newcomer).contains("a__note"));
    assert_eq!(world.status("a").state, State::Restarting);
}

#[tokio::test]
async fn secrets_of_a_new_configuration_are_hidden_before_its_servers_are_used() {
    let world = World::of_one(", env: {A_TOKEN: written-before-1}");
    let hides = |secret: &str| world.registry.secrets().redact(secret) == "[REDACTED]";
    assert!(hides("written-before-1") && !hides("written-later-2"));
    let later = "servers:\n  b: {command: FIXTURE, enabled: false, args: [--token, written-later-2]}\n";
    world.registry.set_servers(world.config(later)).unwrap();
    // What was one may still be told by whoever was given it.
    assert!(hides("written-later-2") && hides("written-before-1"));
}
