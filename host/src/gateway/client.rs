//! Where the doors of the gateway (standard input and output, HTTP) meet what is behind them.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::RpcError;
use crate::gate::{GateError, LOCAL};
use crate::rpc::{self, Message};
use crate::transport::BoxFuture;

/// Who a client is, by the token that it showed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The name, for logs and for rules.
    pub name: String,
    /// It may see and change how the gateway itself is.
    pub admin: bool,
}

impl Principal {
    /// Who comes over standard input and output or through the socket: the user who runs the gateway.
    pub fn local() -> Self {
        Principal { name: LOCAL.to_owned(), admin: true }
    }

    /// Who shows no token where none is asked for: any program of this machine, which may look and call tools.
    pub fn anybody() -> Self {
        Principal { name: LOCAL.to_owned(), admin: false }
    }
}

/// A way to a client, for messages beside the answer to a request: progress, logs, questions.
pub trait ClientSink: Send + Sync + 'static {
    /// Sends one JSON-RPC message, where there is room for it.
    fn send(&self, text: String) -> Result<(), SinkError>;

    /// Waits until there may be room again; what happens after this is called is not missed.
    fn wait_for_room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkError {
    /// There is no room for it now; this is the message.
    Full(String),
    /// It cannot arrive any more.
    Closed,
}

impl dyn ClientSink + '_ {
    /// Sends what may be lost.
    pub(super) fn send_or_drop(&self, text: String) {
        // Who does not read on misses it.
        let _ = self.send(text);
    }

    /// Sends a message as soon as there is room for it; false where it cannot arrive any more.
    pub(super) async fn deliver(&self, mut text: String) -> bool {
        loop {
            let room = self.wait_for_room();
            text = match self.send(text) {
                Ok(()) => return true,
                Err(SinkError::Closed) => return false,
                Err(SinkError::Full(text)) => text,
            };
            // There may be room that nobody tells of.
            let _ = tokio::time::timeout(PATIENCE, room).await;
        }
    }
}

/// How long is waited for room before a message is tried again.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A message of a client, and what comes with it.
pub struct ClientMessage {
    /// The message.
    pub message: Message,
    /// The headers of MCP; `None` on standard input.
    pub headers: Option<McpHeaders>,
    /// Takes messages to the client that belong to this one.
    pub sink: Arc<dyn ClientSink>,
    /// Admits the messages of a batch; without it a batch is refused.
    pub batch: Option<Box<dyn Admission>>,
}

/// Lets the messages of a batch in one by one, so that each counts against every bound as if it had come alone.
pub trait Admission: Send + Sync + 'static {
    /// Lets the next message in, which counts until the place is dropped. Says what the message is, by whether it asks for an
    /// answer and by its id; one that is over a bound gets the answer that this returns as an error.
    fn admit(&self, asks: bool, id: Option<&str>) -> Result<AdmissionGuard, String>;
}

/// The place of one message among those that are counted, which it has until this is dropped.
pub type AdmissionGuard = Box<dyn Any + Send>;

/// What MCP puts into the headers of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpHeaders {
    /// `MCP-Protocol-Version`.
    pub version: Option<String>,
    /// `Mcp-Method`.
    pub method: Option<String>,
    /// `Mcp-Name`, decoded.
    pub name: Option<String>,
    /// The headers `Mcp-Param-…` with their names in small letters, as they came.
    pub params: Vec<(String, String)>,
}

/// The answer to a message.
pub struct GatewayResponse {
    /// The JSON text.
    pub text: String,
    /// The status that it has over HTTP.
    pub status: u16,
    /// It is a JSON-RPC error.
    pub is_error: bool,
    /// What is left to be done, which happens when this is dropped: the client need not wait for it.
    pub deferred: Option<DeferredWork>,
}

/// What does something when it is dropped.
pub type DeferredWork = Box<dyn Any + Send>;

impl GatewayResponse {
    /// Returns a response without deferred work that is not an error.
    pub fn ok(text: String) -> Self {
        GatewayResponse { text, status: 200, is_error: false, deferred: None }
    }

    /// Returns an error response without deferred work.
    pub fn error(id: Option<&str>, error: &RpcError, status: u16) -> Self {
        GatewayResponse { text: rpc::error(id, error), status, is_error: true, deferred: None }
    }
}

/// What is behind the door for one client.
pub trait ClientHandler: Send + Sync + 'static {
    /// Takes a message (a request, a notification, an answer, or a batch) and gives the answer, where it gets one.
    /// Dropping the future cancels the request.
    fn handle(self: Arc<Self>, message: ClientMessage) -> BoxFuture<'static, Option<GatewayResponse>>;

    /// Ends what only waits for news: it has no end of its own, and the door is about to close.
    fn end_subscriptions(&self);

    /// Cancels what is under way: each request gets an answer that says so.
    fn cancel(&self);

    /// The client has gone.
    fn close(self: Arc<Self>) -> BoxFuture<'static, ()>;
}

/// Lets clients in.
pub trait ClientFactory: Send + Sync + 'static {
    /// A client of the initialize era, with a session of its own; `outlet` is for what the gateway sends unasked.
    fn open_client(
        &self,
        principal: &Principal,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError>;

    /// The clients of 2026-07-28 that show the same token; they have no session.
    fn stateless_client(&self, principal: &Principal) -> Result<Arc<dyn ClientHandler>, GateError>;

    /// Those of them that are there.
    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>>;
}

/// Why a batch is refused.
pub(super) const NO_BATCH: &str =
    "a batch is only for sessions of 2025-03-26 and earlier: send each message on its own";
/// The member of `_meta` by which a message of 2026-07-28 names its version.
pub(super) const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";
