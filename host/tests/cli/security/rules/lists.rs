//! Tests that empty or malformed lists allow nothing.

use serde_json::{Value, json};

use crate::place::{Place, and, fixture};
use crate::serving::{Serving, Web};

/// The tools that a gateway with this file lists, after it was asked to call one of them all the same.
fn tools(file: &str, text: &str) -> Vec<String> {
    let place = Place::new();
    place.file(&format!("home/{file}"), text);
    let config = place.path(&format!("home/{file}"));
    let mut serving = Serving::greet(&place, &["--config", &config.display().to_string()]);
    let tools = serving.tools();
    let called = serving.call("a__do");
    let ran = called["result"]["content"][0]["text"] == "done";
    assert_eq!(ran, tools.contains(&"a__do".to_owned()), "what is not listed cannot be called: {called}");
    tools
}

fn with(keys: Value) -> Value {
    and(fixture("ok"), keys)
}

#[test]
fn an_empty_allow_allows_nothing_in_whatever_words_and_file() {
    let native = |keys: Value| json!({"servers": {"a": with(keys)}}).to_string();
    let foreign = |keys: Value| json!({"mcpServers": {"a": with(keys)}}).to_string();
    let server = fixture("ok");
    let codex =
        format!("[mcp_servers.a]\ncommand = {}\nargs = {}\nenabled_tools = []\n", server["command"], server["args"]);
    for (file, text) in [
        ("toolgate.yaml", native(json!({"allow": []}))),
        ("toolgate.yaml", native(json!({"allow": [" ", ""]}))),
        ("toolgate.yaml", foreign(json!({"toolsAllowed": []}))),
        ("mcp.json", foreign(json!({"includeTools": []}))),
        ("mcp.json", foreign(json!({"tools": []}))),
        ("config.toml", codex),
    ] {
        assert_eq!(tools(file, &text), [""; 0], "{text}");
    }
    assert_eq!(tools("mcp.json", &foreign(json!({"toolsAllowed": ["any"]}))), ["a__do", "a__look"]);
    assert_eq!(tools("mcp.json", &foreign(json!({"deny": ["any"]}))), [""; 0]);
}

#[test]
fn what_nobody_can_read_as_a_list_of_tools_disables_the_server_and_says_why() {
    for (keys, expected) in [
        (json!({"allow": ["any"]}), "write \"*\" to mean all tools"),
        (json!({"allowedTools": ["any"]}), "write \"*\" to mean all tools"),
        (json!({"allow": null}), "has no value"),
        (json!({"allow": {"do": true}}), "expected a list"),
    ] {
        for root in ["servers", "mcpServers"] {
            let place = Place::configured(&json!({root: {"a": with(keys.clone()), "b": fixture("ok")}}));
            let ran = place.run(&["tools", "--json"]).ends(0).says(expected);
            assert!(ran.stdout.contains("b") && !ran.stdout.contains("a__do"), "{ran:?}");
            assert_ne!(place.run(&["call", "a__do"]).code, 0, "{keys}");
        }
    }
}

#[test]
fn a_token_without_tools_is_an_error_and_not_all_tools() {
    let config = |tools: Value| {
        let token = json!({"principal": "p", "token": "0123456789abcdef", "servers": {"a": tools}});
        json!({"gateway": {"tokens": [token]}, "servers": {"a": fixture("ok")}})
    };
    for (tools, expected) in [(json!([]), "[\"*\"]"), (Value::Null, "[\"*\"]"), (json!(["any"]), "\"*\"")] {
        Place::configured(&config(tools)).run(&["serve", "--http", "127.0.0.1:0"]).ends(2).says(expected);
    }
    let place = Place::configured(&config(json!(["*"])));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let web = Web { address: &address, token: Some("0123456789abcdef"), session: None };
    assert_eq!(web.modern_tools().map(|tools| tools.len()), Ok(2));
}
