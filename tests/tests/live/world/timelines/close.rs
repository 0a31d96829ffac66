//! Tests closing the registry while calls run.

use std::sync::Arc;

use toolgate::gate::{CallOptions, CloseMode, Gate, GateView};
use toolgate::logic::types::execution::Code;

use super::{Fate, SlowToGo, World, assert_near, begin, only, read, seconds};

#[tokio::test(start_paused = true)]
async fn a_closed_registry_opens_nothing_for_a_call_that_would_be_tried_again() {
    for sharing in ["{}", "{shared: false}"] {
        let world = World::new(&format!("  a: {sharing}\n"));
        assert_eq!(world.call("a.read").await.code, Code::Ok);
        world.a.minds(only("tools/call", Fate::Silence { ran: false }));
        let call = world.begin("a.set", CallOptions::default());
        world.at(1.0).await;
        world.registry.close().await;
        let ended = call.await.unwrap();
        assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        assert!(ended.at.as_secs_f64() < 2.0, "{:?}", ended.at);
        assert_eq!((world.attempts(), world.ledger.standing().len()), (1, 0), "{sharing}");
        let ended = world.call("a.read").await;
        assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        assert_eq!(world.attempts(), 1, "{sharing}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_does_not_wait_for_the_calls_of_servers_that_are_configured_no_more() {
    let world = World::new("  a: {}\n  b: {}\n");
    world.a.minds(only("tools/call", Fate::Silence { ran: false }));
    let call = world.begin("a.act", CallOptions::default());
    world.at(1.0).await;
    world.registry.set_servers(read("  b: {}\n")).unwrap();
    world.at(2.0).await;
    world.registry.close().await;
    assert_near(world.ledger.now(), 2.0);
    assert_eq!(call.await.unwrap().code, Code::OutcomeUnknown);
    assert!(world.ledger.standing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_is_dropped_leaves_nothing_that_was_being_ended() {
    let world = World::new("  a: {}\n");
    world.a.minds(SlowToGo(seconds(3)));
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    world.registry.set_servers(read("")).unwrap();
    world.at(1.0).await;
    assert_eq!(world.ledger.standing().len(), 1);
    let World { ledger, registry, gate, .. } = world;
    drop((registry, gate));
    tokio::task::yield_now().await;
    assert!(ledger.standing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_closed_takes_its_own_connections_with_it_and_no_others() {
    let world = World::new("  a: {shared: false}\n  b: {}\n");
    for name in ["a.read", "b.read"] {
        assert_eq!(world.call(name).await.code, Code::Ok);
    }
    world.gate.close(CloseMode::Cancel).await;
    let standing: Vec<_> = world.ledger.standing().into_iter().map(|attempt| attempt.server).collect();
    assert_eq!(standing, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_while_its_last_gate_is_closed_is_served() {
    let world = World::new("  a: {env: {SESSION: \"{{.SESSION_ID}}\"}}\n");
    world.a.minds(SlowToGo(seconds(3)));
    let view = || GateView { session: Some("one".to_owned()), ..GateView::default() };
    let open = || Arc::new(Gate::open(&world.registry, view()).unwrap());
    let (first, second) = (open(), open());
    assert_eq!(begin(&first, &world.ledger, "a.read", CallOptions::default()).await.unwrap().code, Code::Ok);
    let closing = tokio::spawn(async move { first.close(CloseMode::Cancel).await });
    tokio::task::yield_now().await;
    assert_eq!(begin(&second, &world.ledger, "a.act", CallOptions::default()).await.unwrap().code, Code::Ok);
    closing.await.unwrap();
    assert_near(world.ledger.now(), 3.0);
    assert_eq!(begin(&second, &world.ledger, "a.set", CallOptions::default()).await.unwrap().code, Code::Ok);
    assert_eq!((world.attempts(), world.ledger.standing().len()), (2, 1));
}
