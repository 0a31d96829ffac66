//! Loopback servers that say exactly what a test wants, and a receiver that remembers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::failure::Failed;
use crate::transport::endpoint::{Site, Tls};
use crate::transport::{Outgoing, Receive, RequestId};

/// A server that answers request after request with what it was given.
pub(in crate::transport) struct Server {
    pub(in crate::transport) port: u16,
    seen: mpsc::UnboundedReceiver<Request>,
    _task: JoinSet<()>,
}

/// What the server says, byte for byte, and what it does then.
pub(in crate::transport) struct Reply {
    pub(in crate::transport) text: String,
    pub(in crate::transport) then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::transport) enum Then {
    /// Waits for the next request.
    Next,
    /// Closes the connection.
    HangUp,
}

/// A request, as it came.
#[derive(Debug)]
pub(in crate::transport) struct Request {
    pub(in crate::transport) head: String,
    pub(in crate::transport) body: String,
    /// The connection that it came on, counted from 0.
    pub(in crate::transport) connection: usize,
}

impl Server {
    pub(in crate::transport) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, replies)
    }

    pub(in crate::transport) fn on(listener: TcpListener, replies: Vec<Reply>) -> Self {
        let port = listener.local_addr().unwrap().port();
        let replies = Arc::new(Mutex::new(VecDeque::from(replies)));
        let (report, seen) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (replies, report) = (replies.clone(), report.clone());
                connections.spawn(answer(stream, connection, replies, report));
            }
        });
        Server { port, seen, _task: task }
    }

    pub(in crate::transport) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The next request that came.
    pub(in crate::transport) async fn request(&mut self) -> Request {
        soon(self.seen.recv()).await.expect("a request")
    }

    /// No request has come that the test did not look at.
    pub(in crate::transport) fn is_quiet(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    report: mpsc::UnboundedSender<Request>,
) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let reply = replies.lock().unwrap().pop_front();
        report.send(Request { head, body, connection }).ok();
        let Some(Reply { text, then }) = reply else { return };
        if stream.write_all(text.as_bytes()).await.is_err() || then == Then::HangUp {
            return;
        }
    }
}

/// Reads one request; none at the end of the connection.
pub(in crate::transport) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = header_in(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

fn header_in<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

impl Request {
    pub(in crate::transport) fn header(&self, name: &str) -> Option<&str> {
        header_in(&self.head, name)
    }

    pub(in crate::transport) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }
}

/// A reply with a length, after which the connection goes on. `head` is the status and header lines.
pub(in crate::transport) fn reply(head: &str, body: &str) -> Reply {
    let head = head.trim().lines().map(str::trim).collect::<Vec<_>>().join("\r\n");
    let text = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    Reply { text, then: Then::Next }
}

/// A JSON answer.
pub(in crate::transport) fn json(body: &str) -> Reply {
    reply("200 OK\nContent-Type: application/json", body)
}

/// A stream of events that ends by a hang-up.
pub(in crate::transport) fn events(body: &str) -> Reply {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}");
    Reply { text, then: Then::HangUp }
}

/// A stream of events in chunks, one for each piece; open at its end unless the last piece is empty.
pub(in crate::transport) fn chunked(pieces: &[&str]) -> Reply {
    let chunks: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
    let text =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    Reply { text, then: Then::Next }
}

pub(in crate::transport) fn site(url: &str) -> Site {
    Site {
        url: url.to_owned(),
        socket: None,
        headers: Vec::new(),
        tls: Tls::default(),
        max_message_bytes: 1 << 20,
        connect_timeout: Duration::from_secs(5),
        secrets: Default::default(),
        authorize: None,
    }
}

pub(in crate::transport) fn request(id: RequestId, text: &str) -> Outgoing {
    Outgoing { text: text.to_owned(), request: Some(id), headers: Vec::new(), repeatable: true }
}

pub(in crate::transport) fn notification(text: &str) -> Outgoing {
    Outgoing { text: text.to_owned(), request: None, headers: Vec::new(), repeatable: true }
}

/// What a receiver was handed.
#[derive(Debug, PartialEq)]
pub(in crate::transport) enum Got {
    Message(String, Option<RequestId>),
    Closed(Failed),
}

pub(in crate::transport) struct Inbox(mpsc::UnboundedReceiver<Got>);

struct Post(mpsc::UnboundedSender<Got>);

impl Receive for Post {
    fn receive(&self, text: String, exchange: Option<RequestId>) {
        self.0.send(Got::Message(text, exchange)).ok();
    }

    fn closed(&self, why: Failed) {
        self.0.send(Got::Closed(why)).ok();
    }
}

impl Inbox {
    pub(in crate::transport) fn new() -> (Arc<dyn Receive>, Self) {
        let (post, inbox) = mpsc::unbounded_channel();
        (Arc::new(Post(post)), Inbox(inbox))
    }

    pub(in crate::transport) async fn next(&mut self) -> Got {
        soon(self.0.recv()).await.expect("something to receive")
    }

    pub(in crate::transport) async fn message(&mut self) -> (String, Option<RequestId>) {
        match self.next().await {
            Got::Message(text, exchange) => (text, exchange),
            Got::Closed(why) => panic!("closed: {why}"),
        }
    }

    pub(in crate::transport) async fn closed(&mut self) -> Failed {
        match self.next().await {
            Got::Closed(why) => why,
            Got::Message(text, _) => panic!("a message: {text}"),
        }
    }

    pub(in crate::transport) fn is_empty(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// Waits for what must happen; a test that waits in vain fails here.
pub(in crate::transport) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("this should have happened")
}
