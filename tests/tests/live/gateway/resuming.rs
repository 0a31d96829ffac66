//! Tests sessions that go on at another replica.

use serde_json::json;

use super::fixtures;
use super::sharing::{Guest, ended, gateway};

#[tokio::test]
async fn a_session_goes_on_at_another_replica_with_what_initialize_fixed() {
    let servers = [("a", "chatty"), ("b", "chatty")];
    let (one, other) = (gateway(fixtures(&servers, "")), gateway(fixtures(&servers, "")));
    let selection = json!({"toolgate/selection": {"b": ["later"]}});
    let ann = Guest::open_with(&one, "ann", json!({"elicitation": {"form": {}}}), selection).await;
    let resumed = ann.resume(&other, "ann");
    for guest in [&ann, &resumed] {
        let tools = guest.ask("tools/list", json!({})).await;
        let names: Vec<_> = tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["b__later"]);
        let refused = ended(guest.call("1", "a__later", json!({}))).await;
        assert!(refused.to_string().contains("is not available"), "{refused}");
    }
    assert_eq!(ended(resumed.call("2", "b__later", json!({}))).await["result"]["content"][0]["text"], "wait for it");
}

#[tokio::test]
async fn a_question_is_asked_where_the_call_runs_and_an_answer_elsewhere_is_refused_at_once() {
    let rules = "destructive: ask";
    let servers = [("a", "chatty")];
    let (one, other) = (gateway(fixtures(&servers, rules)), gateway(fixtures(&servers, rules)));
    let ann = Guest::open(&one, "ann", json!({"elicitation": {"form": {}}})).await;
    let resumed = ann.resume(&other, "ann");
    let call = resumed.call("1", "a__later", json!({}));
    let question = resumed.hears("elicitation/create").await;
    let answer =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"approve": true}}});
    let refused = ann.send(answer.clone()).await.expect("the client is told");
    assert!(refused["error"]["message"].as_str().unwrap().contains("another replica"), "{refused}");
    assert_eq!(resumed.send(answer).await, None);
    assert_eq!(ended(call).await["result"]["content"][0]["text"], "wait for it");
    // Its own questions are answered as ever, and an answer to none is dropped.
    assert_eq!(resumed.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": {}})).await, None);
}
