//! Tests `toolgate demo-server` as an MCP server, without toolgate as its client.

use serde_json::{Value, json};

use crate::place::Place;

/// The answers to these messages, in the order of their ids.
fn answers(messages: &[Value]) -> Vec<Value> {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let ran = Place::new().feed(&["demo-server"], &lines).ends(0);
    assert_eq!(ran.stderr, "");
    let mut answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn it_speaks_the_era_of_the_handshake() {
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    let answers = answers(&[
        request(1, "initialize", hello),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(2, "ping", json!({})),
        request(3, "tools/list", json!({})),
        request(4, "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})),
        request(5, "resources/read", json!({"uri": "demo://square/7"})),
        request(6, "prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}})),
        request(7, "nonsense", json!({})),
    ]);
    assert_eq!(answers.len(), 7, "{answers:?}");
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "toolgate-demo");
    assert_eq!(answers[1]["result"], json!({}));
    assert_eq!(answers[2]["result"]["tools"].as_array().unwrap().len(), 6);
    assert_eq!(answers[2]["result"]["resultType"], Value::Null, "that is of the other era");
    assert_eq!(answers[3]["result"]["structuredContent"], json!({"sum": 3}));
    assert_eq!(answers[4]["result"]["contents"][0]["text"], "49");
    assert_eq!(answers[5]["result"]["messages"][0]["role"], "user");
    assert_eq!(answers[6]["error"]["code"], -32601);
}

#[test]
fn it_speaks_the_era_without_one() {
    let with = |version: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params
    };
    let modern = |params| with("2026-07-28", params);
    let answers = answers(&[
        request(1, "server/discover", modern(json!({}))),
        request(2, "tools/list", modern(json!({}))),
        request(3, "tools/call", modern(json!({"name": "fail", "arguments": {"message": "no"}}))),
        request(4, "resources/read", modern(json!({"uri": "demo://readme"}))),
        request(5, "tools/list", with("1999-01-01", json!({}))),
        request(6, "tools/list", json!({})),
    ]);
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert_eq!(answers[0]["result"]["supportedVersions"][0], "2026-07-28");
    assert_eq!(answers[1]["result"]["resultType"], "complete");
    assert_eq!(answers[1]["result"]["cacheScope"], "public");
    assert_eq!(
        (&answers[2]["result"]["isError"], &answers[2]["result"]["resultType"]),
        (&json!(true), &json!("complete"))
    );
    assert!(answers[3]["result"]["contents"][0]["text"].as_str().unwrap().starts_with("# The demo server"));
    assert_eq!(answers[4]["error"]["code"], -32022);
    assert_eq!(answers[4]["error"]["data"]["supported"][0], "2026-07-28");
    assert_eq!(answers[5]["error"]["code"], -32602, "neither a handshake nor a version");
}
