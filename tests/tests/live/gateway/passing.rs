//! Tests what the gateway forwards beside results: logs and their levels, trace context, errors and unknown members.
#![expect(deprecated, reason = "older servers and clients have it")]

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::io::BufReader;
use toolgate::gate::{CallOptions, Gate, GateView};
use toolgate::gateway::GatewayOptions;
use toolgate::json::JsonObject;
use toolgate::logic::types::execution::ToolCall;
use toolgate::registry::{self, Registry};
use toolgate::session::Caller;

use super::{Lines, fixtures, serve_over};
use crate::fixtures::component;

const MASKED: &str = "password: [MASKED_PASSWORD]";

async fn text(lines: &mut Lines, id: &str, tool: &str) -> String {
    let (answer, _) = lines.ask(id, "tools/call", json!({"name": tool, "arguments": {}})).await;
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn logged(messages: &[Value]) -> Vec<&str> {
    let logs = messages.iter().filter(|message| message["method"] == "notifications/message");
    logs.map(|log| log["params"]["level"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_level_reaches_the_server_and_a_client_hears_what_it_asked_for() {
    let config = fixtures(&[("c", "chatty")], "masking: {groups: [basic]}");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let say = json!({"name": "c__say", "arguments": {}});
    let (_, before) = lines.ask("1", "tools/call", say.clone()).await;
    assert_eq!(logged(&before), ["warning", "error"], "a client that asks for no level gets what matters");
    for (level, heard) in
        [("warning", &["warning", "error"][..]), ("debug", &["debug", "warning", "error"]), ("alert", &[])]
    {
        lines.ask("2", "logging/setLevel", json!({"level": level})).await;
        let (_, before) = lines.ask("3", "tools/call", say.clone()).await;
        assert_eq!(logged(&before), heard, "{level}");
        for log in before.iter().filter(|message| message["method"] == "notifications/message") {
            assert_eq!((&log["params"]["logger"], &log["params"]["data"]), (&json!("chatty"), &json!(MASKED)));
        }
    }
    assert_eq!(text(&mut lines, "4", "c__levels").await, "warning debug alert");
    // What is logged while no call runs comes too.
    lines.ask("5", "logging/setLevel", json!({"level": "info"})).await;
    let (_, mut heard) = lines.ask("6", "tools/call", json!({"name": "c__later", "arguments": {}})).await;
    if heard.is_empty() {
        heard.push(lines.next().await);
    }
    assert_eq!(heard[0]["params"]["data"], "after the answer", "{heard:?}");
}

#[tokio::test]
async fn clients_that_share_a_server_each_hear_their_own_level() {
    let config = fixtures(&[("c", "chatty")], "");
    let (url, _stop) =
        super::serve_http_over(config, HashMap::new(), GatewayOptions::default(), Default::default()).await;
    let ear = |least| {
        let heard = crate::fixtures::Basket::<String>::default();
        (Ear(std::sync::Arc::clone(&heard)), heard, least)
    };
    let (one, loud, debug) = ear("debug");
    let (two, quiet, error) = ear("error");
    let one = super::http_client_of(one, &url, None, "legacy").await;
    let two = super::http_client_of(two, &url, None, "legacy").await;
    for (client, level) in [(&one, debug), (&two, error)] {
        let level = serde_json::from_value(json!({"level": level})).unwrap();
        client.set_level(level).await.unwrap();
    }
    let call = |name: &'static str| rmcp::model::CallToolRequestParams::new(name);
    one.call_tool(call("c__say")).await.unwrap();
    two.call_tool(call("c__say")).await.unwrap();
    let told = one.call_tool(call("c__levels")).await.unwrap();
    assert_eq!(told.content[0].as_text().unwrap().text, "debug", "the least grave one counts, and it is told once");
    drop(one.cancel().await);
    // The other one is left.
    let told = two.call_tool(call("c__levels")).await.unwrap();
    assert!(told.content[0].as_text().unwrap().text.starts_with("debug"));
    assert!(quiet.lock().unwrap().iter().all(|level| level == "error"), "{:?}", quiet.lock().unwrap());
    assert!(loud.lock().unwrap().contains(&"debug".to_owned()), "{:?}", loud.lock().unwrap());
}

/// Keeps the levels of all logs that it hears.
struct Ear(crate::fixtures::Basket<String>);

impl rmcp::ClientHandler for Ear {
    async fn on_logging_message(
        &self,
        params: rmcp::model::LoggingMessageNotificationParam,
        _: rmcp::service::NotificationContext<rmcp::RoleClient>,
    ) {
        let level = serde_json::to_value(params.level).unwrap();
        self.0.lock().unwrap().push(level.as_str().unwrap().to_owned());
    }
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn trace_context_and_level_pass_in_the_way_of_the_server() {
    let config = fixtures(&[("old", "meta"), ("new", "meta-modern")], "");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines(BufReader::new(stream));
    for (server, level) in [("old", Value::Null), ("new", json!("info"))] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/logLevel": "info",
            "progressToken": "mine",
            "traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2", "example.com/own": {"x": 1},
        });
        let params = json!({"name": format!("{server}__meta"), "arguments": {}, "_meta": meta});
        let (answer, _) = lines.ask(server, "tools/call", params).await;
        let told: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(told["traceparent"], PARENT, "{server}");
        assert_eq!((&told["tracestate"], &told["baggage"]), (&json!("a=1"), &json!("b=2")), "{server}");
        assert_eq!(told["example.com/own"], json!({"x": 1}));
        assert_eq!(told["io.modelcontextprotocol/logLevel"], level);
        assert!(told["progressToken"].is_number(), "{server}: tokens are the gateway's own: {told}");
    }
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "loud",
    });
    let (answer, _) = lines.ask("x", "tools/call", json!({"name": "new__meta", "_meta": meta})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn the_library_passes_trace_context_on_and_shows_what_nobody_knows() {
    let config = fixtures(&[("new", "meta-modern")], "");
    let registry = Registry::new(&component(), config, registry::RegistryOptions::default()).unwrap();
    let gate = Gate::open(&registry, GateView::default()).unwrap();
    let mut meta = JsonObject::default();
    meta.set("traceparent", PARENT);
    let options = CallOptions { caller: Caller { meta, ..Caller::default() }, ..CallOptions::default() };
    let call = ToolCall { id: "1".into(), name: "new.meta".into(), arguments: String::new() };
    let called = gate.call(call, &options).await.unwrap();
    assert!(called.result.text.contains(PARENT), "{}", called.result.text);
    let shown = serde_json::to_value(called.as_json()).unwrap();
    assert_eq!(
        shown["more"],
        json!({"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fixture", "version": "1"}}})
    );
    registry.close().await;
}

#[tokio::test]
async fn errors_of_servers_keep_their_codes_and_data_and_lose_their_secrets() {
    let config = fixtures(&[("c", "chatty")], "masking: {groups: [basic]}");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let (answer, _) = lines.ask("1", "tools/call", json!({"name": "c__refuse", "arguments": {}})).await;
    let expected = json!({"code": -32055, "message": MASKED, "data": {"n": 7, "hint": MASKED}});
    assert_eq!(answer["error"], expected);
    let (answer, _) = lines.ask("2", "resources/read", json!({"uri": "chatty://of/nothing"})).await;
    let expected = json!({"code": -32002, "message": "no such thing", "data": {"n": 7, "hint": MASKED}});
    assert_eq!(answer["error"], expected);
}

#[tokio::test]
async fn what_servers_want_a_model_to_know_reaches_clients_of_both_eras() {
    let rows = [
        (
            None,
            "#### MCP Server: p\na fixture for tests\n\n#### MCP Server: q\nAsk nicely.\n\n## Unavailable MCP Servers\n",
        ),
        (Some("p".to_owned()), "a fixture for tests"),
    ];
    for (expose, expected) in rows {
        let fixture = env!("CARGO_BIN_EXE_fixture");
        let yaml = format!(
            "servers:\n  p: {{command: {fixture:?}, args: [plain]}}\n  q: {{command: {fixture:?}, args: [plain], instructions: Ask nicely.}}\n  \
             r: {{command: none}}\n"
        );
        let config = toolgate::config::parse(&yaml, std::path::Path::new("toolgate.yaml")).unwrap();
        let options = GatewayOptions { expose: expose.clone(), ..GatewayOptions::default() };
        let (stream, _served) = serve_over(config, HashMap::new(), options);
        let mut lines = Lines::greet(stream, json!({})).await;
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let (answer, _) = lines.ask("1", "initialize", hello).await;
        // The first client waits for servers that nobody has used yet.
        let text = |answer: &Value| answer["result"]["instructions"].as_str().unwrap_or_default().to_owned();
        let first = text(&answer);
        assert!(first.starts_with(expected), "{first}");
        assert_eq!(first.contains("- **r**: "), expose.is_none(), "{first}");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        });
        let (answer, _) = lines.ask("2", "server/discover", json!({"_meta": meta})).await;
        assert_eq!(text(&answer), first);
    }
}

#[tokio::test]
async fn what_may_be_kept_is_kept_as_its_servers_say() {
    let both = ["ttl 1000 public", "ttl 400 private"];
    let rows = [
        (vec![both[0]], (1000, "public")),
        (vec![both[1]], (400, "private")),
        (both.to_vec(), (400, "private")),
        (vec![both[0], "plain"], (0, "public")),
    ];
    for (modes, (ttl, scope)) in rows {
        let ids = ["a", "b"];
        let servers: Vec<_> = ids.into_iter().zip(modes.iter().copied()).collect();
        let (stream, _served) = serve_over(fixtures(&servers, ""), HashMap::new(), GatewayOptions::default());
        let mut lines = Lines(BufReader::new(stream));
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        });
        for (method, params) in [
            ("tools/list", json!({"_meta": meta})),
            ("resources/list", json!({"_meta": meta})),
            ("prompts/list", json!({"_meta": meta})),
            ("resources/read", json!({"_meta": meta, "uri": "fixture://note"})),
        ] {
            let (answer, _) = lines.ask(method, method, params).await;
            let said = (answer["result"]["ttlMs"].clone(), answer["result"]["cacheScope"].clone());
            // One server has the resource.
            let expected = if method == "resources/read" && modes.len() > 1 {
                let (ttl, scope) = if modes[1] == "plain" { (json!(0), "public") } else { (json!(400), "private") };
                [(json!(1000), json!("public")), (ttl, json!(scope))].contains(&said)
            } else {
                said == (json!(ttl), json!(scope))
            };
            assert!(expected, "{modes:?} {method}: {answer}");
        }
    }
}
