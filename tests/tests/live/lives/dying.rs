//! Tests servers that are killed before, during and after a call, and while they are idle.

use std::os::unix::fs::symlink;
use std::time::Duration;

use toolgate::gate::{CallEvent, CallOptions};
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{
    World, assert_code, assert_ok, begin, begin_with, call, call_with, ended, kill, signal, until, until_dead,
};

#[tokio::test]
async fn a_server_killed_before_a_call_is_started_again_and_the_call_runs_once() {
    let world = World::of_one("");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    let before = world.pid("a");
    kill(before).await;
    assert_ok(&call(&gate, "a.note", "two").await, "two");
    assert_eq!(world.count("a", "ran two"), 1);
    let status = world.status("a");
    assert_eq!(world.processes("a"), [before, status.pid.unwrap()]);
    assert_eq!((status.state, status.restarts), (State::Ready, 1));
    assert_eq!((status.calls.calls, status.calls.ok, status.calls.failures), (2, 2, 0));
    let error = status.last_error.expect("it was killed").text;
    assert!(error.contains("signal 9"), "{error}");
}

#[tokio::test]
async fn an_unsafe_call_whose_server_is_killed_has_an_unknown_outcome_and_ran_once() {
    let world = World::of_one("");
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    let before = world.pid("a");
    signal(before, "KILL");
    let called = ended(running).await;
    assert_code(&called, Code::OutcomeUnknown);
    assert_eq!(called.result.attempts, 1);
    // It is brought up again in the background, and nothing is run there.
    let status = world.up_again("a", before).await;
    assert_eq!((status.restarts, status.calls.unknown, status.calls.failures), (1, 1, 0));
    assert_ok(&call(&gate, "a.note", "two").await, "two");
    assert_eq!(world.count("a", "began one"), 1);
}

#[tokio::test]
async fn a_read_only_call_whose_server_is_killed_is_made_once_more() {
    let world = World::of_one("");
    let gate = world.gate();
    let (options, mut events) = CallOptions::default().with_events();
    let running = begin_with(&gate, "a.watch", &world.held("one"), options);
    world.wrote("a", "began one", 1).await;
    signal(world.pid("a"), "KILL");
    world.wrote("a", "began one", 2).await;
    world.release("one");
    let called = ended(running).await;
    assert_ok(&called, "one");
    assert_eq!((called.result.attempts, world.count("a", "began one")), (2, 2));
    let status = world.status("a");
    assert_eq!((status.calls.calls, status.calls.ok, status.calls.unknown, status.restarts), (1, 1, 0, 1));
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            CallEvent::Retrying { .. } => told.push("retrying"),
            CallEvent::Reconnecting { server } if server == "a" => told.push("reconnecting"),
            _ => {}
        }
    }
    assert_eq!(told, ["retrying", "reconnecting"]);
}

#[tokio::test]
async fn a_server_killed_at_both_attempts_is_not_tried_a_third_time() {
    let world = World::of_one("");
    let gate = world.gate();
    let running = begin(&gate, "a.watch", &world.held("one"));
    for times in 1..=2 {
        world.wrote("a", "began one", times).await;
        signal(world.pid("a"), "KILL");
    }
    let called = ended(running).await;
    assert_code(&called, Code::ServerUnavailable);
    assert_eq!(called.result.attempts, 2);
    assert_eq!(world.status("a").calls.failures, 1);
    assert_ok(&call(&gate, "a.note", "two").await, "two");
    assert_eq!(world.count("a", "began one"), 2);
}

#[tokio::test]
async fn an_answer_stands_though_its_server_is_killed_right_after() {
    let world = World::of_one("");
    let gate = world.gate();
    for round in 1..=3 {
        let word = format!("word {round}");
        assert_ok(&call(&gate, "a.note", &word).await, &word);
        let before = world.pid("a");
        signal(before, "KILL");
        let status = world.up_again("a", before).await;
        assert_eq!((status.restarts, status.calls.ok, status.calls.unknown), (round, round, 0));
    }
    for round in 1..=3 {
        assert_eq!(world.count("a", &format!("ran word {round}")), 1);
    }
}

#[tokio::test]
async fn a_server_killed_while_idle_comes_back_only_as_long_as_it_counts_as_wanted() {
    let world = World::of_one(", restart_delays: [1ms], idle_timeout: 10m");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    // It counts as wanted for a moment after its last use; each time it comes back then, it is killed again.
    loop {
        let before = world.pid("a");
        kill(before).await;
        let settled = || match world.status("a") {
            status if status.state == State::Dormant => true,
            status => status.state == State::Ready && status.pid != Some(before),
        };
        until("a new process, or none", settled).await;
        if world.status("a").state == State::Dormant {
            break;
        }
    }
    let status = world.status("a");
    assert_eq!((status.pid, status.era, status.version), (None, None, None));
    assert_eq!(status.name.as_deref(), Some("fixture"), "what it said of itself is known still");
    assert!(status.ready, "its last start succeeded");
    assert_eq!(status.tools, Some(5), "what it listed is known still");
    let started = world.processes("a").len();
    assert_eq!(started as u64, status.restarts + 1);
    assert_ok(&call(&gate, "a.note", "two").await, "two");
    assert_eq!(world.processes("a").len(), started + 1);
    assert_eq!(world.status("a").restarts, status.restarts, "a start after a rest is no restart");
}

#[tokio::test]
async fn an_eager_server_runs_and_comes_back_though_nobody_wants_it() {
    let world = World::of_one(", eager: true, restart_delays: [1ms]");
    let mut before = 0;
    for restarts in 0..4 {
        let status = world.up_again("a", before).await;
        assert_eq!((status.restarts, status.users, status.calls.calls), (restarts, 0, 0));
        before = status.pid.unwrap();
        kill(before).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_come_up_again_fails_its_callers_until_it_does() {
    let world = World::new(
        "servers:\n  a: {command: DIR/program, args: [works, DIR/a], restart_delays: [0s, 20ms], grace: 200ms}\n",
    );
    let program = world.path("program");
    let install = || symlink(env!("CARGO_BIN_EXE_fixture"), &program).unwrap();
    install();
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    let before = world.pid("a");
    std::fs::remove_file(&program).unwrap();
    kill(before).await;
    let called = call_with(&gate, "a.look", r#"{"text":"two"}"#, &CallOptions::default()).await;
    assert_code(&called, Code::RestartFailed);
    let status = world.status("a");
    assert_eq!((status.state, status.ready, status.pid), (State::Failed, false, None));
    let error = status.last_error.expect("it did not start").text;
    assert!(error.contains("was not found"), "{error}");
    assert!(!world.registry.readiness().warnings.is_empty());
    install();
    world.up_again("a", before).await;
    assert!(world.registry.readiness().warnings.is_empty());
    assert_ok(&call(&gate, "a.note", "three").await, "three");
    assert_eq!(world.count("a", "ran two"), 0);
}

#[tokio::test]
async fn every_waiting_call_is_told_when_its_server_dies() {
    let world = World::of_one("");
    let gate = world.gate();
    let running: Vec<_> = (0..20).map(|n| begin(&gate, "a.hold", &world.held(&format!("call-{n}")))).collect();
    for n in 0..20 {
        world.wrote("a", &format!("began call-{n}"), 1).await;
    }
    let before = world.pid("a");
    assert_eq!((world.status("a").users, world.status("a").calls.in_flight), (20, 20));
    signal(before, "KILL");
    for running in running {
        assert_code(&ended(running).await, Code::OutcomeUnknown);
    }
    let status = world.up_again("a", before).await;
    assert_eq!((status.calls.unknown, status.calls.in_flight, status.restarts, status.users), (20, 0, 1, 0));
    until_dead(&[before]).await;
    assert!((0..20).all(|n| world.count("a", &format!("began call-{n}")) == 1));
}

#[tokio::test]
async fn each_restart_is_counted_also_of_a_server_that_has_held_for_long() {
    let world = World::of_one(", eager: true, health_interval: 0");
    let mut before = 0;
    for restarts in 0..3 {
        let status = world.up_again("a", before).await;
        assert_eq!(status.restarts, restarts);
        before = status.pid.unwrap();
        // Time passes, for the registry only.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
        kill(before).await;
    }
}

#[tokio::test]
async fn a_call_to_a_server_that_cannot_start_is_one_of_its_failures() {
    let world = World::new(
        "servers:\n  a: {command: DIR/none, restart_delays: [1h], acquire_timeout: 1ms}\n  \
         b: {command: FIXTURE, args: [works, DIR/b], max_concurrent: 1}\n",
    );
    let gate = world.gate();
    for _ in 0..2 {
        assert_code(&call(&gate, "a.note", "one").await, Code::ServerUnavailable);
    }
    let calls = world.status("a").calls;
    assert_eq!((calls.calls, calls.failures, calls.in_flight), (2, 2, 0));
    // What the gate itself refuses is none of the server's failures.
    assert_code(&call(&gate, "b.nothing", "one").await, Code::UnknownTool);
    assert_ok(&call(&gate, "b.note", "two").await, "two");
    world.registry.disable("b");
    assert_code(&call(&gate, "b.note", "three").await, Code::ServerUnavailable);
    let calls = world.status("b").calls;
    assert_eq!((calls.calls, calls.ok, calls.failures), (2, 1, 1));
}
