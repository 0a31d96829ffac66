//! Clients of both eras, each on a connection of its own.

use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toolgate_tests::bare::{INITIALIZE, INITIALIZED, check, request};

/// A client of the gateway.
pub struct Client {
    stream: BufReader<TcpStream>,
    /// What is sent with each request, besides what belongs to it alone.
    headers: String,
    is_modern: bool,
    id: u64,
    body: Vec<u8>,
}

/// What a client was listed.
pub struct Listed {
    pub tools: usize,
    pub bytes: usize,
    pub time: Duration,
}

impl Client {
    /// Connects as the owner of a token; a client of 2025-06-18 opens a session.
    pub async fn connect(address: &str, token: &str, is_modern: bool) -> Client {
        let version = if is_modern { "2026-07-28" } else { "2025-06-18" };
        let mut headers = format!(
            "Host: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {version}\r\n"
        );
        if !token.is_empty() {
            headers.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        let mut client = Client { stream: open(address).await, headers, is_modern, id: 0, body: Vec::new() };
        if is_modern {
            // A connection without a first request is closed soon.
            client.status().await;
        } else {
            client.ask("initialize", "", INITIALIZE).await;
            client.exchange("POST /mcp", "", INITIALIZED).await;
        }
        client
    }

    /// Lists all tools, page by page.
    pub async fn list(&mut self) -> Listed {
        let begun = Instant::now();
        let (mut tools, mut bytes, mut params) = (0, 0, "{}".to_owned());
        loop {
            self.ask("tools/list", "", &params).await;
            let body = std::str::from_utf8(&self.body).expect("it is JSON");
            bytes += body.len();
            // A property may have this name, too, but not in these tools.
            tools += body.matches("\"inputSchema\":").count();
            let end = &body[body.len().saturating_sub(200)..];
            let Some((_, cursor)) = end.split_once("\"nextCursor\":\"") else { break };
            params = format!(r#"{{"cursor":"{}"}}"#, cursor.split('"').next().expect("a text ends"));
        }
        Listed { tools, bytes, time: begun.elapsed() }
    }

    /// Calls a tool, and returns how long that took.
    pub async fn call(&mut self, tool: &str, arguments: &str) -> Duration {
        let begun = Instant::now();
        self.ask("tools/call", tool, &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#)).await;
        let time = begun.elapsed();
        let answer = String::from_utf8_lossy(&self.body);
        assert!(answer.contains("\"content\"") && !answer.contains("\"isError\":true"), "{answer}");
        time
    }

    /// Reads a page, and returns its status.
    pub async fn get(&mut self, path: &str) -> u16 {
        self.exchange(&format!("GET {path}"), "", "").await
    }

    /// Returns the size of the last answer.
    pub fn answered_bytes(&self) -> usize {
        self.body.len()
    }

    /// Sends a ping, and returns the status of the response.
    pub async fn status(&mut self) -> u16 {
        let (headers, message) = self.message("ping", "", "{}");
        self.exchange("POST /mcp", &headers, &message).await
    }

    /// Opens another connection on which the client is told what changes.
    pub async fn listen(&mut self) -> Listener {
        let mut stream =
            open(self.headers.split("\r\n").next().and_then(|line| line.strip_prefix("Host: ")).expect("it has one"))
                .await;
        let message = match self.is_modern {
            false => format!("GET /mcp HTTP/1.1\r\n{}\r\n", self.headers),
            true => {
                let params = r#"{"notifications":{"toolsListChanged":true}}"#;
                let (headers, message) = self.message("subscriptions/listen", "", params);
                let own = &self.headers;
                format!("POST /mcp HTTP/1.1\r\n{own}{headers}Content-Length: {}\r\n\r\n{message}", message.len())
            }
        };
        stream.get_mut().write_all(message.as_bytes()).await.expect("it reads");
        let mut listener = Listener { stream };
        assert!(listener.line().await.contains(" 200 "), "the stream opens");
        if self.is_modern {
            listener.hear("subscriptions/acknowledged").await;
        }
        listener
    }

    async fn ask(&mut self, method: &str, name: &str, params: &str) {
        let (headers, message) = self.message(method, name, params);
        let status = self.exchange("POST /mcp", &headers, &message).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&self.body));
        check(&self.body, self.id);
    }

    /// Returns a request and the headers that describe it.
    fn message(&mut self, method: &str, name: &str, params: &str) -> (String, String) {
        self.id += 1;
        if !self.is_modern {
            return (String::new(), request(self.id, method, params));
        }
        let mut headers = format!("Mcp-Method: {method}\r\n");
        if !name.is_empty() {
            headers.push_str(&format!("Mcp-Name: {name}\r\n"));
        }
        let comma = if params == "{}" { "" } else { "," };
        let params = format!("{{{META}{comma}{}", &params[1..]);
        (headers, request(self.id, method, &params))
    }

    /// Sends a request, reads the response, and returns its status.
    async fn exchange(&mut self, line: &str, headers: &str, body: &str) -> u16 {
        let own = &self.headers;
        let message = format!("{line} HTTP/1.1\r\n{own}{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        let answered = timeout(LONG, async {
            self.stream.get_mut().write_all(message.as_bytes()).await.expect("it reads");
            let first = line_of(&mut self.stream).await;
            let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
            let (mut length, mut is_chunked) = (0, false);
            loop {
                let line = line_of(&mut self.stream).await;
                let Some((name, value)) = line.split_once(": ") else { if line.is_empty() { break } else { continue } };
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().expect("a length is a number"),
                    "transfer-encoding" => is_chunked = value == "chunked",
                    "mcp-session-id" => self.headers.push_str(&format!("Mcp-Session-Id: {value}\r\n")),
                    _ => {}
                }
            }
            self.body.clear();
            while is_chunked {
                let size = line_of(&mut self.stream).await;
                let size = usize::from_str_radix(&size, 16).expect("a size is a number");
                self.read(size).await;
                line_of(&mut self.stream).await;
                is_chunked = size > 0;
            }
            self.read(length).await;
            status
        });
        answered.await.unwrap_or_else(|_| panic!("no answer to {line} within {LONG:?}"))
    }

    async fn read(&mut self, bytes: usize) {
        let read = self.body.len();
        self.body.resize(read + bytes, 0);
        self.stream.read_exact(&mut self.body[read..]).await.expect("the whole answer comes");
    }
}

/// A stream on which a client is told what changes.
pub struct Listener {
    stream: BufReader<TcpStream>,
}

impl Listener {
    /// Waits until a line with these words comes, and returns when it came.
    pub async fn hear(&mut self, words: &str) -> Instant {
        let heard = timeout(LONG, async { while !self.line().await.contains(words) {} });
        heard.await.unwrap_or_else(|_| panic!("nothing about {words} within {LONG:?}"));
        Instant::now()
    }

    async fn line(&mut self) -> String {
        line_of(&mut self.stream).await
    }
}

async fn open(address: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    stream.set_nodelay(true).expect("it is a socket");
    BufReader::new(stream)
}

async fn line_of(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    assert!(stream.read_line(&mut line).await.expect("it answers") > 0, "it has closed the connection");
    line.truncate(line.trim_end().len());
    line
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
/// An answer that takes longer never comes.
const LONG: Duration = Duration::from_secs(300);
