//! A web server on loopback with scripted answers that records its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::fixtures::LONG;

/// A server that ends with its test.
pub struct Server {
    /// Where it is, without a path.
    pub origin: String,
    seen: watch::Receiver<Vec<Seen>>,
    _tasks: JoinSet<()>,
}

/// What the server saw: a request, or that the client went away in the middle of an answer.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The HTTP method, or `GONE` where the client went away.
    pub verb: String,
    /// The path and the query.
    pub path: String,
    /// The headers, with small letters in their names.
    pub headers: BTreeMap<String, String>,
    /// The message; null where there is none.
    pub body: Value,
}

/// How a request is answered.
pub enum Answer {
    /// With this status, these lines of headers, and this body.
    Whole(String, Vec<String>, String),
    /// With events, for as long as the sender lives.
    Events(Vec<String>, mpsc::UnboundedReceiver<String>),
    /// With these events, and then the connection breaks.
    Cut(Vec<String>),
    /// Not at all.
    Silence,
}

/// A stream of events that a test feeds.
#[derive(Clone, Default)]
pub struct Feed(Arc<Mutex<Vec<mpsc::UnboundedSender<String>>>>);

type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

impl Server {
    /// Starts a server on a free port.
    pub async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
        Self::start_with(script, usize::MAX).await
    }

    /// Starts the server; after this many answers a connection is dead without a sign, and what comes then is not seen.
    pub async fn start_with(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static, answers: usize) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (log, seen) = watch::channel(Vec::new());
        let (log, script) = (Arc::new(log), Arc::new(script) as Arc<Script>);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                connections.spawn(async move { serve(stream, &*script, &log, answers).await.unwrap_or_default() });
            }
        });
        Server { origin, seen, _tasks: tasks }
    }

    /// The address of the MCP server.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// All that was seen so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// How often a message of this method came.
    pub fn count(&self, method: &str) -> usize {
        self.seen.borrow().iter().filter(|seen| seen.is(method)).count()
    }

    /// The messages of this method.
    pub fn all(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.is(method)).collect()
    }

    /// Waits until something was seen, and gives it.
    pub async fn wait(&self, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let mut log = self.seen.clone();
        let waiting = log.wait_for(|log| log.iter().any(&wanted));
        let log = match tokio::time::timeout(LONG, waiting).await {
            Ok(log) => log.unwrap(),
            Err(_) => panic!("it never came; there was {:#?}", self.seen()),
        };
        log.iter().find(|seen| wanted(seen)).unwrap().clone()
    }
}

impl Seen {
    /// The JSON-RPC method.
    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// Whether this is a message of this method.
    pub fn is(&self, method: &str) -> bool {
        self.verb != "GONE" && self.method() == method
    }

    /// Whether the client went away from the answer to this method.
    pub fn gone_from(&self, method: &str) -> bool {
        self.verb == "GONE" && self.method() == method
    }

    /// A header; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }
}

impl Answer {
    /// A status, with a body of this content type.
    pub fn of(status: &str, kind: &str, body: impl ToString) -> Answer {
        Answer::Whole(status.to_owned(), vec![format!("Content-Type: {kind}")], body.to_string())
    }

    /// A status and nothing else.
    pub fn status(status: &str) -> Answer {
        Answer::Whole(status.to_owned(), Vec::new(), String::new())
    }

    /// JSON.
    pub fn json(body: impl ToString) -> Answer {
        Answer::of("200 OK", "application/json", body)
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn with(mut self, line: &str) -> Answer {
        if let Answer::Whole(_, headers, _) | Answer::Events(headers, _) = &mut self {
            headers.push(line.to_owned());
        }
        self
    }
}

impl Feed {
    /// An answer that this feeds from now on.
    pub fn answer(&self) -> Answer {
        let (sender, events) = mpsc::unbounded_channel();
        self.0.lock().unwrap().push(sender);
        Answer::Events(Vec::new(), events)
    }

    /// Sends a message as an event of the latest stream.
    pub fn send(&self, message: &Value) {
        self.raw(&event(message));
    }

    /// Sends any text on the latest stream.
    pub fn raw(&self, text: &str) {
        self.0.lock().unwrap().last().expect("there is a stream").send(text.to_owned()).expect("it is open");
    }

    /// Ends all streams in good manners.
    pub fn end(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// A message as an event.
pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// One connection; it ends as a whole where the client does.
async fn serve(stream: TcpStream, script: &Script, log: &watch::Sender<Vec<Seen>>, answers: usize) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    for _ in 0..answers {
        let seen = hear(&mut read).await?;
        let answer = script(&seen);
        let gone = Seen { verb: "GONE".to_owned(), ..seen.clone() };
        log.send_modify(|log| log.push(seen));
        match answer {
            Answer::Whole(status, headers, body) => {
                let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
                let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
                write.write_all(text.as_bytes()).await.ok()?;
            }
            Answer::Events(headers, mut events) => {
                begin(&mut write, &headers).await?;
                loop {
                    tokio::select! {
                        biased;
                        event = events.recv() => match event {
                            Some(event) => chunk(&mut write, &event).await?,
                            None => break,
                        },
                        _ = read.fill_buf() => {
                            log.send_modify(|log| log.push(gone));
                            return None;
                        }
                    }
                }
                write.write_all(b"0\r\n\r\n").await.ok()?;
            }
            Answer::Cut(events) => {
                begin(&mut write, &[]).await?;
                for event in events {
                    chunk(&mut write, &event).await?;
                }
                return None;
            }
            Answer::Silence => {
                let _ = read.fill_buf().await;
                log.send_modify(|log| log.push(gone));
                return None;
            }
        }
    }
    hear(&mut read).await.map(drop)
}

async fn begin(write: &mut OwnedWriteHalf, headers: &[String]) -> Option<()> {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
    write.write_all(format!("{head}{headers}\r\n").as_bytes()).await.ok()
}

async fn chunk(write: &mut OwnedWriteHalf, text: &str) -> Option<()> {
    write.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.ok()
}

/// Reads one request; none is the end of the connection.
pub async fn hear(read: &mut BufReader<OwnedReadHalf>) -> Option<Seen> {
    let first = line(read).await?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut seen = Seen { verb: words.next()?, path: words.next()?, ..Seen::default() };
    loop {
        let line = line(read).await?;
        let Some((name, value)) = line.split_once(':') else { break };
        seen.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; seen.header("content-length").parse().unwrap_or(0)];
    read.read_exact(&mut body).await.ok()?;
    seen.body = serde_json::from_slice(&body).unwrap_or_default();
    Some(seen)
}

async fn line(read: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    let mut line = String::new();
    read.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    Some(line.trim_end().to_owned())
}
