//! Tests the events about calls and servers.

use std::time::{Duration, SystemTime};

use tokio::time::timeout;
use toolgate::gate::{CallEvent, CallOptions};
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;
use toolgate::session::Progress;

use super::{World, assert_code, assert_ok, begin, begin_with, call, ended, until};
use crate::fixtures::LONG;

#[tokio::test]
async fn progress_and_log_lines_arrive_while_the_call_runs() {
    let world = World::of_one("");
    let gate = world.gate();
    let (options, mut events) = CallOptions::default().with_events();
    let running = begin_with(&gate, "a.hold", &world.held("one"), options);
    let (mut progress, mut log) = (None, None);
    while progress.is_none() || log.is_none() {
        match timeout(LONG, events.recv()).await.unwrap().expect("the call still runs") {
            CallEvent::Progress(told) => progress = Some(told),
            CallEvent::Log { level, logger, data, .. } => log = Some((level, logger, data.get().to_owned())),
            _ => {}
        }
    }
    assert!(!running.is_finished());
    let Progress { progress, total, message, params } = progress.unwrap();
    assert_eq!((progress, total, message.as_deref()), (1.0, Some(2.0), Some("one")));
    assert!(params.get().contains(r#""total":2"#), "{params}");
    let expected = ("info".to_owned(), Some("fixture".to_owned()), r#"{"began":"one"}"#.to_owned());
    assert_eq!(log, Some(expected));
    world.release("one");
    assert_ok(&ended(running).await, "one");
    assert!(matches!(events.recv().await, Some(CallEvent::Answered)));
    assert!(events.recv().await.is_none(), "the stream ends with the call");
}

#[tokio::test]
async fn progress_is_told_to_its_own_call_only() {
    let world = World::of_one("");
    let gate = world.gate();
    let mut calls = Vec::new();
    for text in ["one", "two"] {
        let (options, events) = CallOptions::default().with_events();
        calls.push((text, begin_with(&gate, "a.hold", &world.held(text), options), events));
    }
    for (text, ..) in &calls {
        world.wrote("a", &format!("began {text}"), 1).await;
    }
    for (text, running, mut events) in calls {
        world.release(text);
        assert_ok(&ended(running).await, text);
        let mut told = Vec::new();
        while let Some(event) = events.recv().await {
            if let CallEvent::Progress(progress) = event {
                told.push(progress.message.unwrap());
            }
        }
        assert_eq!(told, [text]);
    }
}

#[tokio::test]
async fn a_status_tells_how_a_server_is() {
    let world = World::new(
        "servers:
  works: {command: FIXTURE, args: [works, DIR/works]}
  modern: {command: FIXTURE, args: [modern]}
  broken: {command: FIXTURE, args: [dies-before], restart_delays: [1h], acquire_timeout: 1ms}
  off: {command: FIXTURE, args: [works, DIR/off], enabled: false}
",
    );
    let created = SystemTime::now();
    for (server, state, ready) in [("works", State::Dormant, false), ("off", State::Disabled, false)] {
        let status = world.status(server);
        assert_eq!((status.state, status.ready, status.pid, status.tools), (state, ready, None, None), "{server}");
        assert_eq!((status.started_in, status.last_error, status.last_check), (None, None, None), "{server}");
        assert_eq!((status.kind, status.restarts, status.calls.calls), ("stdio", 0, 0), "{server}");
    }
    let gate = world.gate();
    let running = begin(&gate, "works.hold", &world.held("one"));
    world.wrote("works", "began one", 1).await;
    let status = world.status("works");
    assert_eq!((status.state, status.ready, status.users), (State::Ready, true, 1));
    assert_eq!((status.calls.calls, status.calls.in_flight, status.calls.ok), (1, 1, 0));
    assert_eq!((status.era, status.version.as_deref()), (Some("legacy"), Some("2025-11-25")));
    assert!(status.since >= created, "it changed since");
    assert!(status.started_in.is_some_and(|took| took > Duration::ZERO && took < LONG));
    assert_eq!(Some(status.pid.unwrap()), world.processes("works").first().copied());
    world.release("one");
    assert_ok(&ended(running).await, "one");
    until("nobody uses it", || world.status("works").users == 0).await;
    let calls = world.status("works").calls;
    assert_eq!((calls.in_flight, calls.ok), (0, 1));
    assert!(calls.latencies.max().is_some_and(|max| max > Duration::ZERO));

    assert_ok(&call(&gate, "modern.echo", "x").await, "x");
    let status = world.status("modern");
    assert_eq!((status.era, status.version.as_deref(), status.tools), (Some("modern"), Some("2026-07-28"), Some(2)));

    assert_code(&call(&gate, "broken.echo", "x").await, Code::ServerUnavailable);
    until("its end is known", || world.status("broken").last_error.is_some()).await;
    let status = world.status("broken");
    assert_eq!((status.state, status.ready, status.pid, status.era), (State::Failed, false, None, None));
    let error = status.last_error.expect("it did not start");
    assert!(error.at >= created && error.text.contains("exit code 3"), "{}", error.text);

    let readiness = world.registry.readiness();
    let warned: Vec<_> = readiness.warnings.iter().map(|warning| warning.server.as_str()).collect();
    assert_eq!((readiness.ready, warned), (true, vec!["broken"]));
}

#[tokio::test]
async fn the_number_of_a_servers_tools_follows_its_lists() {
    let world = World::new("servers:\n  a: {command: FIXTURE, args: [list-changed]}\n");
    let gate = world.gate();
    for grown in 1..=3 {
        assert_ok(&call(&gate, "a.grow", "x").await, &format!("grown_{grown}"));
        until("a longer list", || world.status("a").tools == Some(grown + 1)).await;
    }
    assert_eq!(world.status("a").calls.ok, 3);
}
