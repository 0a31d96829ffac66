//! Tests hostile clients and web pages that reach the gateway's listeners.

mod batches;
mod connections;
mod pages;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::place::{Place, demo};
use crate::serving::{LONG, Reply, Serving, Web, appears};

/// A gateway over the demo server with these settings, on HTTP.
struct Gateway {
    place: Place,
    serving: Serving,
    address: String,
}

impl Gateway {
    fn start(gateway: Value) -> Self {
        let place = Place::configured(&json!({"version": 1, "servers": {"demo": demo()}, "gateway": gateway}));
        let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
        let address = serving.address();
        Gateway { place, serving, address }
    }

    fn web<'a>(&'a self, token: Option<&'a str>) -> Web<'a> {
        Web { address: &self.address, token, session: None }
    }

    /// A client in a session of this version.
    fn session<'a>(&'a self, version: &str, token: Option<&'a str>) -> Web<'a> {
        let mut web = self.web(token);
        let reply = web.post(&initialize(version));
        let id = reply.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        web.session = Some(id.unwrap_or_else(|| panic!("{reply:?}")).to_owned());
        web
    }

    /// The calls that the gateway remembers.
    fn calls(&self, token: Option<&str>) -> usize {
        let page = self.web(token).request("GET /api/v1/calls?limit=10000", "localhost", &[], "");
        let page: Value = serde_json::from_str(&page.body).unwrap_or_else(|_| panic!("{page:?}"));
        page["calls"].as_array().unwrap().len()
    }

    /// Its socket, once it is there.
    fn socket(&self) -> PathBuf {
        socket(&self.place)
    }
}

fn socket(place: &Place) -> PathBuf {
    let folder = place.path("run/toolgate");
    appears(&folder);
    loop {
        let mut found = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        if let Some(socket) = found.find(|path| path.extension().is_some_and(|ending| ending == "sock")) {
            return socket;
        }
        std::thread::yield_now();
    }
}

fn initialize(version: &str) -> Value {
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn echo(id: impl Into<Value>) -> Value {
    let id: Value = id.into();
    let params = json!({"name": "demo__echo", "arguments": {"text": "hi"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Writes a request and reads its answer, on any stream.
fn ask(mut stream: impl Read + Write, request: &str) -> Reply {
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?} is no answer"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

fn tcp(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn unix(path: &std::path::Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}
