//! Tests servers side by side: a server that sends or claims too much does not affect the others or their clients.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use toolgate::gateway::client::Principal;
use toolgate::gateway::{Gateway, GatewayOptions, Relay};
use toolgate::registry::{self, Registry};

use super::{Lines, client, fixtures, serve_over};
use crate::fixtures::component;

/// A client of the initialize era with these capabilities, of a gateway in front of fixtures.
async fn open(servers: &[(&str, &str)], settings: &str, capabilities: Value) -> Lines {
    let (stream, _served) = serve_over(fixtures(servers, settings), HashMap::new(), GatewayOptions::default());
    Lines::greet(stream, capabilities).await
}

#[tokio::test]
async fn what_one_server_lists_wrongly_takes_nothing_away_from_clients_of_the_sdk() {
    for era in ["legacy", "modern"] {
        let config = fixtures(&[("bad", "malformed"), ("good", "plain")], "");
        let (stream, served) = serve_over(config, HashMap::new(), GatewayOptions::default());
        let client = client(stream, era).await;
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["bad__bare", "bad__odd", "bad__claims", "good__echo", "good__add"], "{era}");
        let resources = client.list_all_resources().await.unwrap();
        let named: Vec<_> = resources.iter().map(|resource| resource.name.as_str()).collect();
        assert_eq!(named, ["bad://named-not", "odd", "note"], "{era}");
        let prompts = client.list_all_prompts().await.unwrap();
        let named: Vec<_> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        assert_eq!(named, ["bad__odd", "good__ask"], "{era}");
        assert!(client.call_tool(CallToolRequestParams::new("bad__text")).await.is_err(), "{era}: it is no tool");
        client.cancel().await.unwrap();
        served.await.unwrap();
    }
}

#[tokio::test]
async fn a_tool_cannot_say_that_it_is_another_servers() {
    let relay = Arc::new(Relay::default());
    let of_registry = registry::RegistryOptions { handler: Arc::clone(&relay) as _, ..Default::default() };
    let registry = Registry::new(&component(), fixtures(&[("bad", "malformed")], ""), of_registry).unwrap();
    let gateway = Gateway::new(Arc::clone(&registry), relay, GatewayOptions::default());
    let reply = gateway.tools(&Principal::local(), None).await.unwrap();
    let said: Value = serde_json::from_str(&reply.body).unwrap();
    let claims = said["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "bad__claims").unwrap();
    assert_eq!((&claims["server"], &claims["tool"]), (&json!("bad"), &json!("claims")), "{said}");
    registry.close().await;
}

#[tokio::test]
async fn two_servers_prompts_of_one_name_are_listed_once() {
    let mut lines = open(&[("a", "prompts b__c b__c"), ("a__b", "prompts c d")], "", json!({})).await;
    let (answer, _) = lines.ask("a", "prompts/list", json!({})).await;
    let names: Vec<_> = answer["result"]["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
    assert_eq!(names, ["a__b__c", "a__b__d"]);
}

/// What reading this address comes to: a text or an error.
async fn read(lines: &mut Lines, uri: &str) -> Result<Value, Value> {
    let (answer, _) = lines.ask(uri, "resources/read", json!({"uri": uri})).await;
    match &answer["error"] {
        Value::Null => Ok(answer["result"]["contents"][0]["text"].clone()),
        error => Err(error.clone()),
    }
}

#[tokio::test]
async fn a_resource_is_of_the_first_server_that_has_it_however_slow_that_is() {
    let mut lines = open(&[("a", "owns a 1000"), ("b", "owns b 0")], "", json!({})).await;
    assert_eq!(read(&mut lines, "own://both").await, Ok(json!("a")));
    lines.ask("list", "resources/list", json!({})).await;
    assert_eq!(read(&mut lines, "own://both").await, Ok(json!("a")));
}

#[tokio::test]
async fn a_server_that_names_what_another_one_has_does_not_get_it() {
    let mut lines = open(&[("a", "owns a 0"), ("b", "owns b 0")], "", json!({})).await;
    for uri in ["own://a/5", "own://both"] {
        lines.ask("link", "tools/call", json!({"name": "b__link", "arguments": {"uri": uri}})).await;
        assert_eq!(read(&mut lines, uri).await, Ok(json!("a")), "{uri}");
    }
    // What nobody else claims is of the one that named it.
    lines.ask("link", "tools/call", json!({"name": "b__link", "arguments": {"uri": "own://un/a/b"}})).await;
    assert_eq!(read(&mut lines, "own://un/a/b").await, Ok(json!("b")));
}

#[tokio::test]
async fn what_nobody_lists_is_asked_of_nobody() {
    let mut lines = open(&[("a", "owns a 0"), ("b", "owns b 0")], "", json!({})).await;
    for uri in ["own://un/a/b", "own://un/x/broken-b", "other://x"] {
        let missing = read(&mut lines, uri).await.unwrap_err();
        assert_eq!((&missing["code"], &missing["data"]), (&json!(-32002), &json!({"uri": uri})), "{missing}");
        assert!(missing["message"].as_str().unwrap().ends_with("none was asked"), "{missing}");
    }
}

#[tokio::test]
async fn a_person_is_sent_to_an_address_only_by_a_client_that_can_and_hears_when_it_is_done() {
    let settings = "masking: {groups: [secrets]}";
    for capabilities in [json!({"elicitation": {}}), json!({"elicitation": {"form": {}}})] {
        let mut lines = open(&[("s", "visits")], settings, capabilities.clone()).await;
        let (answer, before) = lines.ask("call", "tools/call", json!({"name": "s__visit"})).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(before, Vec::<Value>::new(), "{capabilities}");
        assert!(text.contains("-32602") && text.contains("url"), "{capabilities}: {text}");
    }
    let mut lines = open(&[("s", "visits")], settings, json!({"elicitation": {"url": {}}})).await;
    lines.send(json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {"name": "s__visit"}})).await;
    let asked = lines.next().await;
    let url = "https://x.example/?token=abcd1234efgh5678abcd&state=1";
    assert_eq!((&asked["method"], &asked["params"]["url"]), (&json!("elicitation/create"), &json!(url)), "{asked}");
    lines.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})).await;
    let mut rest = [lines.next().await, lines.next().await];
    rest.sort_by_key(|message| message["method"].is_null());
    let [done, answer] = rest;
    assert_eq!(done["method"], "notifications/elicitation/complete", "{done}");
    assert_eq!(done["params"], json!({"elicitationId": "e 1"}));
    assert_eq!(answer["id"], "call");
}

#[tokio::test]
async fn what_a_server_says_beside_its_results_is_no_longer_than_they_may_be() {
    let settings = "max_result_bytes: 2000";
    let mut lines = open(&[("s", "wordy 20000")], settings, json!({"elicitation": {}})).await;
    lines.ask("level", "logging/setLevel", json!({"level": "debug"})).await;
    let (refused, _) = lines.ask("fail", "tools/call", json!({"name": "s__fail"})).await;
    assert_eq!(refused["error"]["code"], -32050, "{refused}");
    assert!(refused.to_string().len() < 3000 && refused["error"]["data"].is_null(), "{refused}");
    let params = json!({"name": "s__talk", "_meta": {"progressToken": "t"}});
    lines.send(json!({"jsonrpc": "2.0", "id": "talk", "method": "tools/call", "params": params})).await;
    let mut heard = Vec::new();
    loop {
        let message = lines.next().await;
        assert!(message.to_string().len() < 3000, "{message}");
        if message["id"] == "talk" && message["method"].is_null() {
            break;
        }
        if message["method"] == "elicitation/create" {
            assert_eq!(message["params"]["requestedSchema"]["type"], "object");
            lines.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}})).await;
        }
        heard.push(message["method"].as_str().unwrap().to_owned());
    }
    heard.sort();
    assert_eq!(heard, ["elicitation/create", "notifications/message", "notifications/progress"]);
}
