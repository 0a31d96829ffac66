//! The bare wire: JSON-RPC with no client at all, which is the least that an exchange can cost.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// A server on a pipe, asked and awaited by one thread that blocks.
pub struct Pipe {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    id: u64,
}

impl Pipe {
    /// Starts a server and shakes hands.
    pub fn open(program: &str) -> Self {
        let mut server = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let input = server.stdin.take().expect("it has an input");
        let output = BufReader::with_capacity(256 << 10, server.stdout.take().expect("it has an output"));
        let mut pipe = Pipe { server, input, output, line: Vec::new(), id: 0 };
        pipe.ask("initialize", INITIALIZE);
        pipe.input.write_all(format!("{INITIALIZED}\n").as_bytes()).expect("the server reads");
        pipe
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &str) {
        self.ask("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#));
    }

    fn ask(&mut self, method: &str, params: &str) {
        self.id += 1;
        let mut message = request(self.id, method, params);
        message.push('\n');
        self.input.write_all(message.as_bytes()).expect("the server reads");
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line).expect("the server writes");
        check(&self.line, self.id);
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        end(&mut self.server);
    }
}

/// A server on a port of this machine.
pub struct HttpServer {
    server: Child,
    address: String,
}

impl HttpServer {
    /// Starts a server that answers with JSON, or with events in a session.
    pub fn start(program: &str, json: bool) -> Self {
        let mut command = Command::new(program);
        command.args(["--http", "127.0.0.1:0"]).args(json.then_some("--json"));
        let mut server =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut address = String::new();
        let output = server.stdout.as_mut().expect("it has an output");
        BufReader::new(output.take(64)).read_line(&mut address).expect("it says where it listens");
        HttpServer { server, address: address.trim().to_owned() }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Connects and shakes hands.
    pub async fn connect(&self, era: &'static str) -> Connection {
        let stream = tokio::net::TcpStream::connect(&self.address).await.expect("it listens");
        stream.set_nodelay(true).expect("TCP has this option");
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a connection begins");
        tokio::spawn(connection);
        let modern = era != "legacy";
        let (host, sender) = (self.address.clone(), RefCell::new(Some(sender)));
        let connection = Connection { host, sender, modern, session: RefCell::default(), id: Cell::default() };
        if !modern {
            connection.ask("initialize", INITIALIZE, None).await;
            connection.post(INITIALIZED.to_owned(), "notifications/initialized", None).await;
        }
        connection
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        end(&mut self.server);
    }
}

/// One connection of HTTP/1.1.
pub struct Connection {
    host: String,
    /// Taken for the time of an exchange.
    sender: RefCell<Option<SendRequest<Full<Bytes>>>>,
    modern: bool,
    session: RefCell<Option<String>>,
    id: Cell<u64>,
}

impl Connection {
    /// Calls a tool so many times.
    pub async fn calls(&self, calls: u32, tool: &str, arguments: &str) {
        let meta = if self.modern { MODERN_META } else { "" };
        for _ in 0..calls {
            let params = format!(r#"{{"name":"{tool}","arguments":{arguments}{meta}}}"#);
            self.ask("tools/call", &params, Some(tool)).await;
        }
    }

    async fn ask(&self, method: &str, params: &str, name: Option<&str>) {
        let id = self.id.get() + 1;
        self.id.set(id);
        let body = self.post(request(id, method, params), method, name).await;
        check(&body, id);
    }

    async fn post(&self, body: String, method: &str, name: Option<&str>) -> Bytes {
        let mut request = hyper::Request::post("/mcp")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", if self.modern { MODERN } else { LEGACY });
        if let Some(session) = &*self.session.borrow() {
            request = request.header("mcp-session-id", session);
        }
        if self.modern {
            request = request.header("mcp-method", method);
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("the headers are good");
        let mut sender = self.sender.take().expect("one exchange at a time");
        sender.ready().await.expect("the server keeps the connection");
        let response = sender.send_request(request).await.expect("the server answers");
        assert!(response.status().is_success(), "{}", response.status());
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session.replace(session.to_str().ok().map(str::to_owned));
        }
        let body = response.into_body().collect().await.expect("the answer is whole").to_bytes();
        self.sender.replace(Some(sender));
        body
    }
}

fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Whether it is the answer is seen near its beginning or its end; more is not read.
fn check(message: &[u8], id: u64) {
    let wanted = format!("\"id\":{id}");
    let has = |part: &[u8]| part.windows(wanted.len()).any(|window| window == wanted.as_bytes());
    let (first, last) = (&message[..message.len().min(160)], &message[message.len().saturating_sub(96)..]);
    if !has(first) && !has(last) {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        panic!("not the answer to {id}: {message}");
    }
}

fn end(server: &mut Child) {
    // It may have ended by itself.
    let _ = server.kill();
    let _ = server.wait();
}

const LEGACY: &str = "2025-06-18";
const MODERN: &str = "2026-07-28";
const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const MODERN_META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bare","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);
