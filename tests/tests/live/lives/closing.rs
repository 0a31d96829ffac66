//! Tests calls that are cancelled, one by one or with their gate.

use std::time::Duration;

use toolgate::gate::{CallOptions, CloseMode, GateError};
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::logic::types::lifecycle::State;

use super::{World, assert_code, assert_ok, begin, call, ended, until};

#[tokio::test]
async fn a_gate_that_closes_may_wait_for_its_calls() {
    let world = World::of_one("");
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    let closing = tokio::spawn({
        let gate = std::sync::Arc::clone(&gate);
        async move { gate.close(CloseMode::Wait(Duration::from_secs(50))).await }
    });
    // From the moment when it closes, it takes no more calls.
    loop {
        let call = ToolCall { id: "2".to_owned(), name: "a.look".to_owned(), arguments: r#"{"text":"x"}"#.to_owned() };
        match gate.call(call, &CallOptions::default()).await {
            Err(GateError::Closed) => break,
            other => assert!(other.is_ok(), "{other:?}"),
        }
    }
    assert_eq!(gate.running(), 1);
    assert!(!closing.is_finished());
    world.release("one");
    assert_ok(&ended(running).await, "one");
    closing.await.unwrap();
    assert_eq!((gate.running(), world.count("a", "cancelled one")), (0, 0));
    // The server is there for others.
    assert_ok(&call(&world.gate(), "a.note", "two").await, "two");
    assert_eq!(world.processes("a").len(), 1);
}

#[tokio::test]
async fn a_gate_that_closes_may_cancel_its_calls_at_once_or_when_they_take_too_long() {
    let world = World::of_one("");
    for (how, text) in [(CloseMode::Cancel, "one"), (CloseMode::Wait(Duration::from_millis(50)), "two")] {
        let gate = world.gate();
        let running = begin(&gate, "a.hold", &world.held(text));
        world.wrote("a", &format!("began {text}"), 1).await;
        gate.close(how).await;
        assert_eq!(gate.running(), 0);
        assert_code(&ended(running).await, Code::Cancelled);
        world.wrote("a", &format!("cancelled {text}"), 1).await;
    }
    let calls = world.status("a").calls;
    assert_eq!((calls.calls, calls.cancelled, calls.in_flight), (2, 2, 0));
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_id_and_its_server_is_told() {
    let world = World::of_one("");
    let gate = world.gate();
    // Here the id of a call is its name.
    let (one, two) = (begin(&gate, "a.hold", &world.held("one")), begin(&gate, "a.watch", &world.held("two")));
    world.wrote("a", "began one", 1).await;
    world.wrote("a", "began two", 1).await;
    assert!(!gate.cancel("nobody"));
    assert!(gate.cancel("a.hold"));
    assert_code(&ended(one).await, Code::Cancelled);
    world.wrote("a", "cancelled one", 1).await;
    assert!(!gate.cancel("a.hold"), "it is over");
    world.release("two");
    assert_ok(&ended(two).await, "two");
    assert_eq!(world.count("a", "cancelled two"), 0);
    let status = world.status("a");
    assert_eq!((status.calls.cancelled, status.calls.ok, status.restarts), (1, 1, 0));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled() {
    let world = World::of_one("");
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    running.abort();
    world.wrote("a", "cancelled one", 1).await;
    until("the end of the call", || gate.running() == 0).await;
    let status = world.status("a");
    assert_eq!((status.calls.cancelled, status.calls.in_flight, status.users), (1, 0, 0));
}

#[tokio::test]
async fn a_call_is_cancelled_while_its_server_starts() {
    let world = World::new("servers:\n  a: {command: FIXTURE, args: [slow-start, \"1000\"], grace: 50ms}\n");
    let gate = world.gate();
    let running = begin(&gate, "a.echo", r#"{"text":"x"}"#);
    until("a call under way", || world.status("a").users == 1).await;
    assert!(gate.cancel("a.echo"));
    assert_code(&ended(running).await, Code::Cancelled);
    assert_eq!(world.status("a").users, 0);
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_wherever_it_is() {
    let world = World::of_one("");
    let gate = world.gate();
    assert_ok(&call(&gate, "a.note", "one").await, "one");
    let options = CallOptions { deadline: Some(Duration::from_millis(100)), ..CallOptions::default() };
    let called = super::call_with(&gate, "a.hold", &world.held("two"), &options).await;
    assert_code(&called, Code::OutcomeUnknown);
    world.wrote("a", "cancelled two", 1).await;
    let called = super::call_with(&gate, "a.watch", &world.held("three"), &options).await;
    assert_code(&called, Code::Timeout);
    assert_eq!(world.status("a").restarts, 0);
}

#[tokio::test]
async fn what_is_closed_is_not_ready() {
    let world = World::of_one("");
    assert_ok(&call(&world.gate(), "a.note", "one").await, "one");
    let mut states = world.registry.states_changed();
    states.mark_unchanged();
    world.registry.close().await;
    let status = world.status("a");
    assert_eq!((status.state, status.ready, status.connections, status.pid), (State::Disabled, false, 0, None));
    assert!(states.has_changed().unwrap(), "whoever watches hears of it");
}
