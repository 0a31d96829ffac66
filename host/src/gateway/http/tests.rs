//! Tests of the HTTP server with clients that write HTTP by hand.

mod changing;
mod ending;
mod keeping;
mod limits;
mod pages;
mod posts;
mod safety;
mod sessions;

#[cfg(unix)]
mod socket;
mod streams;
mod test_clients;
mod tls;
mod wire;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::context::{HttpState, ServerParts, ServerPhase};
use super::control::HttpControl;
use super::event_id::StreamId;
use super::hosts::{AllowedHosts, ConnectionInfo};
use super::options::{CertificateFiles, HttpOptions};
use super::timer::ConnectionTimer;
use super::tokens::{Authenticator, Tokens};
use super::{HttpServer, connection};
use crate::gateway::client::{ClientFactory, Principal};
use crate::gateway::limits::GatewayLimits;
use crate::gateway::load::{LoadLimiter, RefusalReason};
use crate::spin_wait::SpinWait;
use test_clients::{TestClientFactory, TestPages};
use wire::{Reply, Wire};

/// A time limit longer than any test step, so that a bug fails the test instead of hanging it.
const LONG: Duration = Duration::from_secs(30);

/// A server that runs in a task.
struct Running {
    address: SocketAddr,
    house: Arc<TestClientFactory>,
    load: Arc<LoadLimiter>,
    control: HttpControl,
    drain: Arc<Notify>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Running {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut HttpOptions)) -> Self {
        let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let server = HttpServer::bind(options).await.unwrap();
        let (address, limiter, factory) = (server.address(), server.load(), Arc::new(TestClientFactory::default()));
        let control = server.control();
        let (drain, (stop, stopped)) = (Arc::new(Notify::new()), oneshot::channel());
        let draining = drain.clone();
        let serve = server.serve_with_drain(
            factory.clone(),
            Arc::new(TestPages),
            async move { draining.notified().await },
            async {
                let _ = stopped.await;
            },
        );
        Running { address, house: factory, load: limiter, control, drain, stop, served: tokio::spawn(serve) }
    }

    async fn connect(&self) -> Wire<TcpStream> {
        Wire::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends one request on its own connection.
    async fn ask(&self, request: impl Into<Ask>) -> Reply {
        self.connect().await.ask(request).await
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        timeout(LONG, self.served).await.expect("the door ends").unwrap();
    }
}

/// A server without a listener, for tests with a paused clock, where real sockets would be too slow.
struct Inside {
    desk: Arc<HttpState>,
    house: Arc<TestClientFactory>,
    /// The task of the last connection.
    last: Mutex<Option<JoinHandle<()>>>,
    phase: watch::Sender<ServerPhase>,
}

impl Inside {
    fn new(limits: GatewayLimits) -> Self {
        let (phase, seen) = watch::channel(ServerPhase::Serving);
        let factory = Arc::new(TestClientFactory::default());
        let address = "127.0.0.1:1".parse().unwrap();
        let options = HttpOptions { limits, ..HttpOptions::new(address) };
        let authenticator = Authenticator::new(Tokens::default(), Tokens::default(), Principal::anybody());
        let state = Arc::new(HttpState {
            parts: ServerParts::new(address, AllowedHosts::default(), None, authenticator, options),
            client_factory: factory.clone(),
            pages: Arc::new(TestPages),
            spin_wait: Arc::new(SpinWait::for_requests()),
            phase: seen,
        });
        Inside { desk: state, house: factory, last: Mutex::default(), phase }
    }

    /// Opens a connection whose pipe holds this many bytes.
    fn connect(&self, holds: usize) -> Wire<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(holds);
        let local: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let timer = ConnectionTimer::new(&self.desk.rules().limits.timeouts);
        let entered = self.desk.parts.connections.admit(local.ip(), timer.clone()).unwrap();
        let at = ConnectionInfo { peer: local, local, tls: false };
        let task = tokio::spawn(connection::run(self.desk.clone(), entered, timer, theirs, at));
        *self.last.lock().unwrap() = Some(task);
        Wire::new(ours)
    }

    /// Waits until the server has closed the last connection.
    async fn ended(&self) {
        let task = self.last.lock().unwrap().take().expect("a connection");
        timeout(100 * LONG, task).await.expect("the connection ends").unwrap();
    }
}

/// A request to send.
#[derive(Clone)]
struct Ask {
    line: &'static str,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Ask {
    fn new(line: &'static str) -> Self {
        Ask { line, headers: vec![("Host", "localhost".to_owned())], body: String::new() }
    }

    /// Creates a POST of a message of the initialize era.
    fn post(body: impl Into<String>) -> Self {
        let ask = Ask::new("POST /mcp").with("Accept", "application/json, text/event-stream");
        Ask { body: body.into(), ..ask.with("Content-Type", "application/json") }
    }

    /// Creates a POST of a 2026-07-28 request with this method.
    fn modern(method: &str) -> Self {
        Ask::post(modern(method)).with("MCP-Protocol-Version", "2026-07-28")
    }

    fn get(session: &str) -> Self {
        Ask::new("GET /mcp").with("Accept", "text/event-stream").session(session)
    }

    fn session(self, id: &str) -> Self {
        self.with("Mcp-Session-Id", id)
    }

    /// Sets a header; an empty value removes it.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.headers.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            self.headers.push((name, value));
        }
        self
    }
}

impl From<&Ask> for Ask {
    fn from(ask: &Ask) -> Self {
        ask.clone()
    }
}

fn modern(method: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
    )
}

fn legacy(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#)
}

/// Returns the id of an event of a standalone stream.
fn standalone(factory: &TestClientFactory, stream: u64, event: u64) -> String {
    StreamId::new(factory.replica().id, stream, None).event(event).to_string()
}

/// Returns the id of an event of the response to request 1.
fn of_request(factory: &TestClientFactory, stream: u64, event: u64) -> String {
    StreamId::new(factory.replica().id, stream, Some("1")).event(event).to_string()
}

/// Returns the tokens of two principals.
fn tokens() -> Tokens {
    let pair = |name: &str| (format!("{name}-s3cret"), Principal { name: name.to_owned(), admin: false });
    Tokens::new([pair("ann"), pair("bob")]).unwrap()
}

/// Opens a session and returns its id.
async fn open<T: wire::Pipe>(wire: &mut Wire<T>) -> String {
    let reply = wire.ask(Ask::post(legacy("initialize"))).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.header("mcp-session-id").expect("a session").to_owned()
}
