//! A connection to a server, and the messages that it carries.

use std::sync::Arc;

pub use futures_util::future::BoxFuture;

use crate::failure::RequestError;
use crate::rpc::Message;

/// The id of one of our requests; each connection has its own count.
pub type RequestId = u64;

/// One connection to a server. Dropping it cuts it off; `close` ends it in an orderly way.
pub trait Transport: Send + Sync + 'static {
    /// Sends one message to the server.
    ///
    /// Dropping the future does not damage the connection: a message is written completely or not at all. If each
    /// message has its own exchange (Streamable HTTP), dropping the future closes that exchange.
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>>;

    /// Called after the handshake; a transport with a stream for server-initiated messages opens it now.
    fn established(&self, _stream: ServerStream) {}

    /// Ends the connection in an orderly way, within its own limit; calling it twice has no further effect.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Returns the server's process id, if it is a local process.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Returns the last lines of the server's standard error, if it has one.
    fn stderr_tail(&self) -> String {
        String::new()
    }
}

/// A message for a server.
#[derive(Debug)]
pub struct Outgoing {
    /// The JSON text, on one line.
    pub text: String,
    /// The id if this is a request; `None` for notifications and responses.
    pub request: Option<RequestId>,
    /// Headers for Streamable HTTP; other transports ignore them.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// Whether it may reach the server twice without harm. After a lost connection, a transport may repeat such a
    /// message, and no other.
    pub repeatable: bool,
}

/// The outcome of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It was written; responses come separately.
    Written,
    /// Its exchange is over: all that belongs to it has been received.
    Exchanged,
}

/// Whether the server may send messages of its own on a separate stream.
#[derive(Debug, Clone)]
pub enum ServerStream {
    /// It may (the initialize era); these headers go with the request that opens the stream.
    Open(Vec<(http::HeaderName, http::HeaderValue)>),
    /// There is none (2026-07-28).
    None,
}

/// Receives what a server sends; no method blocks.
pub trait Receive: Send + Sync + 'static {
    /// Receives one message or one batch as JSON text; `exchange` is the request whose exchange it came in, if any.
    fn receive(&self, message: Message, exchange: Option<RequestId>);

    /// Called once when the connection is over, also after `close`.
    fn closed(&self, why: RequestError);

    /// Receives a line that the server wrote to its standard error, if it has one; nothing is removed from it yet.
    fn wrote_to_stderr(&self, _line: &[u8]) {}
}

/// The embedder's own way to connect to a server.
pub trait Connect: Send + Sync + 'static {
    /// Opens a connection whose incoming messages go to the receiver.
    fn connect(&self, receiver: Arc<dyn Receive>) -> BoxFuture<'_, Result<Arc<dyn Transport>, RequestError>>;
}
