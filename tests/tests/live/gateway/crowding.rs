//! Tests clients on standard input and output that send too much or read nothing: the gateway uses no more memory than
//! configured, and answers every request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolgate::gateway::{GatewayLimits, GatewayOptions, LoadLimiter, RefusalReason, stdio};

use super::{Lines, demos, serve_within};
use crate::fixtures::{LONG, until};

/// A gateway within limits, over pipes that hold so many bytes.
struct Tight {
    stream: DuplexStream,
    load: Arc<LoadLimiter>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Tight {
    fn open(limits: GatewayLimits, pipe: usize) -> Self {
        let server = stdio::StdioServer::new(&GatewayLimits { grace: Duration::from_millis(100), ..limits });
        let limiter = server.load();
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            // Who drops the other end wants nothing of it.
            if stopped.await.is_err() {
                std::future::pending().await
            }
        };
        let (config, transports) = demos();
        let (stream, served) = serve_within(server, pipe, stopped, config, transports, GatewayOptions::default());
        Tight { stream, load: limiter, stop, served }
    }
}

fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    let id: Value = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[tokio::test]
async fn a_line_that_is_too_long_is_answered_and_the_next_one_is_read() {
    let limits = GatewayLimits { max_body_bytes: 64 << 10, ..GatewayLimits::default() };
    let tight = Tight::open(limits, 1 << 10);
    let mut lines = Lines::greet(tight.stream, json!({})).await;
    let text = "x".repeat(3 << 20);
    lines.send(call("long", "one__echo", json!({"text": text}))).await;
    let answer = lines.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("long"), &json!(-32600)), "{answer}");
    let words = "the line is larger than 65536 bytes, the limit of this gateway";
    assert_eq!(answer["error"]["message"], words);
    lines.0.get_mut().write_all(format!("{text}\n").as_bytes()).await.unwrap();
    assert_eq!(lines.next().await["id"], Value::Null, "what has no id");
    lines.send(call(1, "one__echo", json!({"text": "y".repeat(60 << 10)}))).await;
    assert_eq!(lines.next().await["result"]["content"][0]["text"].as_str().unwrap().len(), 60 << 10);
}

#[tokio::test]
async fn requests_beyond_those_in_flight_are_refused_and_a_cancellation_makes_room() {
    let tight = Tight::open(GatewayLimits { max_requests: 2, ..GatewayLimits::default() }, 1 << 16);
    let mut lines = Lines::greet(tight.stream, json!({})).await;
    let hello =
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    assert!(lines.ask("older", "initialize", hello).await.0["result"].is_object(), "older clients may send batches");
    for id in [1, 2] {
        lines.send(call(id, "one__sleep", json!({"seconds": 500}))).await;
    }
    until("both calls run", || tight.load.stats().requests == 2).await;
    let refused = |answer: &Value| {
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        assert_eq!(answer["error"]["data"]["code"], "queue-full", "{answer}");
        assert_eq!(answer["error"]["message"], "too many requests are in flight: try again later");
    };
    lines.send(call("c", "one__echo", json!({"text": "x"}))).await;
    let answer = lines.next().await;
    assert_eq!(answer["id"], "c");
    refused(&answer);
    lines
        .send(json!([call(4, "one__echo", json!({"text": "x"})), {"jsonrpc": "2.0", "id": 5, "method": "ping"}]))
        .await;
    let answers = lines.next().await;
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(4), &json!(5)), "{answers}");
    answers.as_array().unwrap().iter().for_each(refused);
    assert_eq!(tight.load.stats().refused.of(RefusalReason::Requests), 3, "each message of a batch counts");
    lines.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    until("there is room", || tight.load.stats().requests == 1).await;
    let (answer, before) = lines.ask("d", "tools/call", json!({"name": "one__echo", "arguments": {"text": "x"}})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "x");
    assert!(before.is_empty(), "what is cancelled has no answer: {before:?}");
}

#[tokio::test]
async fn a_burst_of_what_is_answered_at_once_is_answered_whole() {
    let tight = Tight::open(GatewayLimits { max_requests: 4, ..GatewayLimits::default() }, 1 << 20);
    let mut lines = Lines::greet(tight.stream, json!({})).await;
    let burst: String =
        (0..200).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string() + "\n").collect();
    lines.0.get_mut().write_all(burst.as_bytes()).await.unwrap();
    for _ in 0..200 {
        let answer = lines.next().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_read_no_further_until_it_does() {
    const CALLS: usize = 200;
    let limits = GatewayLimits { max_body_bytes: 8 << 10, max_requests: 8, ..GatewayLimits::default() };
    let tight = Tight::open(limits, 4 << 10);
    let lines = Lines::greet(tight.stream, json!({})).await;
    let (reader, mut writer) = tokio::io::split(lines.0.into_inner());
    let writing = tokio::spawn(async move {
        for id in 0..CALLS {
            let line = format!("{}\n", call(id, "one__echo", json!({"text": "x".repeat(4 << 10)})));
            writer.write_all(line.as_bytes()).await.unwrap();
        }
        writer
    });
    until("it is read no further", || {
        let stats = tight.load.stats();
        stats.event_bytes > 8 << 10 && stats.requests == 0
    })
    .await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let waiting = tight.load.stats().event_bytes;
    assert!(waiting < 64 << 10, "{waiting} bytes wait");
    assert!(!writing.is_finished(), "all was read");
    let (mut reader, mut answered, mut line) = (BufReader::new(reader), BTreeSet::new(), String::new());
    while answered.len() < CALLS {
        line.clear();
        let read = tokio::time::timeout(LONG, reader.read_line(&mut line)).await;
        assert!(read.expect("it goes on").unwrap() > 0, "the gateway has gone");
        let answer: Value = serde_json::from_str(&line).unwrap();
        if let Some(id) = answer["id"].as_u64() {
            assert!(answered.insert(id), "{id} is answered twice");
        }
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn who_reads_nothing_can_cancel_what_runs_and_the_gateway_can_end() {
    let tight = Tight::open(GatewayLimits { max_body_bytes: 1 << 10, ..GatewayLimits::default() }, 1 << 10);
    let mut lines = Lines::greet(tight.stream, json!({})).await;
    lines.send(call(1, "one__sleep", json!({"seconds": 500}))).await;
    until("the call runs", || tight.load.stats().requests == 1).await;
    // Its answer is longer than the pipe and what may wait.
    lines.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    until("its answer waits", || tight.load.stats().event_bytes > 1 << 10).await;
    lines.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    until("the call is cancelled", || tight.load.stats().requests == 0).await;
    lines.send(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).await;
    tight.stop.send(()).unwrap();
    tokio::time::timeout(LONG, tight.served).await.expect("it ends").unwrap();
}
