//! Tests servers that die and are restarted.

use std::time::Duration;

use toolgate::failure::HttpError;
use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::{Fate, SlowToGo, World, assert_near, only, patient, seconds, within};
use crate::world::server::{Mind, Nature, What};

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_and_answers_a_probe_is_not_restarted() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.a.minds(only("tools/call", Fate::Silence { ran: true }));
    let ended = world.begin("a.act", patient(2)).await.unwrap();
    assert_eq!(ended.code, Code::OutcomeUnknown, "{}", ended.text);
    assert_near(ended.at, 2.0);
    tokio::task::yield_now().await;
    world.at(2.1).await;
    assert_eq!((world.state(), world.attempts()), (State::Ready, 1));
    assert_eq!(world.ledger.times("a", "ping").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_probe_is_restarted_once() {
    let world = World::new("  a: {protocol: legacy, eager: true}\n");
    world.a.minds(|method: &str| match method {
        "tools/call" | "ping" => Fate::Silence { ran: false },
        _ => Fate::WELL,
    });
    let (first, second) = (world.begin("a.act", patient(2)), world.begin("a.set", patient(3)));
    assert_near(first.await.unwrap().at, 2.0);
    assert_near(second.await.unwrap().at, 3.0);
    assert_eq!(world.state(), State::Degraded);
    world.a.recover();
    world.at(4.9).await;
    assert_eq!(world.attempts(), 1);
    world.at(5.1).await;
    assert_eq!((world.state(), world.attempts()), (State::Ready, 2));
    assert_eq!(world.ledger.times("a", "ping").len(), 1, "two calls timed out, and one probe says it all");
    world.at(60.0).await;
    assert_eq!(world.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_up_is_tried_by_the_schedule_for_ever() {
    let world = World::new("  a: {protocol: legacy, eager: true}\n");
    world.a.minds(|_: &str| Fate::Refuse);
    world.at(600.0).await;
    check_delays(&world, &[0, 1, 2, 5, 10, 30, 60, 60, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_soon_after_each_start_is_restarted_by_the_schedule() {
    let world = World::new("  a: {protocol: legacy, eager: true}\n");
    world.a.minds(Mortal(seconds(1)));
    world.at(300.0).await;
    check_delays(&world, &[0, 1, 2, 5, 10, 30, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_held_for_a_while_is_restarted_at_once() {
    let world = World::new("  a: {protocol: legacy, eager: true, health_interval: 0}\n");
    world.a.minds(Mortal(seconds(11)));
    world.at(100.0).await;
    check_delays(&world, &[0; 8]);
}

/// Checks the pauses between the end of one connection and the beginning of the next.
#[track_caller]
fn check_delays(world: &World, delays: &[u64]) {
    let attempts = world.ledger.attempts("a");
    let pauses: Vec<_> = attempts.windows(2).map(|pair| pair[1].at - pair[0].gone.unwrap()).collect();
    assert!(pauses.len() >= delays.len(), "{pauses:?}");
    for (pause, delay) in pauses.iter().zip(delays.iter().copied().map(seconds)) {
        assert!(*pause >= delay && *pause <= delay + delay / 5 + Duration::from_millis(5), "{pauses:?}");
    }
    assert_eq!(world.ledger.crowd("a"), 1);
}

/// Connects well, and dies after this time.
struct Mortal(Duration);

impl Mind for Mortal {
    fn nature(&mut self) -> Nature {
        Nature { lasts: Some(self.0), ..Nature::default() }
    }

    fn meet(&mut self, _what: &What<'_>) -> Fate {
        Fate::WELL
    }
}

#[tokio::test(start_paused = true)]
async fn callers_during_a_restart_wait_for_the_attempt_and_are_told_what_came_of_it() {
    let world = World::new("  a: {protocol: legacy}\n");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    world.at(20.0).await;
    world.a.minds(only("connect", Fate::Silence { ran: false }));
    let patient = world.begin("a.act", CallOptions::default());
    let hasty = world.begin("a.set", within(3));
    world.a.kill();
    let ended = hasty.await.unwrap();
    assert_eq!(ended.code, Code::RestartInProgress, "{}", ended.text);
    assert!(ended.text.contains("mcp_restart_in_progress"), "{}", ended.text);
    assert_near(ended.at, 23.0);
    // A new process has as long as the first one had: 30 s.
    let ended = patient.await.unwrap();
    assert_eq!(ended.code, Code::RestartFailed, "{}", ended.text);
    assert!(ended.text.contains("mcp_restart_failed"), "{}", ended.text);
    assert_near(ended.at, 50.0);
    let ended = world.call("a.read").await;
    assert_eq!(ended.code, Code::RestartFailed, "{}", ended.text);
    assert_near(ended.at, 50.0);
    assert!(world.ledger.seen("a.act").runs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_old_connection_is_gone_before_the_next_one_is_made() {
    let world = World::new("  a: {protocol: legacy}\n");
    world.a.minds(SlowToGo(seconds(3)));
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    world.registry.reconnect("a");
    let ended = world.call("a.act").await;
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 3.0);
    assert_eq!((world.attempts(), world.ledger.crowd("a")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_given_up_ends_after_the_calls_that_use_it() {
    let world = World::new("  a: {protocol: legacy}\n");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    let mut calls = 0;
    world.a.minds(move |method: &str| {
        calls += usize::from(method == "tools/call");
        let error = HttpError { status: 503, ..HttpError::default() };
        match (method, calls) {
            ("tools/call", 1) => Fate::after(5),
            ("tools/call", 2) => Fate::Http { error, after: Duration::ZERO, ran: false },
            _ => Fate::WELL,
        }
    });
    let slow = world.begin("a.act", CallOptions::default());
    tokio::task::yield_now().await;
    let refused = world.begin("a.set", CallOptions::default());
    assert_eq!(refused.await.unwrap().code, Code::Ok, "it is safe, and tried again on a new session");
    let ended = slow.await.unwrap();
    assert_eq!(ended.code, Code::Ok, "another call's 503 is none of its business: {}", ended.text);
    assert_near(ended.at, 5.0);
    world.at(10.0).await;
    assert_eq!((world.attempts(), world.ledger.standing().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_exchange_ends_with_its_connection_is_not_made_again() {
    struct DiesOfCalls;
    impl Mind for DiesOfCalls {
        fn nature(&mut self) -> Nature {
            Nature { web: true, ..Nature::default() }
        }
        fn meet(&mut self, what: &What<'_>) -> Fate {
            let dies = what.method == "tools/call";
            if dies { Fate::Die { after: Duration::ZERO, ran: true } } else { Fate::WELL }
        }
    }
    let world = World::new("  a: {protocol: legacy}\n");
    world.a.minds(DiesOfCalls);
    let ended = world.call("a.act").await;
    assert_eq!(ended.code, Code::OutcomeUnknown, "{}", ended.text);
    assert_eq!(world.ledger.seen("a.act").runs.len(), 1);
}
