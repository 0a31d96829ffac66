//! Tests callers of a server that is still starting.

use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{Fate, World, assert_near, only};
use crate::world::server::{Mind, Nature, What};

#[tokio::test(start_paused = true)]
async fn callers_wait_together_fail_together_and_then_at_once_until_the_server_is_back() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.a.minds(|_: &str| Fate::Refuse);
    let first = world.begin("a.read", CallOptions::default());
    world.at(5.0).await;
    let second = world.begin("a.act", CallOptions::default());
    for call in [first, second] {
        let ended = call.await.unwrap();
        assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        assert_near(ended.at, 60.0);
    }
    for later in [65.0, 120.0] {
        world.at(later).await;
        let ended = world.call("a.read").await;
        assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        assert_near(ended.at, later);
        assert_eq!(world.state(), State::Failed);
    }
    world.at(290.0).await;
    world.a.recover();
    // The longest delay, with its spread.
    world.at(290.0 + 72.0).await;
    assert_eq!(world.state(), State::Ready, "nobody called, and yet it was tried again");
    let attempts = world.attempts();
    let ended = world.call("a.read").await;
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 362.0);
    assert_eq!(world.attempts(), attempts);
}

#[tokio::test(start_paused = true)]
async fn callers_give_up_an_attempt_that_hangs_and_it_goes_on_without_them() {
    let world = World::new("  a: {protocol: legacy, acquire_timeout: 3s}\n");
    world.a.minds(only("initialize", Fate::after(20)));
    for (from, until) in [(0.0, 3.0), (5.0, 5.0)] {
        world.at(from).await;
        let ended = world.call("a.read").await;
        assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        assert!(ended.text.contains("it did not start within 3s"), "{}", ended.text);
        assert_near(ended.at, until);
        assert_eq!(world.state(), State::Failed);
    }
    world.at(20.1).await;
    assert_eq!((world.state(), world.attempts()), (State::Ready, 1), "the first attempt went on");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
}

#[tokio::test(start_paused = true)]
async fn who_sets_only_a_longer_time_to_initialize_has_callers_wait_that_long() {
    let world = World::new("  a: {protocol: legacy, timeouts: {initialize: 2m}}\n");
    world.a.minds(only("initialize", Fate::after(90)));
    let ended = world.call("a.read").await;
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 90.0);
}

#[tokio::test(start_paused = true)]
async fn fifty_callers_of_a_cold_server_start_it_once() {
    // A server of the modern era does not say how long its lists hold, so they do not.
    for modern in [false, true] {
        let world = World::new("  a: {}\n");
        world.a.minds(SlowToStart { modern });
        let calls: Vec<_> = (0..50).map(|_| world.begin("a.read", CallOptions::default())).collect();
        for call in calls {
            let ended = call.await.unwrap();
            assert_eq!(ended.code, Code::Ok, "{}", ended.text);
            assert_near(ended.at, 5.0);
        }
        assert_eq!(world.attempts(), 1);
        assert_eq!(world.ledger.times("a", "tools/list").len(), 1);
    }
}

/// Takes three seconds to connect, and two to list its tools.
struct SlowToStart {
    modern: bool,
}

impl Mind for SlowToStart {
    fn nature(&mut self) -> Nature {
        Nature { modern: self.modern, ..Nature::default() }
    }

    fn meet(&mut self, what: &What<'_>) -> Fate {
        match what.method {
            "connect" => Fate::after(3),
            "tools/list" => Fate::after(2),
            _ => Fate::WELL,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn callers_who_wait_for_a_list_that_does_not_come_fail_together() {
    let world = World::new("  a: {}\n");
    world.a.minds(only("tools/list", Fate::Silence { ran: false }));
    let calls: Vec<_> = (0..20).map(|_| world.begin("a.read", CallOptions::default())).collect();
    for call in calls {
        let ended = call.await.unwrap();
        assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        assert_near(ended.at, 10.0);
    }
    assert_eq!(world.ledger.times("a", "tools/list").len(), 1);
    world.a.recover();
    assert_eq!(world.call("a.read").await.code, Code::Ok, "who comes later asks anew");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_begins_anew_serves_a_call_that_met_it_given_up() {
    let world = World::new("  a: {protocol: legacy}\n");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    world.a.minds(|_: &str| Fate::Refuse);
    world.registry.reconnect("a");
    let call = world.begin("a.act", CallOptions::default());
    world.at(60.1).await;
    assert_eq!(world.state(), State::Failed);
    world.a.minds(only("connect", Fate::after(2)));
    world.registry.reconnect("a");
    // It is tried once more, and finds the server on its way up.
    let ended = call.await.unwrap();
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 62.1);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_servers_start_at_once() {
    for (limit, at) in [(1, 3.0), (2, 0.5)] {
        let world = World::new(&format!("  a: {{}}\n  b: {{}}\nstart_concurrency: {limit}\n"));
        world.a.minds(SlowToStart { modern: false });
        let slow = world.begin("a.read", CallOptions::default());
        world.at(0.5).await;
        let quick = world.call("b.read").await;
        assert_eq!(quick.code, Code::Ok, "{}", quick.text);
        assert_near(quick.at, at);
        assert_eq!(slow.await.unwrap().code, Code::Ok);
    }
}
