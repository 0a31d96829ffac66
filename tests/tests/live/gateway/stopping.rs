//! Tests what becomes of calls that outlast the end of the gateway: whoever made them is told whether they may have run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolgate::config;
use toolgate::gateway::client::Principal;
use toolgate::gateway::http::{HttpOptions, HttpServer, Tokens};
use toolgate::gateway::pages::GatewayPages;
use toolgate::gateway::{Gateway, GatewayLimits, GatewayOptions, Relay};
use toolgate::registry::{self, Registry};

use super::{Lines, serve_over};
use crate::fixtures::{LONG, component, until};

/// A gateway over HTTP that waits for no call when it stops, in front of a server that logs what it does.
struct Stopping {
    folder: tempfile::TempDir,
    address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Stopping {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = working(folder.path());
        let relay = Arc::new(Relay::default());
        let options = registry::RegistryOptions { handler: Arc::clone(&relay) as _, ..Default::default() };
        let registry = Registry::new(&component(), config, options).expect("the component starts");
        let gateway = Arc::new(Gateway::new(Arc::clone(&registry), relay, GatewayOptions::default()));
        let limits = GatewayLimits { grace: Duration::ZERO, ..GatewayLimits::default() };
        let admin = Principal { name: "ann".to_owned(), admin: true };
        let tokens = Tokens::new([(TOKEN.to_owned(), admin)]).unwrap();
        let options = HttpOptions { limits, tokens, ..HttpOptions::new("127.0.0.1:0".parse().unwrap()) };
        let server = HttpServer::bind(options).await.expect("a port is free");
        let address = server.address().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let pages = Arc::new(GatewayPages(Arc::clone(&gateway)));
            let stopped = async {
                let _ = stopped.await;
            };
            server.serve(gateway, pages, stopped).await;
            registry.close().await;
        });
        Stopping { folder, address, stop, served }
    }

    /// Reports whether the server has logged this line.
    fn logged(&self, line: &str) -> bool {
        logged(self.folder.path(), line)
    }

    /// Sends a request, whose response `read` reads.
    async fn send(&self, line: &str, headers: &str, body: &Value) -> TcpStream {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Calls a tool as a client of 2026-07-28 that asks how its call was decided.
    async fn call(&self, name: &str, text: &str) -> TcpStream {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "toolgate/outcome": true,
        });
        let params = json!({"name": name, "arguments": {"text": text}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n");
        self.send("POST /mcp", &headers, &message).await
    }
}

/// The JSON of a response whose connection then closes.
async fn read(mut stream: TcpStream) -> Value {
    let mut text = String::new();
    tokio::time::timeout(LONG, stream.read_to_string(&mut text)).await.expect("it answers").unwrap();
    let body = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?} is no answer")).1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A server that works on many calls at once, and another one that takes one call at a time.
fn working(folder: &Path) -> config::model::Config {
    let (program, log) = (env!("CARGO_BIN_EXE_fixture"), folder.join("log"));
    let entry = format!("command: {program:?}, args: [works, {log:?}]");
    let yaml = format!("servers:\n  s: {{{entry}}}\n  one: {{{entry}, max_concurrent: 1}}\n");
    config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right")
}

fn logged(folder: &Path, line: &str) -> bool {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default().lines().any(|logged| logged == line)
}

#[tokio::test]
async fn a_call_that_outlasts_the_end_is_answered_by_whether_it_may_have_run() {
    let gateway = Stopping::start().await;
    let unsafe_call = gateway.call("s__hold", "a").await;
    let read_only = gateway.call("s__watch", "b").await;
    let arguments = json!({"name": "s__hold", "arguments": {"text": "c"}});
    let operator_call = gateway.send("POST /api/v1/mcp/call", "", &arguments).await;
    let running = gateway.call("one__hold", "d").await;
    until("the calls", || ["a", "b", "c", "d"].iter().all(|text| gateway.logged(&format!("began {text}")))).await;
    let queued = gateway.call("one__hold", "e").await;
    while !read(gateway.send("GET /api/v1/servers", "Connection: close\r\n", &json!({})).await)
        .await
        .to_string()
        .contains(r#""waiting":1"#)
    {}
    gateway.stop.send(()).unwrap();
    let text_of = |answer: &Value| answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    for (stream, code, text) in [
        (unsafe_call, "outcome-unknown", UNKNOWN),
        (running, "outcome-unknown", "check before calling it again (the gateway was stopped)"),
        (read_only, "timeout", "failed: no answer from server \"s\" in time (the gateway was stopped)"),
        (queued, "timeout", "no answer from server \"one\" in time (the gateway was stopped)"),
    ] {
        let answer = read(stream).await;
        assert_eq!(answer["result"]["_meta"]["toolgate/outcome"]["code"], code, "{answer}");
        assert!(text_of(&answer).ends_with(text) && answer["result"]["isError"] == true, "{answer}");
    }
    let answer = read(operator_call).await;
    assert_eq!(answer["code"], "outcome-unknown", "{answer}");
    assert!(answer["text"].as_str().unwrap().ends_with(UNKNOWN), "{answer}");
    tokio::time::timeout(LONG, gateway.served).await.expect("it ends").unwrap();
    let logged = |line: &str| logged(gateway.folder.path(), line);
    assert!(["a", "b", "c", "d"].iter().all(|text| logged(&format!("cancelled {text}"))), "servers are told");
    assert!(!logged("began e"), "it was never sent");
}

#[tokio::test]
async fn over_standard_input_and_output_it_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (stream, served) = serve_over(working(folder.path()), HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    for (id, tool) in [(1, "s__hold"), (2, "s__watch")] {
        let params = json!({"name": tool, "arguments": {"text": tool}});
        lines.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        until("the call", || logged(folder.path(), &format!("began {tool}"))).await;
    }
    lines.0.get_mut().shutdown().await.unwrap();
    let mut answers = HashMap::new();
    while answers.len() < 2 {
        let answer = lines.next().await;
        // The server's log comes too.
        let Some(id) = answer["id"].as_u64() else { continue };
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        answers.insert(id, text);
    }
    assert!(answers[&1].ends_with(UNKNOWN), "{answers:?}");
    assert!(
        answers[&2].ends_with("failed: no answer from server \"s\" in time (the gateway was stopped)"),
        "{answers:?}"
    );
    tokio::time::timeout(LONG, served).await.expect("it ends").unwrap();
}

const TOKEN: &str = "a-token-of-ann";
/// How the answer ends to a call that may have run.
const UNKNOWN: &str = "outcome unknown: no answer from server \"s\" in time; the tool may have run, so check before \
                       calling it again (the gateway was stopped)";
