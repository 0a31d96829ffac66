//! Tests of how sessions of the initialize era begin and end.

use std::collections::HashSet;

use tokio::time::advance;

use super::*;

#[tokio::test]
async fn a_session_lives_from_initialize_to_delete_and_is_closed_once() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    assert_eq!(id.len(), 32);
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
async fn a_thousand_sessions_are_open_at_once_and_one_more_is_refused() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let mut ids = HashSet::new();
    for _ in 0..1000 {
        ids.insert(open(&mut wire).await);
    }
    assert_eq!(ids.len(), 1000);
    let reply = wire.ask(Ask::post(legacy("initialize"))).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("30")));
    assert!(reply.body.contains("DELETE"), "{}", reply.body);
    let id = ids.iter().next().unwrap();
    assert_eq!(wire.ask(Ask::post(legacy("echo")).session(id)).await.status, 200);
    assert_eq!(wire.ask(Ask::new("DELETE /mcp").session(id)).await.status, 204);
    open(&mut wire).await;
    let (factory, stats) = (door.house.clone(), door.load.stats());
    assert_eq!((stats.sessions, stats.refused.of(RefusalReason::Sessions)), (1000, 1));
    door.stop().await;
    assert_eq!((factory.count("opened"), factory.count("closed")), (1001, 1001));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_ends() {
    let inside = Inside::new(GatewayLimits::default());
    let id = open(&mut inside.connect(1 << 20)).await;
    let minute = Duration::from_secs(60);
    // Each use resets the idle time, with or without a sweep.
    for _ in 0..3 {
        advance(29 * minute).await;
        inside.desk.parts.sessions.sweep();
        assert_eq!(inside.connect(1 << 20).ask(Ask::post(legacy("echo")).session(&id)).await.status, 200);
    }
    // An open stream counts as use.
    let mut stream = inside.connect(1 << 20);
    stream.send(Ask::get(&id)).await;
    assert_eq!(stream.head().await.status, 200);
    advance(90 * minute).await;
    inside.desk.parts.sessions.sweep();
    assert_eq!(inside.house.count("closed"), 0);
    drop(stream);
    advance(minute).await;
    advance(30 * minute).await;
    // The session has ended, even before a sweep.
    assert_eq!(inside.connect(1 << 20).ask(Ask::post(legacy("echo")).session(&id)).await.status, 404);
    inside.house.wait("closed", 1).await;
    let other = open(&mut inside.connect(1 << 20)).await;
    advance(31 * minute).await;
    inside.desk.parts.sessions.sweep();
    inside.house.wait("closed", 2).await;
    assert_eq!(inside.desk.parts.load.stats().sessions, 0);
    assert_eq!(inside.connect(1 << 20).ask(Ask::get(&other)).await.status, 404);
}
