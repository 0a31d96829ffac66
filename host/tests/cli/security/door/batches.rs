//! Tests batches: each message counts as if it had come alone, and only older sessions may send batches.

use serde_json::{Value, json};

use super::{Gateway, ask, echo, initialize, unix};
use crate::place::{Place, demo};
use crate::serving::{Reply, Serving, hello};

/// The answers to a batch: how many are good, and how many were over a bound.
fn counted(answers: &Value) -> (usize, usize) {
    let answers = answers.as_array().unwrap_or_else(|| panic!("{answers} is no answer to a batch"));
    let good = answers.iter().filter(|answer| answer["result"]["content"].is_array()).count();
    let refused = answers.iter().filter(|answer| answer["error"]["data"]["code"] == "queue-full").count();
    (good, refused)
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))
}

#[test]
fn each_message_of_a_batch_counts_against_the_rate() {
    let gateway = Gateway::start(json!({"rate": 5}));
    let web = gateway.session("2025-03-26", None);
    let reply = web.post(&(1..=2000).map(echo).collect());
    let (good, refused) = counted(&json_of(&reply));
    assert_eq!(good + refused, 2000, "each has its answer");
    // The bucket holds ten, and fills again with five in a second.
    assert!((1..500).contains(&good), "{good} of 2000 ran");
}

#[test]
fn each_message_of_a_batch_counts_against_what_may_be_in_flight() {
    let gateway = Gateway::start(json!({"max_in_flight": 3}));
    let web = gateway.session("2025-03-26", None);
    let (good, refused) = counted(&json_of(&web.post(&(1..=50).map(echo).collect())));
    assert!((1..=3).contains(&good) && good + refused == 50, "{good} ran, {refused} were refused");
    assert_eq!(gateway.calls(None), good);

    let config = json!({"version": 1, "servers": {"demo": demo()}, "gateway": {"max_in_flight": 3}});
    let place = Place::configured(&config);
    let mut serving = Serving::start(&place, &[]);
    serving.send(&initialize("2025-03-26"));
    serving.answer(0);
    serving.send(&(1..=50).map(echo).collect());
    let (good, refused) = counted(&serving.batch());
    assert!((1..=3).contains(&good) && good + refused == 50, "{good} ran, {refused} were refused");
}

#[test]
fn one_principal_leaves_room_for_others_with_a_batch_too() {
    let token = |name: &str| json!({"principal": name, "token": format!("{name}-0123456789abcdef")});
    let gateway = Gateway::start(json!({"max_in_flight": 8, "tokens": [token("ann"), token("bob")]}));
    let web = gateway.session("2025-03-26", Some("ann-0123456789abcdef"));
    let (good, refused) = counted(&json_of(&web.post(&(1..=50).map(echo).collect())));
    assert!((1..=6).contains(&good) && good + refused == 50, "{good} ran, {refused} were refused");
}

#[test]
fn only_sessions_of_2025_03_26_and_earlier_take_a_batch() {
    let gateway = Gateway::start(json!({}));
    let batch = json!([echo(1), echo(2)]).to_string();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut modern = echo(1);
    modern["params"]["_meta"] = meta;
    let modern = json!([modern]).to_string();
    let refused = |reply: Reply| {
        let answer = json_of(&reply);
        assert_eq!((reply.status, &answer["error"]["code"]), (400, &json!(-32600)), "{reply:?}");
        assert!(reply.body.contains("batches are only allowed in sessions of 2025-03-26 and earlier"), "{reply:?}");
    };
    let newer = "MCP-Protocol-Version: 2026-07-28";
    refused(gateway.web(None).request("POST /mcp", "localhost", &[], &batch));
    refused(gateway.web(None).request("POST /mcp", "localhost", &[newer], &batch));
    refused(gateway.web(None).request("POST /mcp", "localhost", &[newer], &modern));
    refused(gateway.web(None).request("POST /mcp", "localhost", &[newer, "Mcp-Method: tools/call"], &modern));
    for version in ["2025-06-18", "2025-11-25", "2099-01-01"] {
        let web = gateway.session(version, None);
        refused(web.request("POST /mcp", "localhost", &[], &batch));
        refused(web.request("POST /mcp", "localhost", &["MCP-Protocol-Version: 2025-03-26"], &batch));
        refused(web.request("POST /mcp", "localhost", &[], r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#));
    }
    for version in ["2025-03-26", "2024-11-05"] {
        let web = gateway.session(version, None);
        refused(web.request("POST /mcp", "localhost", &["MCP-Protocol-Version: 2025-06-18"], &batch));
        refused(web.request("POST /mcp", "localhost", &[], &modern));
        assert_eq!(gateway.calls(None), if version == "2025-03-26" { 0 } else { 2 }, "nothing ran so far");
        assert_eq!(counted(&json_of(&web.request("POST /mcp", "localhost", &[], &batch))), (2, 0));
    }
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let request = format!("{head}Accept: */*\r\nContent-Length: {}\r\n\r\n{batch}", batch.len());
    refused(ask(unix(&gateway.socket()), &request));

    for version in [None, Some("2025-06-18"), Some("2025-11-25")] {
        let mut serving = Serving::start(&gateway.place, &[]);
        if let Some(version) = version {
            serving.send(&initialize(version));
            serving.answer(0);
        }
        serving.send(&json!([echo(1), echo(2)]));
        let answer = serving.answer_to_nobody();
        assert_eq!(answer["error"]["code"], -32600, "{version:?}: {answer}");
    }
    assert_eq!(gateway.calls(None), 4);
}

#[test]
fn odd_batches_are_answered_part_by_part_and_bounded() {
    let gateway = Gateway::start(json!({}));
    let web = gateway.session("2025-03-26", None);
    let codes = |batch: Value| -> Vec<Value> {
        let reply = web.post(&batch);
        match json_of(&reply) {
            Value::Array(answers) => answers.iter().map(|answer| answer["error"]["code"].clone()).collect(),
            answer => vec![answer["error"]["code"].clone()],
        }
    };
    let (wrong, good) = (json!(-32600), Value::Null);
    assert_eq!(codes(json!([])), std::slice::from_ref(&wrong));
    assert_eq!(codes(json!([[echo(1)]])), std::slice::from_ref(&wrong));
    assert_eq!(codes(json!([1, "x", null, {}])).len(), 4);
    assert_eq!(codes(json!([echo(1), echo(1)])), [wrong.clone(), good.clone()]);
    assert_eq!(codes(json!([initialize("2025-03-26"), echo(1)])), [wrong.clone(), good.clone()]);
    assert_eq!(codes(json!([echo(1), echo("1")])), [good.clone(), good]);
    assert_eq!(codes(vec![json!(1); 10_001].into()), [wrong]);
    let told = json!([
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
        {"jsonrpc": "2.0", "id": "nobody asked", "result": {}},
    ]);
    let reply = web.post(&told);
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    assert_eq!(web.tools().map(|tools| tools.is_empty()), Ok(false), "the session goes on");
    let mut again = gateway.web(None);
    again.session = web.session.clone();
    assert_eq!(again.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()})).status, 200);
    assert_eq!(counted(&json_of(&web.post(&json!([echo(5)])))), (1, 0), "that was another session");
}
