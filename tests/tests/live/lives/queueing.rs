//! Tests calls that wait in queues.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use toolgate::gate::{CallEvent, CallOptions, CallOutcome, Gate};
use toolgate::logic::types::execution::Code;
use toolgate::queue::QueueStats;

use super::{World, assert_code, assert_ok, begin, begin_with, call, ended, until};

fn queue(world: &World, name: &str) -> QueueStats {
    let queues = world.registry.queues();
    queues.into_iter().find(|queue| queue.name == name).expect("the queue is configured")
}

/// Four calls of a tool whose queue lets one through at a time.
async fn one_runs_and_three_wait(world: &World, gate: &Arc<Gate>) -> Vec<JoinHandle<CallOutcome>> {
    let running = (0..4).map(|n| begin(gate, "a.hold", &world.held(&format!("call-{n}")))).collect();
    until("one that runs and three that wait", || {
        let slow = queue(world, "slow");
        (slow.running, slow.waiting) == (1, 3)
    })
    .await;
    running
}

/// The most calls that ran at a time, by the server's own account.
fn most_at_a_time(diary: &[String]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in diary {
        match line.split(' ').next() {
            Some("began") => now += 1,
            Some("ended") => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

#[tokio::test]
async fn no_more_calls_reach_a_server_at_a_time_than_it_takes() {
    for most in [1, 3] {
        let world = World::of_one(&format!(", max_concurrent: {most}"));
        let gates = [world.gate(), world.gate()];
        let running: Vec<_> =
            (0..12).map(|n| begin(&gates[n % 2], "a.hold", &world.held(&format!("call-{n}")))).collect();
        until("as many as may run", || {
            world.diary("a").iter().filter(|line| line.starts_with("began")).count() == most
        })
        .await;
        assert_eq!(world.status("a").calls.in_flight as usize, most);
        (0..12).for_each(|n| world.release(&format!("call-{n}")));
        for running in running {
            assert_code(&ended(running).await, Code::Ok);
        }
        assert_eq!(most_at_a_time(&world.diary("a")), most, "{:?}", world.diary("a"));
    }
}

#[tokio::test]
async fn a_full_queue_refuses_and_one_that_takes_too_long_does_too() {
    let world = World::new(
        "queues: {q: {slots: 1, waiting: 1, timeout: 300ms}}\n\
         servers:\n  a: {command: FIXTURE, args: [works, DIR/a], queue: q}\n  b: {command: FIXTURE, args: [works, DIR/b], queue: q}\n",
    );
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    let waiting = begin(&gate, "b.note", r#"{"text":"two"}"#);
    until("one that waits", || queue(&world, "q").waiting == 1).await;
    for server in ["a", "b"] {
        let called = call(&gate, &format!("{server}.look"), "three").await;
        assert_code(&called, Code::QueueFull);
        let why = called.failure.expect("it was refused").to_string();
        for text in [&why, &called.result.text] {
            assert!(text.contains("queue \"q\" is full: 1 call waits already"), "{text}");
        }
    }
    assert_code(&ended(waiting).await, Code::QueueFull);
    world.release("one");
    assert_ok(&ended(running).await, "one");
    assert_ok(&call(&gate, "b.note", "four").await, "four");
    let stats = queue(&world, "q");
    assert_eq!((stats.refused, stats.timed_out, stats.running, stats.waiting), (2, 1, 0, 0));
    // What found no place was never sent.
    assert_eq!((world.count("b", "ran two"), world.count("a", "ran three")), (0, 0));
}

#[tokio::test]
async fn a_waiter_that_is_cancelled_leaves_the_queue() {
    let world = World::new(
        "queues: {q: {slots: 1, waiting: 1}}\nservers:\n  a: {command: FIXTURE, args: [works, DIR/a], queue: q}\n",
    );
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    let (options, mut events) = CallOptions::default().with_events();
    let waiting = begin_with(&gate, "a.note", r#"{"text":"two"}"#, options);
    until("one that waits", || queue(&world, "q").waiting == 1).await;
    assert!(matches!(events.recv().await, Some(CallEvent::Queued { queue }) if queue == "q"));
    assert!(gate.cancel("a.note"));
    assert_code(&ended(waiting).await, Code::Cancelled);
    let next = begin(&gate, "a.look", r#"{"text":"three"}"#);
    until("another in its place", || queue(&world, "q").waiting == 1).await;
    world.release("one");
    assert_ok(&ended(running).await, "one");
    assert_ok(&ended(next).await, "three");
    assert_eq!((queue(&world, "q").abandoned, world.count("a", "ran two")), (1, 0));
}

#[tokio::test]
async fn a_slow_tool_with_a_queue_of_its_own_keeps_no_other_tool_from_its_turn() {
    for also in ["", ", queue: rest"] {
        let world = World::new(&format!(
            "queues: {{slow: 1, rest: 1}}\n\
             servers:\n  a: {{command: FIXTURE, args: [works, DIR/a], tool_queues: {{\"h*\": slow}}{also}}}\n"
        ));
        let gate = world.gate();
        let running = one_runs_and_three_wait(&world, &gate).await;
        let options = CallOptions { deadline: Some(Duration::from_secs(20)), ..CallOptions::default() };
        for _ in 0..3 {
            let called = super::call_with(&gate, "a.note", r#"{"text":"quick"}"#, &options).await;
            assert_eq!(called.result.code, Code::Ok, "with {also:?}: {}", called.result.text);
        }
        (0..4).for_each(|n| world.release(&format!("call-{n}")));
        for running in running {
            assert_code(&ended(running).await, Code::Ok);
        }
        assert_eq!(most_at_a_time(&world.diary("a")), 1);
    }
}

#[tokio::test]
async fn a_call_that_waits_for_its_tool_keeps_no_other_from_the_server() {
    let world = World::new(
        "queues: {slow: 1}\n\
         servers:\n  a: {command: FIXTURE, args: [works, DIR/a], max_concurrent: 2, tool_queues: {\"h*\": slow}}\n",
    );
    let gate = world.gate();
    let running = one_runs_and_three_wait(&world, &gate).await;
    // Of the two turns of the server one is free, however many wait for the slow tool.
    let options = CallOptions { deadline: Some(Duration::from_secs(20)), ..CallOptions::default() };
    for _ in 0..20 {
        let called = super::call_with(&gate, "a.note", r#"{"text":"quick"}"#, &options).await;
        assert_eq!(called.result.code, Code::Ok, "{}", called.result.text);
    }
    (0..4).for_each(|n| world.release(&format!("call-{n}")));
    for running in running {
        assert_code(&ended(running).await, Code::Ok);
    }
    let own = world.status("a").queues.into_iter().find(|queue| queue.name == "server a").unwrap();
    assert_eq!((own.slots, own.running, own.waiting), (2, 0, 0));
}

#[tokio::test]
async fn a_call_that_waits_for_its_server_keeps_no_other_from_a_queue_of_many() {
    let world = World::new(
        "queues: {q: 1}\n\
         servers:\n  a: {command: FIXTURE, args: [works, DIR/a], max_concurrent: 1, tool_queues: {note: q}}\n  \
         b: {command: FIXTURE, args: [works, DIR/b], queue: q}\n",
    );
    let gate = world.gate();
    let running = begin(&gate, "a.hold", &world.held("one"));
    world.wrote("a", "began one", 1).await;
    let waiting = begin(&gate, "a.note", r#"{"text":"two"}"#);
    until("one that waits", || queue(&world, "q").waiting == 1).await;
    for _ in 0..3 {
        assert_ok(&call(&gate, "b.note", "quick").await, "quick");
    }
    assert_eq!(world.count("a", "ran two"), 0);
    world.release("one");
    assert_ok(&ended(running).await, "one");
    assert_ok(&ended(waiting).await, "two");
}

#[tokio::test]
async fn a_new_configuration_resizes_the_queues_of_servers_that_stay() {
    let yaml = |slots: usize| {
        format!("queues: {{q: {slots}}}\nservers:\n  a: {{command: FIXTURE, args: [works, DIR/a], queue: q}}\n")
    };
    let world = World::new(&yaml(1));
    let gate = world.gate();
    let running: Vec<_> = (0..3).map(|n| begin(&gate, "a.hold", &world.held(&format!("call-{n}")))).collect();
    until("two that wait", || queue(&world, "q").waiting == 2).await;
    let changes = world.registry.set_servers(world.config(&yaml(2))).unwrap();
    assert_eq!((changes.unchanged, changes.settings), (vec!["a".to_owned()], true));
    until("two that run", || world.diary("a").iter().filter(|line| line.starts_with("began")).count() == 2).await;
    assert_eq!((queue(&world, "q").slots, queue(&world, "q").waiting), (2, 1));
    assert!(!world.registry.set_servers(world.config(&format!("\n{}", yaml(2)))).unwrap().settings);
    (0..3).for_each(|n| world.release(&format!("call-{n}")));
    for running in running {
        assert_code(&ended(running).await, Code::Ok);
    }
    assert_eq!(most_at_a_time(&world.diary("a")), 2);
}
