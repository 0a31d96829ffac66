//! Tests configurations that change while servers are in use.

use toolgate::gate::CallOptions;
use toolgate::logic::types::execution::Code;

use super::{Fate, World, assert_near, only, read};

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_server_that_is_configured_anew_waits_for_the_new_one() {
    for warm in [false, true] {
        let world = World::new("  a: {protocol: legacy}\n");
        if warm {
            assert_eq!(world.call("a.read").await.code, Code::Ok);
            world.a.kill();
        }
        world.a.minds(only("connect", Fate::Silence { ran: false }));
        let waiting = world.begin("a.act", CallOptions::default());
        world.at(3.0).await;
        world.a.recover();
        let changes = world.registry.set_servers(read("  a: {protocol: legacy, args: [new]}\n")).unwrap();
        assert_eq!(changes.updated, ["a"]);
        let ended = waiting.await.unwrap();
        assert_eq!(ended.code, Code::Ok, "{}", ended.text);
        // A warm call takes a breath before its second attempt.
        assert!(ended.at.as_secs_f64() < 4.0, "{:?}", ended.at);
        assert_eq!(world.ledger.standing().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_not_changed_goes_on_though_no_other_gate_shares_it() {
    let world = World::new("  a: {shared: false}\n  b: {}\n");
    for name in ["a.read", "b.read"] {
        assert_eq!(world.call(name).await.code, Code::Ok);
    }
    let changes = world.registry.set_servers(read("  b: {args: [new]}\n  a: {shared: false}\n")).unwrap();
    assert_eq!(
        (changes.unchanged.as_slice(), changes.updated.as_slice()),
        (&["a".to_owned()][..], &["b".to_owned()][..])
    );
    for name in ["a.act", "b.act"] {
        assert_eq!(world.call(name).await.code, Code::Ok);
    }
    assert_eq!((world.attempts(), world.ledger.attempts("b").len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_under_way_ends_as_it_began_and_later_ones_use_the_new_server() {
    let world = World::new("  a: {}\n");
    assert_eq!(world.call("a.read").await.code, Code::Ok);
    world.a.minds(only("tools/call", Fate::after(20)));
    let slow = world.begin("a.act", CallOptions::default());
    world.at(1.0).await;
    world.registry.set_servers(read("  a: {args: [new]}\n")).unwrap();
    world.a.recover();
    let ended = world.call("a.set").await;
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 1.0);
    assert_eq!(world.ledger.standing().len(), 2);
    let ended = slow.await.unwrap();
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 20.0);
    world.at(21.0).await;
    assert_eq!(world.ledger.standing().len(), 1, "the old one goes with its last call");
}

#[tokio::test(start_paused = true)]
async fn a_first_call_is_not_lost_when_the_configuration_changes_under_it() {
    let world = World::new("  a: {}\n  b: {}\n");
    world.a.minds(only("connect", Fate::after(5)));
    let first = world.begin("a.act", CallOptions::default());
    world.at(1.0).await;
    world.registry.set_servers(read("  a: {}\n  b: {args: [new]}\n")).unwrap();
    // This one makes the gate take in the new configuration.
    assert_eq!(world.call("b.read").await.code, Code::Ok);
    let ended = first.await.unwrap();
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    assert_near(ended.at, 5.0);
}
