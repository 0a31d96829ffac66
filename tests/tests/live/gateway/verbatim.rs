//! Tests that the JSON of servers reaches clients unchanged, however unusual it is.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use toolgate::gateway::GatewayOptions;

use super::{Lines, fixtures, serve_over};

impl Lines {
    /// Asks, and gives all lines up to the answer: what is read here need not be text that Rust can hold.
    async fn verbatim(&mut self, id: &str, method: &str, params: Value) -> Vec<String> {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(Duration::from_secs(30), self.0.read_line(&mut line)).await;
            assert!(read.expect("the gateway answers").unwrap() > 0, "the gateway has gone");
            let answered = line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","#));
            lines.push(line.trim_end().to_owned());
            if answered {
                return lines;
            }
        }
    }

    async fn answer(&mut self, id: &str, method: &str, params: Value) -> String {
        self.verbatim(id, method, params).await.pop().unwrap()
    }
}

async fn odd(settings: &str, capabilities: Value) -> (Lines, tokio::task::JoinHandle<()>) {
    let (stream, served) = serve_over(fixtures(&[("o", "odd")], settings), HashMap::new(), GatewayOptions::default());
    (Lines::greet(stream, capabilities).await, served)
}

#[tokio::test]
async fn half_a_letter_costs_neither_the_server_nor_its_tools_nor_their_words() {
    let (mut lines, _served) = odd("", json!({})).await;
    let listed = lines.answer("1", "tools/list", json!({})).await;
    let cut = r#"{"name":"o__cut","title":"half \ud83d","description":"half \ud83d","inputSchema":{"type":"object","properties":{"a":{"description":"half \ud83d"}}}}"#;
    assert!(listed.contains(cut), "{listed}");
    let called = lines.answer("2", "tools/call", json!({"name": "o__cut", "arguments": {}})).await;
    assert!(called.ends_with(r#""result":{"content":[{"type":"text","text":"half \ud83d"}],"n":1.10}}"#), "{called}");
    let refused = lines.answer("3", "tools/call", json!({"name": "o__refuse", "arguments": {}})).await;
    let error = "{\"code\":-32042,\"message\":\"half \u{fffd}\",\
                 \"data\":{\"z\":1.0,\"n\":12345678901234567890123,\"h\":\"\\ud83d\"}}";
    assert!(refused.ends_with(&format!(r#""error":{error}}}"#)), "{refused}");
    for (method, expected) in
        [("resources/list", r#""name":"half \ud83d""#), ("prompts/list", r#""description":"half \ud83d""#)]
    {
        let listed = lines.answer("4", method, json!({})).await;
        assert!(listed.contains(expected), "{listed}");
    }
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let welcome = lines.answer("5", "initialize", hello).await;
    assert!(welcome.contains("MCP Server: o\\nhalf \u{fffd}"), "{welcome}");
}

#[tokio::test]
async fn half_a_letter_costs_no_code_where_masks_are_on() {
    let (mut lines, _served) = odd("masking: {groups: [basic]}", json!({})).await;
    let listed = lines.answer("1", "tools/list", json!({})).await;
    assert!(listed.contains(r#""name":"o__cut""#), "{listed}");
    let refused = lines.answer("2", "tools/call", json!({"name": "o__refuse", "arguments": {}})).await;
    assert!(refused.contains(r#""code":-32042,"#) && refused.contains("12345678901234567890123"), "{refused}");
}

/// All that reports progress here, and how its result ends.
fn works() -> [(&'static str, Value, &'static str); 4] {
    let reference = json!({"type": "ref/prompt", "name": "o__p"});
    [
        ("tools/call", json!({"name": "o__cut", "arguments": {}}), r#""n":1.10}}"#),
        ("resources/read", json!({"uri": "odd://a"}), r#""n":1.10}]}}"#),
        ("prompts/get", json!({"name": "o__p"}), r#""n":1.10}}"#),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "a", "value": "b"}}), r#""n":1.10}}"#),
    ]
}

#[tokio::test]
async fn progress_of_all_requests_passes_but_for_its_token() {
    const PROGRESS: &str = r#"{"total":12345678901234567890,"progress":9007199254740993,"progressToken":"mine","message":"half \ud83d, password: hunter2hunter2","_meta":{"k":1.0},"extra":["password: hunter2hunter2"]}"#;
    let (mut lines, _served) = odd("", json!({})).await;
    for (method, mut params, end) in works() {
        params["_meta"] = json!({"progressToken": "mine"});
        let heard = lines.verbatim("1", method, params.clone()).await;
        let told = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{PROGRESS}}}"#);
        assert!(heard.contains(&told), "{method}: {heard:?}");
        assert!(heard.last().unwrap().ends_with(end), "{method}: {heard:?}");
        // Who does not ask for it is told nothing.
        params.as_object_mut().unwrap().remove("_meta");
        let heard = lines.verbatim("2", method, params).await;
        assert!(!heard.iter().any(|line| line.contains("notifications/progress")), "{method}: {heard:?}");
    }
}

#[tokio::test]
async fn progress_of_all_requests_is_masked() {
    let (mut lines, _served) = odd("masking: {groups: [basic]}", json!({})).await;
    for (method, mut params, _) in works() {
        params["_meta"] = json!({"progressToken": 7});
        let heard = lines.verbatim("1", method, params).await;
        let told = heard.iter().find(|line| line.contains("notifications/progress")).expect(method);
        assert_eq!(told.matches("password: [MASKED_PASSWORD]").count(), 2, "{told}");
        assert!(told.contains(r#""progress":9007199254740993,"progressToken":7,"#), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[tokio::test]
async fn that_roots_are_others_reaches_the_servers_that_may_ask_for_them() {
    let (mut lines, _served) = odd("", json!({"roots": {"listChanged": true}})).await;
    let roots = json!({"name": "o__roots", "arguments": {}});
    let mut told = async || {
        let (answer, _) = lines.ask("1", "tools/call", roots.clone()).await;
        let text: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        lines.send(json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
        (text["declared"].clone(), text["changes"].as_u64().unwrap())
    };
    assert_eq!(told().await, (json!({"listChanged": true}), 0));
    // The next call may overtake what is told, but each tells once more.
    let limit = tokio::time::timeout(Duration::from_secs(30), async { while told().await.1 == 0 {} });
    limit.await.expect("the server hears of it");
}
