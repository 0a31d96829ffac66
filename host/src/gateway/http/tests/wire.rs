//! A test client that writes and reads HTTP/1.1 by hand.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::{Ask, LONG};

/// A byte stream between client and server.
pub(super) trait Pipe: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Pipe for T {}

/// A connection to the server.
pub(super) struct Wire<T> {
    pub(super) io: T,
    seen: Vec<u8>,
    /// The decoded part of a chunked body.
    events: String,
}

/// A whole response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the error's code word, such as `queue-full`.
    pub(super) fn reason(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("a JSON body");
        body["error"]["data"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the code of the JSON-RPC error.
    pub(super) fn code(&self) -> i64 {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("a JSON body");
        assert!(body["id"].is_null() && body["error"]["message"].is_string(), "{body}");
        body["error"]["code"].as_i64().expect("a JSON-RPC error")
    }
}

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) retry: bool,
    pub(super) comment: bool,
    pub(super) data: Option<String>,
}

impl<T: Pipe> Wire<T> {
    pub(super) fn new(io: T) -> Self {
        Wire { io, seen: Vec::new(), events: String::new() }
    }

    /// Writes a request.
    pub(super) async fn send(&mut self, ask: impl Into<Ask>) {
        let text = write(&ask.into());
        self.write(text.as_bytes()).await;
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        // A server that refuses early may have closed the connection.
        let _ = timeout(LONG, self.io.write_all(bytes)).await.expect("the door reads");
    }

    /// Writes a request and reads the whole response.
    pub(super) async fn ask(&mut self, ask: impl Into<Ask>) -> Reply {
        self.send(ask).await;
        self.reply().await
    }

    /// Reads a whole response.
    pub(super) async fn reply(&mut self) -> Reply {
        let mut reply = self.head().await;
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                reply.body.push_str(&chunk);
            }
        } else {
            let length = reply.header("content-length").map_or(0, |text| text.parse().unwrap());
            reply.body = String::from_utf8(self.exactly(length).await).unwrap();
        }
        reply
    }

    /// Reads the head of a response.
    pub(super) async fn head(&mut self) -> Reply {
        let head = self.until(b"\r\n\r\n").await.expect("an answer");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Reply { status, headers: lines.filter_map(header).collect(), body: String::new() }
    }

    /// Reads one event of a stream; `None` at its end.
    pub(super) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.events.find("\n\n") {
                let text: String = self.events.drain(..end + 2).collect();
                let mut event = Event::default();
                for line in text.trim_end_matches('\n').split('\n') {
                    match line.split_once(':').map(|(name, value)| (name, value.trim_start())) {
                        Some(("", _)) => event.comment = true,
                        Some(("id", value)) => event.id = Some(value.to_owned()),
                        Some(("retry", _)) => event.retry = true,
                        Some(("data", value)) => event.data = Some(value.to_owned()),
                        Some(("event", value)) => assert_eq!(value, "message"),
                        _ => panic!("{line:?}"),
                    }
                }
                return Some(event);
            }
            let chunk = self.chunk().await?;
            self.events.push_str(&chunk);
        }
    }

    /// Reads the next event that has data.
    pub(super) async fn message(&mut self) -> Option<Event> {
        loop {
            let event = self.event().await?;
            if event.data.as_ref().is_some_and(|data| !data.is_empty()) {
                return Some(event);
            }
        }
    }

    /// Waits until the server has closed the connection.
    pub(super) async fn closed(&mut self) -> bool {
        while self.fill().await {}
        true
    }

    async fn chunk(&mut self) -> Option<String> {
        let size = self.until(b"\r\n").await?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = self.exactly(size + 2).await;
        chunk.truncate(size);
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    async fn until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.seen.windows(end.len()).position(|window| window == end) {
                return Some(String::from_utf8(self.seen.drain(..at + end.len()).collect()).unwrap());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.seen.len() < length {
            assert!(self.fill().await, "cut off");
        }
        self.seen.drain(..length).collect()
    }

    async fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let read = timeout(100 * LONG, self.io.read(&mut buffer)).await.expect("the door writes");
        let count = read.unwrap_or(0);
        self.seen.extend_from_slice(&buffer[..count]);
        count > 0
    }
}

pub(super) fn write(ask: &Ask) -> String {
    let mut text = format!("{} HTTP/1.1\r\n", ask.line);
    for (name, value) in &ask.headers {
        text += &format!("{name}: {value}\r\n");
    }
    if ask.line.starts_with("POST") && !ask.headers.iter().any(|(name, _)| *name == "Transfer-Encoding") {
        text += &format!("Content-Length: {}\r\n", ask.body.len());
    }
    text + "\r\n" + &ask.body
}
