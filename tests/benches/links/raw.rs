//! The bare wire over HTTP, which is the least that an exchange can cost there.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use toolgate_tests::bare::{INITIALIZE, INITIALIZED, check, end, request};

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

const LEGACY: &str = "2025-06-18";
const MODERN: &str = "2026-07-28";
const MODERN_META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bare","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);
