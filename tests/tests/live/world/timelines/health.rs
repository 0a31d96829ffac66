//! Tests health checks, and servers that stop when they are idle.

use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{Fate, World, assert_near, only};

#[tokio::test(start_paused = true)]
async fn health_checks_neither_start_a_server_nor_keep_it_from_going_idle() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.at(100.0).await;
    assert_eq!((world.state(), world.attempts()), (State::Dormant, 0), "nobody wants it");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    world.at(399.0).await;
    assert_eq!(world.state(), State::Ready);
    let pings = world.ledger.times("a", "ping");
    assert_eq!(pings.len(), 19, "{pings:?}");
    for (at, n) in pings.iter().zip(1..) {
        assert_near(*at, 100.0 + f64::from(n) * 15.0);
    }
    // Five minutes, and the moment in which calls still count as one row.
    world.at(403.0).await;
    assert_eq!(world.state(), State::Dormant);
    assert!(world.ledger.standing().is_empty());
    let status = world.registry.link("a").unwrap().status();
    assert!(status.ready, "its last start succeeded");
    let asked = world.ledger.times("a", "ping").len();
    world.at(2_000.0).await;
    assert_eq!((world.attempts(), world.ledger.times("a", "ping").len()), (1, asked));
    let ended = world.call("a.read").await;
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 2_000.0);
    assert_eq!(world.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_kept_for_no_time_stops_after_its_call_and_not_before() {
    let world = World::new("  a: {idle_timeout: 0s}\n");
    world.a.minds(only("tools/call", Fate::after(30)));
    let call = world.begin("a.act", CallOptions::default());
    world.at(29.0).await;
    assert_eq!(world.attempts(), 1);
    assert_eq!(call.await.unwrap().code, Code::Ok);
    world.at(30.1).await;
    assert_eq!(world.state(), State::Dormant);
    assert!(world.ledger.standing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_misses_one_health_check_gets_a_second_look() {
    let world = World::new("  a: {protocol: legacy, eager: true}\n");
    let mut pings = 0;
    world.a.minds(move |method: &str| {
        pings += usize::from(method == "ping");
        if method == "ping" && pings == 1 { Fate::Silence { ran: false } } else { Fate::WELL }
    });
    world.at(19.9).await;
    assert_eq!(world.state(), State::Ready);
    world.at(20.1).await;
    assert_eq!((world.state(), world.attempts()), (State::Ready, 1));
    let pings = world.ledger.times("a", "ping");
    assert_eq!(pings.len(), 2);
    assert_near(pings[0], 15.0);
    assert_near(pings[1], 20.0);
}

#[tokio::test(start_paused = true)]
async fn a_health_check_can_list_the_tools() {
    let world = World::new("  a: {protocol: legacy, eager: true, health_probe: list-tools}\n");
    world.at(15.1).await;
    assert!(world.ledger.times("a", "ping").is_empty());
    assert_near(*world.ledger.times("a", "tools/list").last().unwrap(), 15.0);
    world.a.minds(only("tools/list", Fate::Silence { ran: false }));
    world.at(45.0).await;
    assert!(world.attempts() > 1, "a server that does not list its tools is restarted");
}
