//! Tests servers that do not answer: a slow one is left alone, and a dead one is restarted.

use std::time::Duration;

use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{World, assert_code, assert_ok, call, call_with, signal, until, until_dead};

fn impatient() -> CallOptions {
    CallOptions { timeout: Some(Duration::from_millis(50)), ..CallOptions::default() }
}

#[tokio::test]
async fn a_slow_call_leads_to_a_probe_and_to_no_restart_where_that_is_answered() {
    let world = World::of_one(", health_interval: 0, probe_timeout: 30s");
    let gate = world.gate();
    for (tool, code) in [("a.hold", Code::OutcomeUnknown), ("a.watch", Code::Timeout)] {
        assert_ok(&call(&gate, "a.note", "one").await, "one");
        let (before, checked) = (world.pid("a"), world.status("a").last_check);
        let called = call_with(&gate, tool, &world.held(tool), &impatient()).await;
        assert_code(&called, code);
        until("a probe", || world.status("a").last_check > checked).await;
        until("trust again", || world.status("a").state == State::Ready).await;
        let status = world.status("a");
        assert_eq!((status.pid, status.restarts, status.last_error), (Some(before), 0, None));
        // The server hears that nobody waits, and the call is not made again.
        world.wrote("a", &format!("cancelled {tool}"), 1).await;
        assert_eq!(world.count("a", &format!("began {tool}")), 1);
    }
    let calls = world.status("a").calls;
    assert_eq!((calls.calls, calls.ok, calls.unknown, calls.failures), (4, 2, 1, 1));
}

#[tokio::test]
async fn a_server_that_answers_neither_call_nor_probe_is_restarted() {
    let world = World::of_one(", health_interval: 0, probe_timeout: 100ms");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    let before = world.pid("a");
    let called = call_with(&gate, "a.freeze", r#"{"text":"two"}"#, &impatient()).await;
    assert_code(&called, Code::OutcomeUnknown);
    let status = world.up_again("a", before).await;
    assert_eq!((status.restarts, status.calls.unknown), (1, 1));
    let error = status.last_error.expect("the probe failed").text;
    assert!(error.contains("ping"), "{error}");
    // It ends neither with its input nor unseen.
    until_dead(&[before]).await;
    assert_ok(&call(&gate, "a.note", "three").await, "three");
    assert_eq!(world.count("a", "froze two"), 1);
}

#[tokio::test]
async fn a_call_to_a_server_that_is_being_restarted_waits_for_it() {
    let world = World::of_one(", health_interval: 0, probe_timeout: 100ms");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    let before = world.pid("a");
    signal(before, "STOP");
    let called = call_with(&gate, "a.look", r#"{"text":"two"}"#, &impatient()).await;
    assert_code(&called, Code::Timeout);
    until("doubt", || world.status("a").state != State::Ready).await;
    // Sent into the silence or held back, it is answered by a process that works.
    assert_ok(&call(&gate, "a.look", "three").await, "three");
    assert_eq!(world.status("a").restarts, 1);
    until_dead(&[before]).await;
}

#[tokio::test]
async fn a_server_that_stops_answering_while_idle_is_found_by_its_health_checks() {
    let world = World::of_one(", eager: true, health_interval: 30ms, health_timeout: 200ms, probe_timeout: 200ms");
    let before = world.up_again("a", 0).await.pid.unwrap();
    until("a check", || world.status("a").last_check.is_some()).await;
    assert_eq!(world.status("a").restarts, 0);
    signal(before, "STOP");
    let status = world.up_again("a", before).await;
    assert_eq!(status.restarts, 1);
    assert!(status.last_error.expect("the checks failed").text.contains("ping"));
    until_dead(&[before]).await;
}

#[tokio::test]
async fn a_server_that_is_not_up_in_time_fails_its_callers_and_is_tried_again() {
    let world = World::new(
        "servers:\n  a: {command: FIXTURE, args: [silent], timeouts: {initialize: 100ms}, acquire_timeout: 150ms, \
         restart_delays: [10ms], grace: 50ms}\n",
    );
    let gate = world.gate();
    assert_code(&call(&gate, "a.note", "one").await, Code::ServerUnavailable);
    let status = world.status("a");
    assert!(matches!(status.state, State::Failed), "{:?}", status.state);
    let restarts = status.restarts;
    until("another attempt", || world.status("a").restarts > restarts).await;
    let since = std::time::Instant::now();
    assert_code(&call(&gate, "a.note", "two").await, Code::ServerUnavailable);
    assert!(since.elapsed() < Duration::from_secs(20), "a server that is down fails its callers at once");
}
