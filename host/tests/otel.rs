//! Tests the binary with the feature `otel`, with a server and a small collector of spans.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[test]
fn a_call_is_a_trace_from_its_caller_to_its_server() {
    let (endpoint, bodies) = collect();
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    let toolgate = env!("CARGO_BIN_EXE_toolgate");
    let script = format!("tee {} | {toolgate} demo-server", heard.display());
    let config = folder.path().join("toolgate.yaml");
    fs::write(&config, format!("servers:\n  demo: {{command: sh, args: [-c, {script:?}]}}\n")).unwrap();

    let mut gateway = Command::new(toolgate)
        .arg("--config")
        .arg(&config)
        .arg("serve")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_SERVICE_NAME", "a gate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut input = gateway.stdin.take().unwrap();
    let mut output = BufReader::new(gateway.stdout.take().unwrap());
    let mut ask = |id: u64, method: &str, params: Value| {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).unwrap();
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the gateway has gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    };
    let client = json!({"name": "t", "version": "1"});
    ask(1, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}));
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "a=1", "baggage": "b=2"});
    let echo = json!({"name": "demo__echo", "arguments": {"text": "words of nobody's business"}, "_meta": meta});
    let answer = ask(2, "tools/call", echo);
    assert_eq!(answer["result"]["content"][0]["text"], "words of nobody's business");
    let missing = json!({"name": "demo__nothing", "arguments": {}, "_meta": meta});
    assert_eq!(ask(3, "tools/call", missing)["error"]["code"], -32602);
    ask(4, "prompts/get", json!({"name": "demo__greet", "arguments": {"name": "Ada"}, "_meta": meta}));
    drop(input);
    assert!(gateway.wait().unwrap().success());

    let bodies: Vec<Vec<u8>> = bodies.try_iter().collect();
    let spans: Vec<Span> = bodies.iter().flat_map(|body| spans(body)).filter(|span| span.trace == TRACE).collect();
    let only = |name: &str, kind: u64| {
        let mut found = spans.iter().filter(|span| span.name == name && span.kind == kind);
        let first = found.next().unwrap_or_else(|| panic!("no span {name:?} of kind {kind}: {spans:#?}"));
        assert!(found.next().is_none(), "{spans:#?}");
        first
    };
    let call = only("tools/call echo", SERVER);
    assert_eq!((call.parent.as_str(), call.attribute("toolgate.code")), (PARENT, "ok"));
    assert_eq!(call.attribute("gen_ai.tool.name"), "echo");
    let request = only("tools/call echo", CLIENT);
    assert_eq!((&request.parent, request.attribute("mcp.method.name")), (&call.id, "tools/call"));
    assert_eq!(request.attribute("toolgate.server"), "demo");
    for step in ["toolgate.begin", "toolgate.next"] {
        assert!(spans.iter().any(|span| span.name == step && span.parent == call.id), "{step}: {spans:#?}");
    }
    assert_eq!(only("tools/call", SERVER).attribute("error.type"), "unknown-tool");
    assert_eq!(only("prompts/get greet", CLIENT).parent, only("prompts/get", SERVER).id);

    let heard = fs::read_to_string(heard).unwrap();
    let sent = heard.lines().find(|line| line.contains("tools/call")).unwrap();
    let sent: Value = serde_json::from_str(sent).unwrap();
    let meta = &sent["params"]["_meta"];
    assert_eq!(meta["traceparent"], format!("00-{TRACE}-{}-01", request.id), "the server's parent is the request");
    assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!("a=1"), &json!("b=2")));
    let bytes = bodies.concat();
    assert!(find(&bytes, b"a gate"), "the service has its name");
    assert!(!find(&bytes, b"nobody's business") && !find(&bytes, b"Ada"), "no span has arguments or results");
}

#[test]
fn without_a_collector_calls_go_on() {
    let toolgate = env!("CARGO_BIN_EXE_toolgate");
    let called = Command::new(toolgate)
        .args(["call", "demo.echo", "text: hello"])
        .current_dir(tempfile::tempdir().unwrap().path())
        .env("OTEL_TRACES_EXPORTER", "none")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&called.stdout).trim(), "hello", "{called:?}");
}

/// Takes what is posted, on a free port: the address, and the bodies.
fn collect() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some((path, body)) = read_post(&mut reader) {
                    assert_eq!(path, "/v1/traces");
                    // Before the answer: who has it has been heard.
                    sender.send(body).unwrap();
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
                    stream.write_all(head.as_bytes()).unwrap();
                }
            });
        }
    });
    (address, receiver)
}

fn read_post(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

#[derive(Debug)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).unwrap_or_else(|| panic!("no {name:?} in {self:#?}"))
    }
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut found = Vec::new();
    for resource in inner(body, 1) {
        for scope in inner(resource, 2) {
            for span in inner(scope, 2) {
                let hex = |field| {
                    let bytes = inner(span, field).next().unwrap_or_default();
                    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
                };
                let attribute =
                    |pair: &[u8]| Some((text(pair, 1)?, text(inner(pair, 2).next()?, 1).unwrap_or_default()));
                found.push(Span {
                    trace: hex(1),
                    id: hex(2),
                    parent: hex(4),
                    name: text(span, 5).unwrap_or_default(),
                    kind: fields(span).into_iter().find(|(field, ..)| *field == 6).map_or(0, |(_, number, _)| number),
                    attributes: inner(span, 9).filter_map(attribute).collect(),
                });
            }
        }
    }
    found
}

fn text(message: &[u8], field: u64) -> Option<String> {
    inner(message, field).next().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// What stands under a field that holds bytes.
fn inner(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter_map(move |(field, _, bytes)| bytes.filter(|_| field == wanted))
}

/// The fields of a message of Protocol Buffers: the number of each, and what it holds.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, Option<&[u8]>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message);
        let (value, bytes) = match tag & 7 {
            0 => (number(&mut message), None),
            1 => (0, Some(take(&mut message, 8))),
            2 => {
                let length = number(&mut message) as usize;
                (0, Some(take(&mut message, length)))
            }
            5 => (0, Some(take(&mut message, 4))),
            other => panic!("no such kind of field: {other}"),
        };
        found.push((tag >> 3, value, bytes));
    }
    found
}

fn number(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(message, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take<'a>(message: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(count);
    *message = rest;
    taken
}

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

const SERVER: u64 = 2;
const CLIENT: u64 = 3;
