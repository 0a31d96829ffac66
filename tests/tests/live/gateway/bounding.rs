//! Tests clients that send too much: they get an error, and the gateway stores nothing of it.

use serde_json::{Value, json};
use tokio::io::BufReader;
use toolgate::gateway::GatewayOptions;

use super::{Lines, serve};

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn names_and_addresses_without_end_are_refused_before_anything_is_done_with_them() {
    let (mut lines, _served) = Lines::open(GatewayOptions::default()).await;
    let (name, uri) = ("n".repeat(3_000_000), format!("demo://{}", "u".repeat(3_000_000)));
    let prompt = json!({"type": "ref/prompt", "name": name});
    let template = json!({"type": "ref/resource", "uri": uri});
    let argument = json!({"name": "a", "value": "b"});
    let rows = [
        ("tools/call", json!({"name": format!("one__{name}"), "arguments": {}}), "invalid tool name \"one__nnn"),
        ("prompts/get", json!({"name": name}), "invalid prompt name \"nnn"),
        ("resources/read", json!({"uri": uri}), "invalid resource URI \"demo://uuu"),
        ("resources/subscribe", json!({"uri": uri}), "invalid resource URI \"demo://uuu"),
        ("completion/complete", json!({"ref": prompt, "argument": argument}), "invalid prompt name"),
        ("completion/complete", json!({"ref": template, "argument": argument}), "invalid resource URI"),
        (
            "subscriptions/listen",
            modern(json!({"notifications": {"resourceSubscriptions": [uri]}})),
            "the limit is 8192",
        ),
    ];
    for (method, params, words) in rows {
        let (answer, _) = lines.ask("1", method, params).await;
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: an error"));
        assert_eq!(answer["error"]["code"], -32602, "{method}");
        assert!(message.contains(words), "{method}: {message}");
        assert!(message.len() < 400, "{method} repeats {} bytes", message.len());
    }
    // The longest name that can be one is looked up.
    let (answer, _) = lines.ask("2", "tools/call", json!({"name": "n".repeat(1024), "arguments": {}})).await;
    assert!(!answer["error"]["message"].as_str().unwrap().contains("bytes"), "{answer}");
}

#[tokio::test]
async fn of_capabilities_without_end_only_the_known_ones_are_kept() {
    let (stream, _served) = serve(GatewayOptions::default());
    let mut lines = Lines(BufReader::new(stream));
    let client = json!({"name": "t", "version": "1"});
    let large = json!({"x": "y".repeat(1 << 20)});
    let capabilities = json!({"elicitation": large, "experimental": large});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
    let (answer, _) = lines.ask("1", "initialize", hello).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_client_hears_of_a_thousand_resources_and_no_more() {
    let (mut lines, _served) = Lines::open(GatewayOptions::default()).await;
    let uris: Vec<_> = (0..1001).map(|number| format!("demo://{number}")).collect();
    let listen = modern(json!({"notifications": {"resourceSubscriptions": uris}}));
    let (answer, _) = lines.ask("1", "subscriptions/listen", listen).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("at most 1000"), "{answer}");
}
