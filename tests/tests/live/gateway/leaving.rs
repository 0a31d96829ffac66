//! Tests clients that disconnect or cancel: the server gets a cancellation.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toolgate::config;
use toolgate::gateway::GatewayOptions;
use toolgate::gateway::http::Tokens;

use super::{Lines, serve_http_over, serve_over};
use crate::fixtures::{LONG, until};

/// A server that answers no calls, and a file of all that it was sent.
fn silent(folder: &Path) -> (config::model::Config, impl Fn(&str) -> bool + use<>) {
    let file = folder.join("heard");
    let script = format!("tee {} | {} silent-call", file.display(), env!("CARGO_BIN_EXE_fixture"));
    let yaml = format!("servers:\n  s: {{command: sh, args: [-c, {script:?}]}}\n");
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).unwrap();
    (config, move |words| std::fs::read_to_string(&file).unwrap_or_default().contains(words))
}

/// A page of a gateway.
async fn page(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_its_call_and_it_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (config, heard) = silent(folder.path());
    let (url, _stop) = serve_http_over(config, HashMap::new(), GatewayOptions::default(), Tokens::default()).await;
    let address = url.strip_prefix("http://").unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "s__echo", "arguments": {"text": "x"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: s__echo\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    until("the call", || heard("tools/call")).await;
    drop(stream);
    until("that it is cancelled", || heard("notifications/cancelled")).await;
    let counted = async {
        while !page(address, "/metrics")
            .await
            .contains(r#"toolgate_calls_total{server="s",tool="echo",code="cancelled",principal="local"} 1"#)
        {}
    };
    timeout(LONG, counted).await.expect("it is counted");
    let calls = page(address, "/api/v1/calls").await;
    assert_eq!(calls.matches(r#""code":"cancelled""#).count(), 1, "{calls}");
    assert!(calls.contains(r#""name":"s__echo""#), "{calls}");
}

#[tokio::test]
async fn the_end_of_a_session_cancels_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (config, heard) = silent(folder.path());
    let (stream, served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let params = json!({"name": "s__echo", "arguments": {"text": "x"}});
    lines.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    until("the call", || heard("tools/call")).await;
    drop(lines);
    served.await.unwrap();
    assert!(heard("notifications/cancelled"));
}

#[tokio::test]
async fn what_is_no_call_can_be_cancelled_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("heard");
    // Answers everything but what is read.
    let fixture = env!("CARGO_BIN_EXE_fixture");
    let script = format!("tee {} | grep --line-buffered -v resources/read | {fixture} plain", file.display());
    let yaml = format!("servers:\n  s: {{command: sh, args: [-c, {script:?}]}}\n");
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).unwrap();
    let heard = |words: &str| std::fs::read_to_string(&file).unwrap_or_default().contains(words);
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let params = json!({"uri": "fixture://note"});
    lines.send(json!({"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": params})).await;
    until("the request", || heard("resources/read")).await;
    lines.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    until("that it is cancelled", || heard("notifications/cancelled")).await;
    assert_eq!(lines.last_ids().await, [Value::Null; 0], "who cancels wants no answer");
}

#[tokio::test]
async fn who_listens_is_answered_when_the_input_ends() {
    let (mut lines, served) = Lines::open(GatewayOptions::default()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    lines.send(json!({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": listen})).await;
    assert_eq!(lines.next().await["method"], "notifications/subscriptions/acknowledged");
    lines.0.get_mut().shutdown().await.unwrap();
    let answer = lines.next().await;
    assert_eq!((&answer["id"], answer["result"].is_object()), (&json!(5), true), "{answer}");
    tokio::time::timeout(LONG, served).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn requests_that_outlast_the_end_are_cancelled_and_answered() {
    let (mut lines, served) = Lines::open(GatewayOptions::default()).await;
    let sleep = json!({"name": "one__sleep", "arguments": {"seconds": 500}, "_meta": {"progressToken": "p"}});
    lines.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sleep})).await;
    assert_eq!(lines.next().await["method"], "notifications/progress", "it runs");
    lines.0.get_mut().shutdown().await.unwrap();
    let answer = loop {
        match lines.next().await {
            progress if progress["method"] == "notifications/progress" => {}
            answer => break answer,
        }
    };
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(true)), "{answer}");
    tokio::time::timeout(LONG, served).await.expect("it ends").unwrap();
}
