//! Tests scopes: more are requested when a tool needs them, and no more often than necessary.

use serde_json::json;
use toolgate::logic::types::lifecycle::State;

use super::bench::{Bench, With};
use super::world::Rules;

#[tokio::test]
async fn a_tool_that_wants_more_rights_gets_them_beside_those_that_there_were() {
    let bench = Bench::with(Rules::default(), json!({"type": "oauth", "scopes": ["read"]}), With::Person).await;
    bench.works("read").await;
    bench.works("write").await;
    bench.works("erase").await;
    let asked: Vec<_> =
        bench.world.seen("issuer /authorize").iter().map(|seen| seen.parameter("scope").to_owned()).collect();
    assert_eq!(asked, ["read", "read write", "read write erase"]);
    assert_eq!(bench.world.seen("issuer /register").len(), 1);
}

#[tokio::test]
async fn rights_that_are_not_granted_or_do_not_help_are_asked_for_once() {
    for rules in [Rules { grants: vec!["read"], ..Rules::default() }, Rules { never_enough: true, ..Rules::default() }]
    {
        let bench = Bench::with(rules, json!({"type": "oauth", "scopes": ["read"]}), With::Person).await;
        bench.works("read").await;
        for _ in 0..4 {
            bench.needs_auth("write").await;
        }
        assert_eq!(bench.asked(), 2);
        // The other tools work as before.
        bench.works("read").await;
        assert_eq!(bench.state(), State::Ready);
    }
}

#[tokio::test]
async fn without_a_person_one_tool_wants_more_and_the_others_work() {
    let bench = Bench::new(Rules::default()).await;
    bench.works("read").await;
    let entry = bench.entry();
    let bench = bench.again(entry, With::Nobody);
    let text = bench.needs_auth("write").await;
    assert!(text.contains("the server needs more scopes: write; run `toolgate auth login notes`"), "{text}");
    bench.works("read").await;
}
