//! Tests servers that do one thing at a time and servers that hang, which look the same for a while.

use std::sync::Arc;

use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{Fate, World, assert_near, patient, seconds, tool_call};
use crate::world::ledger::Ledger;
use crate::world::server::{Mind, Nature, What};

/// Works on its first call until the world is so old, and hears of nothing else before.
struct OneThing {
    ledger: Arc<Ledger>,
    until: u64,
    web: bool,
}

impl Mind for OneThing {
    fn nature(&mut self) -> Nature {
        Nature { web: self.web, ..Nature::default() }
    }

    fn meet(&mut self, what: &What<'_>) -> Fate {
        let busy = seconds(self.until).saturating_sub(self.ledger.now());
        match what.method {
            "tools/call" => Fate::Answer { after: busy, early: true },
            "ping" | "server/discover" if !busy.is_zero() => Fate::Silence { ran: false },
            _ => Fate::WELL,
        }
    }
}

impl World {
    fn is_busy_until(&self, until: u64, web: bool) {
        self.a.minds(OneThing { ledger: Arc::clone(&self.ledger), until, web });
    }

    /// From now on it answers nothing but what concerns new connections.
    fn hangs(&self) {
        self.a.minds(|method: &str| match method {
            "tools/call" | "ping" => Fate::Silence { ran: true },
            _ => Fate::WELL,
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_with_a_call_is_not_restarted_for_its_silence() {
    for web in [false, true] {
        let world = World::new("  a: {protocol: legacy}\n");
        world.is_busy_until(42, web);
        let call = world.begin("a.act", CallOptions::default());
        world.at(41.9).await;
        assert_eq!((world.state(), world.attempts()), (State::Ready, 1));
        let ended = call.await.unwrap();
        assert_eq!(ended.code, Code::Ok, "{}", ended.text);
        assert_near(ended.at, 42.0);
        // It is asked again as soon as it has nothing else to do, and then as before.
        world.at(60.0).await;
        let pings = world.ledger.times("a", "ping");
        assert_eq!(pings.len(), 3, "{pings:?}");
        [15.0, 42.0, 57.0].into_iter().zip(pings).for_each(|(expected, at)| assert_near(at, expected));
        assert_eq!((world.state(), world.attempts()), (State::Ready, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_costs_others_neither_their_call_nor_their_server() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.is_busy_until(42, false);
    let slow = world.begin("a.act", CallOptions::default());
    world.at(1.0).await;
    let hasty = world.begin("a.set", patient(2)).await.unwrap();
    assert_eq!(hasty.code, Code::Timeout, "{}", hasty.text);
    assert_near(hasty.at, 3.0);
    world.at(41.0).await;
    assert_eq!((world.state(), world.attempts()), (State::Degraded, 1), "it is asked, and does not answer yet");
    let ended = slow.await.unwrap();
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    world.at(42.1).await;
    assert_eq!((world.state(), world.attempts()), (State::Ready, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_restarted_when_its_first_call_has_waited_long_enough() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.hangs();
    let first = world.begin("a.act", CallOptions::default());
    world.at(30.0).await;
    let safe_one = world.begin("a.read", CallOptions::default());
    let gate = Arc::clone(&world.gate);
    let unsafe_one = tokio::spawn(async move {
        gate.call(tool_call("a.act", "another"), &CallOptions::default()).await.expect("the component answers")
    });
    let ended = first.await.unwrap();
    assert_eq!(ended.code, Code::OutcomeUnknown, "{}", ended.text);
    assert_near(ended.at, 60.0);
    world.at(62.9).await;
    assert_eq!((world.state(), world.attempts()), (State::Degraded, 1));
    world.a.recover();
    let lost = unsafe_one.await.unwrap();
    assert_near(world.ledger.now(), 63.0);
    assert_eq!(lost.result.code, Code::OutcomeUnknown, "{}", lost.result.text);
    assert!(lost.result.text.contains("the connection to server \"a\" ended"), "{}", lost.result.text);
    let why = lost.failure.expect("it failed").to_string();
    assert_eq!(why, "toolgate restarted the server, which did not answer: no answer to ping within 3s");
    assert_eq!(safe_one.await.unwrap().code, Code::Ok, "it is made again");
    assert_eq!((world.state(), world.attempts()), (State::Ready, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_restarted_though_callers_come_and_go() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.hangs();
    // None waits for the whole of its time, and there is nearly always one.
    for from in [0.0, 21.0, 42.0] {
        world.at(from).await;
        let call = world.begin("a.act", CallOptions::default());
        world.at(from + 20.0).await;
        call.abort();
    }
    world.at(63.0).await;
    let _last = world.begin("a.act", CallOptions::default());
    world.at(67.9).await;
    assert_eq!(world.attempts(), 1);
    world.at(68.1).await;
    assert_eq!(world.attempts(), 2, "the time of its first call, a check and a second look");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_after_the_check_is_no_excuse() {
    let world = World::new("  a: {protocol: legacy, eager: true}\n");
    world.hangs();
    world.at(16.0).await;
    let call = world.begin("a.read", CallOptions::default());
    world.at(22.9).await;
    assert_eq!((world.state(), world.attempts()), (State::Degraded, 1));
    world.a.recover();
    let ended = call.await.unwrap();
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert!(ended.at < seconds(24), "{:?}", ended.at);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_while_it_works_is_there() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.is_busy_until(42, false);
    let slow = world.begin("a.act", CallOptions::default());
    world.at(16.0).await;
    world.a.change_tools();
    world.at(20.1).await;
    let status = world.registry.link("a").unwrap().status();
    assert!(status.last_check.is_some() && status.last_error.is_none(), "{status:?}");
    // The next check comes in its time.
    world.at(35.5).await;
    assert_eq!(world.ledger.times("a", "ping").len(), 2);
    assert_eq!(slow.await.unwrap().code, Code::Ok);
    assert_eq!(world.attempts(), 1);
}
