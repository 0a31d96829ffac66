//! The interface between the gateway's listeners (standard input and output, HTTP) and its client sessions.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::choice::Choice;
use super::replica::Replica;
use super::sealing_keys::random;
use super::session_terms::SessionTerms;
use crate::failure::RpcError;
use crate::gate::{GateError, LOCAL};
use crate::rpc::{self, Message};
use crate::sha256::hex;
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

    /// Waits until the client is gone, as far as that can be known.
    fn closed(&self) -> BoxFuture<'_, ()> {
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
pub type Admission = Box<dyn for<'m> Fn(bool, Option<&'m str>) -> Admitted<'m> + Send + Sync>;

/// Waits until one message of a batch is admitted or refused.
pub type Admitted<'m> = BoxFuture<'m, Result<AdmissionGuard, String>>;

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

    /// Ends all running requests because the gateway stops; each gets a response that says so, and that a tool may have
    /// run.
    fn cancel(&self);

    /// Closes the session after the client has disconnected.
    fn close(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Returns what `initialize` fixed; `None` if it has not succeeded.
    fn terms(&self) -> Option<SessionTerms>;

    /// Reports whether the session has something that is lost when it leaves the memory of this process.
    fn holds_state(&self) -> bool;

    /// Takes over what the client has changed through other replicas since `initialize`.
    fn sync_changes(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Tells the client that it may have missed notifications of changes.
    fn announce_missed(&self);
}

/// Opens client sessions.
pub trait ClientFactory: Send + Sync + 'static {
    /// Opens a session with this name for a client of the initialize era; `sink` carries what the gateway sends on its
    /// own.
    fn open_client(
        &self,
        principal: &Principal,
        session: &str,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError>;

    /// Opens a session that has been initialized before, by this replica or another.
    fn resume_client(
        &self,
        principal: &Principal,
        session: &str,
        terms: &SessionTerms,
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

    /// Returns what tells this replica of the gateway apart, and what it shares with others.
    fn replica(&self) -> &Arc<Replica>;
}

/// Draws the name of a session: 32 hexadecimal digits; `None` if there are no random numbers.
pub(super) fn draw_session_name() -> Option<String> {
    random::<16>().map(|bytes| hex(&bytes))
}

/// The error for a batch in a version that has none.
pub(super) const NO_BATCH: &str =
    "batches are only allowed in sessions of 2025-03-26 and earlier: send each message on its own";
/// The member of `_meta` with the protocol version of a message of 2026-07-28.
pub(super) const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";
