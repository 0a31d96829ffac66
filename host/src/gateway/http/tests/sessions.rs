//! Tests of how sessions of the initialize era begin and end.

use std::collections::HashSet;

use tokio::time::advance;

use super::*;
use crate::config::resolve::SessionKey;

#[tokio::test]
async fn a_session_lives_from_initialize_to_delete_and_is_closed_once() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    assert!(id.len() < 300, "{id}");
    let reply = wire.ask(Ask::post(legacy("echo")).session(&id)).await;
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
    assert_eq!(door.load.stats().sessions, 1);
    assert_eq!(wire.ask(Ask::new("DELETE /mcp").session(&id)).await.status, 204);
    for ask in [Ask::new("DELETE /mcp").session(&id), Ask::get(&id), Ask::post(legacy("echo")).session(&id)] {
        assert_eq!(wire.ask(ask).await.code(), -32001);
    }
    for ask in [Ask::new("DELETE /mcp"), Ask::get("")] {
        assert_eq!(wire.ask(ask).await.status, 400);
    }
    assert_eq!(door.load.stats().sessions, 0);
    let factory = door.house.clone();
    door.stop().await;
    assert_eq!(factory.count("closed"), 1);
}

#[tokio::test]
async fn the_session_of_another_principal_is_unknown() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    let ann = |ask: Ask| ask.with("Authorization", "Bearer ann-s3cret");
    let reply = door.ask(ann(Ask::post(legacy("initialize")))).await;
    let id = reply.header("mcp-session-id").unwrap().to_owned();
    assert_eq!(door.ask(ann(Ask::post(legacy("echo")).session(&id))).await.status, 200);
    for ask in [Ask::post(legacy("echo")), Ask::get(&id), Ask::new("DELETE /mcp")] {
        let reply = door.ask(ask.session(&id).with("Authorization", "Bearer bob-s3cret")).await;
        assert_eq!((reply.status, reply.code()), (404, -32001));
    }
    assert_eq!(door.ask(ann(Ask::post(legacy("echo")).session(&id))).await.status, 200);
    door.stop().await;
}

#[tokio::test]
async fn an_initialize_that_fails_leaves_no_session() {
    let door = Running::start().await;
    let reply = door.ask(Ask::post(r#"{"id":1,"method":"initialize","params":"fail"}"#)).await;
    assert_eq!((reply.status, reply.header("mcp-session-id")), (404, None));
    door.house.wait("closed", 1).await;
    // Nor does a session whose client disconnects before it gets the id.
    let mut wire = door.connect().await;
    wire.send(Ask::post(r#"{"id":1,"method":"initialize","params":"wait"}"#)).await;
    door.house.wait("waiting", 1).await;
    drop(wire);
    door.house.wait("closed", 2).await;
    assert_eq!(door.load.stats().sessions, 0);
    door.stop().await;
}

#[tokio::test]
async fn a_thousand_sessions_are_in_memory_at_once_and_one_more_takes_the_place_of_those_that_rest() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let mut ids = HashSet::new();
    for _ in 0..1001 {
        ids.insert(open(&mut wire).await);
    }
    assert_eq!(ids.len(), 1001);
    assert_eq!(door.load.stats().sessions, 1);
    for id in &ids {
        assert_eq!(wire.ask(Ask::post(legacy("echo")).session(id)).await.status, 200);
    }
    let factory = door.house.clone();
    assert_eq!((factory.count("opened"), factory.count("resumed")), (1001, 1000));
    door.stop().await;
    assert_eq!(factory.count("closed"), 2001);
}

#[tokio::test]
async fn sessions_that_hold_something_are_bounded_and_one_more_is_refused() {
    let door = Running::with(|options| options.limits.max_sessions = 10).await;
    door.house.hold_state();
    let mut wire = door.connect().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(open(&mut wire).await);
    }
    let reply = wire.ask(Ask::post(legacy("initialize"))).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("30")));
    assert!(reply.body.contains("DELETE"), "{}", reply.body);
    assert_eq!(wire.ask(Ask::post(legacy("echo")).session(&ids[0])).await.status, 200);
    assert_eq!(wire.ask(Ask::new("DELETE /mcp").session(&ids[0])).await.status, 204);
    open(&mut wire).await;
    let (factory, stats) = (door.house.clone(), door.load.stats());
    assert_eq!((stats.sessions, stats.refused.of(RefusalReason::Sessions)), (10, 1));
    door.stop().await;
    assert_eq!((factory.count("opened"), factory.count("closed")), (11, 11));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_leaves_memory_and_goes_on_when_it_is_used_again() {
    let inside = Inside::new(GatewayLimits::default());
    let id = open(&mut inside.connect(1 << 20)).await;
    let minute = Duration::from_secs(60);
    // An open stream counts as use.
    let mut stream = inside.connect(1 << 20);
    stream.send(Ask::get(&id)).await;
    assert_eq!(stream.head().await.status, 200);
    advance(90 * minute).await;
    inside.desk.parts.sessions.sweep();
    assert_eq!(inside.house.count("closed"), 0);
    drop(stream);
    inside.ended().await;
    for round in 1..=2 {
        advance(minute).await;
        inside.desk.parts.sessions.sweep();
        inside.house.wait("closed", round).await;
        assert_eq!(inside.desk.parts.load.stats().sessions, 0);
        assert_eq!(inside.connect(1 << 20).ask(Ask::post(legacy("echo")).session(&id)).await.status, 200);
        assert_eq!((inside.house.count("opened"), inside.house.count("resumed")), (1, round));
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_that_holds_something_ends() {
    let inside = Inside::new(GatewayLimits::default());
    inside.house.hold_state();
    let id = open(&mut inside.connect(1 << 20)).await;
    let minute = Duration::from_secs(60);
    // Each use resets the idle time.
    for _ in 0..3 {
        advance(29 * minute).await;
        inside.desk.parts.sessions.sweep();
        assert_eq!(inside.connect(1 << 20).ask(Ask::post(legacy("echo")).session(&id)).await.status, 200);
    }
    advance(31 * minute).await;
    inside.desk.parts.sessions.sweep();
    inside.house.wait("closed", 1).await;
    assert_eq!(inside.desk.parts.load.stats().sessions, 0);
    assert_eq!(inside.connect(1 << 20).ask(Ask::get(&id)).await.status, 404);
}

#[tokio::test]
async fn only_an_id_that_this_gateway_sealed_names_a_session() {
    let (door, other) = (Running::start().await, Running::start().await);
    let id = open(&mut door.connect().await).await;
    let foreign = open(&mut other.connect().await).await;
    let mut changed = id.clone().into_bytes();
    changed[40] = if changed[40] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    for id in [foreign.as_str(), &changed, "0123456789abcdef0123456789abcdef", &"A".repeat(2000), "é"] {
        for ask in [Ask::post(legacy("echo")), Ask::get(""), Ask::new("DELETE /mcp")] {
            let reply = door.ask(ask.session(id)).await;
            assert_eq!((reply.status, reply.code()), (404, -32001), "{id}");
        }
    }
    other.stop().await;
    door.stop().await;
}

#[tokio::test]
async fn a_session_goes_on_at_another_replica_with_the_same_key() {
    let (one, other) = (Running::start().await, Running::start().await);
    for door in [&one, &other] {
        door.house.replica().set_keys(&[SessionKey("k".repeat(32))]);
    }
    let id = open(&mut one.connect().await).await;
    assert_eq!(other.ask(Ask::post(legacy("echo")).session(&id)).await.status, 200);
    assert_eq!(other.house.count("resumed"), 1);
    // A stream of the other replica cannot be resumed here, and its response is lost, which the client hears.
    let mut wire = one.connect().await;
    wire.send(Ask::post(legacy("progress+wait")).session(&id)).await;
    wire.head().await;
    let event = wire.message().await.unwrap().id.unwrap();
    let lost = other.ask(Ask::get(&id).with("Last-Event-ID", &event)).await;
    assert!(lost.status == 200 && lost.body.contains(r#""id":1,"error""#), "{}", lost.body);
    assert!(lost.body.contains("outcome-unknown"), "{}", lost.body);
    one.house.release.add_permits(1);
    while wire.event().await.is_some() {}
    // The standalone stream goes on at the other replica, which says that something may have been missed.
    assert!(one.house.say(0, "{}"));
    let mut stream = one.connect().await;
    stream.send(Ask::get(&id)).await;
    stream.head().await;
    let event = stream.message().await.unwrap().id.unwrap();
    let mut stream = other.connect().await;
    stream.send(Ask::get(&id).with("Last-Event-ID", event)).await;
    assert_eq!(stream.head().await.status, 200);
    other.house.wait("missed", 1).await;
    // Without the key, the session is unknown, also where it is in memory.
    for door in [&one, &other] {
        door.house.replica().set_keys(&[SessionKey("l".repeat(32))]);
        assert_eq!(door.ask(Ask::post(legacy("echo")).session(&id)).await.status, 404);
    }
    one.stop().await;
    other.stop().await;
}
