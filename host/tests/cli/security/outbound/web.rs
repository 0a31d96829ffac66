//! A web server with scripted answers that records its requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A site. Its threads end with the test's process.
pub struct Site {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The first line.
    pub line: String,
    /// The content.
    pub body: String,
}

/// What it answers.
pub struct Reply {
    status: u16,
    headers: String,
    body: String,
}

impl Site {
    /// Listens on a port of its own.
    pub fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Site { address, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Seen {
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method; the empty text where there is none.
    pub fn method(&self) -> &'static str {
        const KNOWN: [&str; 4] = ["initialize", "tools/list", "tools/call", "server/discover"];
        let message = self.message();
        KNOWN.into_iter().find(|known| message["method"] == *known).unwrap_or_default()
    }
}

impl Reply {
    pub fn json(body: &str) -> Self {
        Reply { status: 200, headers: "Content-Type: application/json\r\n".to_owned(), body: body.to_owned() }
    }

    /// A stream of events that ends at once.
    pub fn events(body: &str) -> Self {
        Reply { status: 200, headers: "Content-Type: text/event-stream\r\n".to_owned(), body: body.to_owned() }
    }

    pub fn moved(status: u16, target: &str) -> Self {
        Reply { status, headers: format!("Location: {target}\r\n"), body: String::new() }
    }

    /// The answer to a request of MCP.
    pub fn answer(seen: &Seen, result: &Value) -> Self {
        Reply::json(&json!({"jsonrpc": "2.0", "id": seen.message()["id"], "result": result}).to_string())
    }
}

/// A server with one tool, `do`.
pub fn mcp(seen: &Seen) -> Reply {
    let tool = json!({"name": "do", "inputSchema": {"type": "object"}});
    match seen.method() {
        "initialize" => Reply::answer(
            seen,
            &json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            }),
        ),
        "tools/list" => Reply::answer(seen, &json!({"tools": [tool]})),
        "tools/call" => Reply::answer(seen, &json!({"content": [{"type": "text", "text": "done"}]})),
        _ if seen.message()["id"].is_null() => Reply { status: 202, headers: String::new(), body: String::new() },
        _ => Reply::json(
            &json!({"jsonrpc": "2.0", "id": seen.message()["id"], "error": {"code": -32601, "message": "no"}})
                .to_string(),
        ),
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Seen>>, answer: &(dyn Fn(&Seen) -> Reply + Send + Sync)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 {
                return;
            }
            match header.trim().to_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let seen = Seen { line: line.trim().to_owned(), body: String::from_utf8(body).unwrap() };
        log.lock().unwrap().push(seen.clone());
        let Reply { status, headers, body } = answer(&seen);
        let text = format!("HTTP/1.1 {status} Ok\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}
