//! Tests when lists of tools are fetched again, and which list decides a call.

use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;

use super::{Fate, World, assert_near, only};

#[tokio::test(start_paused = true)]
async fn a_call_after_an_announced_change_is_decided_by_the_new_list() {
    let world = World::new("  a: {}\n  b: {}\n");
    assert_eq!(world.call("a.extra_0").await.code, Code::Ok);
    world.a.minds(only("tools/list", Fate::after(3)));
    world.a.change_tools();
    world.at(1.0).await;
    let old = world.begin("a.extra_0", CallOptions::default());
    let new = world.begin("a.extra_1", CallOptions::default());
    let other = world.call("b.read").await;
    assert_eq!(other.code, Code::Ok, "{}", other.text);
    assert_near(other.at, 1.0);
    for (call, code) in [(old, Code::UnknownTool), (new, Code::Ok)] {
        let ended = call.await.unwrap();
        assert_eq!(ended.code, code, "{}", ended.text);
        assert_near(ended.at, 3.0);
    }
    assert_eq!(world.ledger.times("a", "tools/list").len(), 2);
    let again = world.call("a.extra_1").await;
    assert_eq!(again.code, Code::Ok, "{}", again.text);
    assert_near(again.at, 3.0);
}

#[tokio::test(start_paused = true)]
async fn no_call_is_decided_by_a_list_that_was_announced_as_old_and_cannot_be_fetched_again() {
    let world = World::new("  a: {}\n");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    for fate in [Fate::Error { after: std::time::Duration::ZERO, ran: false }, Fate::Silence { ran: false }] {
        world.a.fall_ill(only("tools/list", fate));
        world.a.change_tools();
        world.at(1.0).await;
        for _ in 0..2 {
            let ended = world.call("a.read").await;
            assert_eq!(ended.code, Code::ServerUnavailable, "{}", ended.text);
        }
    }
    world.a.recover();
    let ended = world.call("a.read").await;
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_server_that_announces_no_changes_are_listed_again_after_five_minutes() {
    for quiet in [false, true] {
        let world = World::new("  a: {protocol: legacy, eager: true}\n");
        if quiet {
            world.a.be_quiet();
        }
        world.at(1.0).await;
        world.a.change_tools_quietly();
        world.at(299.0).await;
        assert_eq!(world.ledger.times("a", "tools/list").len(), 1, "{quiet}");
        world.at(301.0).await;
        assert_eq!(world.ledger.times("a", "tools/list").len(), if quiet { 2 } else { 1 });
        let ended = world.call("a.extra_1").await;
        assert_eq!(ended.code, if quiet { Code::Ok } else { Code::UnknownTool }, "{}", ended.text);
    }
}
