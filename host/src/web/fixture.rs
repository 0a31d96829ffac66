//! Loopback servers with scripted responses, and a receiver that records.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::site::{RemoteSite, Tls};
use crate::failure::RequestError;
use crate::rpc::Message;
use crate::transport::{Outgoing, Receive, RequestId};

/// A server that answers one request after the other with its scripted replies.
pub(crate) struct FixtureServer {
    pub(crate) port: u16,
    seen: mpsc::UnboundedReceiver<FixtureRequest>,
    _task: JoinSet<()>,
}

/// The bytes that the server sends, and what it does then.
pub(crate) struct FixtureReply {
    pub(crate) text: String,
    pub(crate) then: AfterReply,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterReply {
    /// Waits for the next request.
    Next,
    /// Closes the connection.
    HangUp,
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct FixtureRequest {
    pub(crate) head: String,
    pub(crate) body: String,
    /// The connection that it came on, counted from 0.
    pub(crate) connection: usize,
}

impl FixtureServer {
    pub(crate) async fn start(replies: Vec<FixtureReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, replies)
    }

    pub(crate) fn on(listener: TcpListener, replies: Vec<FixtureReply>) -> Self {
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
        FixtureServer { port, seen, _task: task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Returns the next request.
    pub(crate) async fn request(&mut self) -> FixtureRequest {
        soon(self.seen.recv()).await.expect("a request")
    }

    /// Reports whether there is no request that the test has not read.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    replies: Arc<Mutex<VecDeque<FixtureReply>>>,
    report: mpsc::UnboundedSender<FixtureRequest>,
) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let reply = replies.lock().unwrap().pop_front();
        report.send(FixtureRequest { head, body, connection }).ok();
        let Some(FixtureReply { text, then }) = reply else { return };
        if stream.write_all(text.as_bytes()).await.is_err() || then == AfterReply::HangUp {
            return;
        }
    }
}

/// Reads one request; `None` at the end of the connection.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, String)> {
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

impl FixtureRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header_in(&self.head, name)
    }

    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }
}

/// Builds a reply with a length that keeps the connection open; `head` is the status and header lines.
pub(crate) fn reply(head: &str, body: &str) -> FixtureReply {
    let head = head.trim().lines().map(str::trim).collect::<Vec<_>>().join("\r\n");
    let text = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    FixtureReply { text, then: AfterReply::Next }
}

/// Builds a JSON reply.
pub(crate) fn json(body: &str) -> FixtureReply {
    reply("200 OK\nContent-Type: application/json", body)
}

/// Builds a stream of events that ends by closing the connection.
pub(crate) fn events(body: &str) -> FixtureReply {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}");
    FixtureReply { text, then: AfterReply::HangUp }
}

/// Builds a stream of events, one chunk for each piece; it stays open unless the last piece is empty.
pub(crate) fn chunked(pieces: &[&str]) -> FixtureReply {
    let chunks: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
    let text =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    FixtureReply { text, then: AfterReply::Next }
}

pub(crate) fn site(url: &str) -> RemoteSite {
    RemoteSite {
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

pub(crate) fn request(id: RequestId, text: &str) -> Outgoing {
    Outgoing { text: text.to_owned(), request: Some(id), headers: Vec::new(), repeatable: true }
}

pub(crate) fn notification(text: &str) -> Outgoing {
    Outgoing { text: text.to_owned(), request: None, headers: Vec::new(), repeatable: true }
}

/// An item that a receiver got.
#[derive(Debug, PartialEq)]
pub(crate) enum ReceivedItem {
    Message(String, Option<RequestId>),
    Closed(RequestError),
}

pub(crate) struct TestInbox(mpsc::UnboundedReceiver<ReceivedItem>);

struct TestReceiver(mpsc::UnboundedSender<ReceivedItem>);

impl Receive for TestReceiver {
    fn receive(&self, message: Message, exchange: Option<RequestId>) {
        self.0.send(ReceivedItem::Message(message.text().to_owned(), exchange)).ok();
    }

    fn closed(&self, why: RequestError) {
        self.0.send(ReceivedItem::Closed(why)).ok();
    }
}

impl TestInbox {
    pub(crate) fn new() -> (Arc<dyn Receive>, Self) {
        let (post, inbox) = mpsc::unbounded_channel();
        (Arc::new(TestReceiver(post)), TestInbox(inbox))
    }

    pub(crate) async fn next(&mut self) -> ReceivedItem {
        soon(self.0.recv()).await.expect("something to receive")
    }

    pub(crate) async fn message(&mut self) -> (String, Option<RequestId>) {
        match self.next().await {
            ReceivedItem::Message(text, exchange) => (text, exchange),
            ReceivedItem::Closed(why) => panic!("closed: {why}"),
        }
    }

    pub(crate) async fn closed(&mut self) -> RequestError {
        match self.next().await {
            ReceivedItem::Closed(why) => why,
            ReceivedItem::Message(text, _) => panic!("a message: {text}"),
        }
    }

    pub(crate) fn is_empty(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// Waits for something that must happen; a test that waits in vain fails here.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("this should have happened")
}
