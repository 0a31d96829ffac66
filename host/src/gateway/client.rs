//! The interface between the gateway's listeners (standard input and output, HTTP) and its client sessions.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::choice::Choice;
use crate::failure::RpcError;
use crate::gate::{GateError, LOCAL};
use crate::rpc::{self, Message};
use crate::transport::BoxFuture;

/// The identity of a client, from its token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The name, used in logs and rules.
    pub name: String,
    /// Whether it may see and change the state of the gateway.
    pub admin: bool,
}

impl Principal {
    /// Returns the principal of standard input and output and of the socket: the user who runs the gateway.
    pub fn local() -> Self {
        Principal { name: LOCAL.to_owned(), admin: true }
    }

    /// Returns the principal of HTTP clients if no tokens are configured: any local program, which may look and call
    /// tools.
    pub fn anybody() -> Self {
        Principal { name: LOCAL.to_owned(), admin: false }
    }
}

/// A channel to a client for messages other than responses: progress, logs, questions.
pub trait ClientSink: Send + Sync + 'static {
    /// Sends one JSON-RPC message if there is room for it.
    fn send(&self, text: String) -> Result<(), SinkError>;

    /// Waits until there may be room again. Room that becomes free after this call is not missed.
    fn wait_for_room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkError {
    /// There is no room now; contains the message.
    Full(String),
    /// The client is gone.
    Closed,
}

impl dyn ClientSink + '_ {
    /// Sends a message, or drops it if there is no room.
    pub(super) fn send_or_drop(&self, text: String) {
        // A client that does not read misses it.
        let _ = self.send(text);
    }

    /// Sends a message as soon as there is room; returns false if the client is gone.
    pub(super) async fn deliver(&self, mut text: String) -> bool {
        loop {
            let room = self.wait_for_room();
            text = match self.send(text) {
                Ok(()) => return true,
                Err(SinkError::Closed) => return false,
                Err(SinkError::Full(text)) => text,
            };
            // Not every sink reports room.
            let _ = tokio::time::timeout(PATIENCE, room).await;
        }
    }
}

/// How long to wait for room before sending is tried again.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A message from a client, with its context.
pub struct ClientMessage {
    /// The message.
    pub message: Message,
    /// The MCP headers; `None` on standard input.
    pub headers: Option<McpHeaders>,
    /// Sends the client messages that belong to this one.
    pub sink: Arc<dyn ClientSink>,
    /// Admits the messages of a batch; without it a batch is refused.
    pub batch: Option<Admission>,
}

/// Admits the messages of a batch one by one, so that each counts against every limit as if it were sent alone.
///
/// It says of the next message whether it expects a response, and its id. The message counts until the guard is dropped.
/// If it exceeds a limit, the error is the response to it.
pub type Admission = Box<dyn Fn(bool, Option<&str>) -> Result<AdmissionGuard, String> + Send + Sync>;

/// Counts one message against the limits until it is dropped.
pub type AdmissionGuard = Box<dyn Any + Send>;

/// The MCP headers of an HTTP request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpHeaders {
    /// `MCP-Protocol-Version`.
    pub version: Option<String>,
    /// `Mcp-Method`.
    pub method: Option<String>,
    /// `Mcp-Name`, decoded.
    pub name: Option<String>,
    /// The `Mcp-Param-…` headers: names in lower case, values as received.
    pub params: Vec<(String, String)>,
    /// `Toolgate-Selection`: the client's choice of servers and tools.
    pub selection: Option<String>,
}

/// The response to a message.
pub struct GatewayResponse {
    /// The JSON text.
    pub text: String,
    /// Its HTTP status.
    pub status: u16,
    /// Whether it is a JSON-RPC error.
    pub is_error: bool,
}

impl GatewayResponse {
    /// Returns a response that is not an error.
    pub fn ok(text: String) -> Self {
        GatewayResponse { text, status: 200, is_error: false }
    }

    /// Returns an error response.
    pub fn error(id: Option<&str>, error: &RpcError, status: u16) -> Self {
        GatewayResponse { text: rpc::error(id, error), status, is_error: true }
    }
}

/// The work of a client handler on one message.
pub type ResponseFuture = BoxFuture<'static, Option<GatewayResponse>>;

/// Handles the messages of one client.
pub trait ClientHandler: Send + Sync + 'static {
    /// Handles a message (a request, notification, response or batch) and returns the response, if it gets one.
    /// Dropping the future cancels the request.
    fn handle(self: Arc<Self>, message: ClientMessage) -> ResponseFuture;

    /// Ends subscriptions, which have no end of their own, because the listener is about to close.
    fn end_subscriptions(&self);

    /// Cancels all running requests; each gets a response that says so.
    fn cancel(&self);

    /// Closes the session after the client has disconnected.
    fn close(self: Arc<Self>) -> BoxFuture<'static, ()>;
}

/// Opens client sessions.
pub trait ClientFactory: Send + Sync + 'static {
    /// Opens a session for a client of the initialize era; `sink` carries what the gateway sends on its own.
    fn open_client(
        &self,
        principal: &Principal,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError>;

    /// Returns the handler that all clients of 2026-07-28 with this principal and this choice share; they have no
    /// session.
    fn stateless_client(
        &self,
        principal: &Principal,
        choice: Option<Choice>,
    ) -> Result<Arc<dyn ClientHandler>, GateError>;

    /// Returns the existing handlers of clients of 2026-07-28.
    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>>;
}

/// The error for a batch in a version that has none.
pub(super) const NO_BATCH: &str =
    "batches are only allowed in sessions of 2025-03-26 and earlier: send each message on its own";
/// The member of `_meta` with the protocol version of a message of 2026-07-28.
pub(super) const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";
