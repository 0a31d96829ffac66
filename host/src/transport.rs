//! How messages reach a server and how its messages reach us: one trait, four kinds.

#[cfg(feature = "oauth")]
pub(crate) mod auth_server;
pub mod authorize;
pub mod endpoint;
mod events;
pub mod operator_client;
mod sse;
mod stdio;
mod streamable;
pub mod summarize;
#[cfg(test)]
mod waiting;
mod web;
mod websocket;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::failure::RequestError;
use crate::rpc::Message;
use endpoint::Endpoint;

/// The id of a request of ours; each connection counts its own.
pub type RequestId = u64;

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One connection to a server. Dropping it ends it at once; `close` ends it in good manners.
pub trait Transport: Send + Sync + 'static {
    /// Hands one message to the server.
    ///
    /// Dropping the future leaves the connection whole: a message is written wholly or not at all. Where each message
    /// has an exchange of its own (Streamable HTTP), dropping it closes that exchange.
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>>;

    /// The handshake is over. A transport that has a stream for what servers send unasked opens it now.
    fn established(&self, _stream: ServerStream) {}

    /// Ends the connection in good manners, within a limit of its own; to call it twice is to call it once.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// The process id of the server, where it is a process of ours.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// The last lines that the server wrote to its standard error, where it has one.
    fn stderr_tail(&self) -> String {
        String::new()
    }
}

/// A message for a server.
#[derive(Debug)]
pub struct Outgoing {
    /// The JSON text, on one line.
    pub text: String,
    /// The request that this is; `None` for notifications and for answers.
    pub request: Option<RequestId>,
    /// Headers that MCP wants beside it on Streamable HTTP; the other transports have no place for them.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// It may reach the server twice without harm. A transport may send it again where a connection is lost, and must
    /// not send anything else again.
    pub repeatable: bool,
}

/// What became of a message that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It was written; what belongs to it comes by itself.
    Written,
    /// Its exchange is over: all that belongs to it has been received.
    Exchanged,
}

/// Whether the server may send messages of its own on a stream of their own.
#[derive(Debug, Clone)]
pub enum ServerStream {
    /// It may (the initialize era); these headers go with the request that opens the stream.
    Open(Vec<(http::HeaderName, http::HeaderValue)>),
    /// There is none (2026-07-28).
    None,
}

/// Takes what a server sends; neither method blocks.
pub trait Receive: Send + Sync + 'static {
    /// Takes one message or batch; a JSON text becomes one with `into()`. `exchange` is the request in whose exchange it came,
    /// if there is one.
    fn receive(&self, message: Message, exchange: Option<RequestId>);

    /// The connection is over and nothing more will come. Called once, also after `close`.
    fn closed(&self, why: RequestError);
}

/// Opens connections to one server in a way of the embedder's own.
pub trait Connect: Send + Sync + 'static {
    /// Opens a connection; what the server sends on it goes to the receiver.
    fn connect(&self, receiver: Arc<dyn Receive>) -> BoxFuture<'_, Result<Arc<dyn Transport>, RequestError>>;
}

/// Opens a connection to where the endpoint says.
pub async fn open(endpoint: &Endpoint, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    match endpoint {
        Endpoint::Stdio(program) => stdio::open(program, receiver).await,
        Endpoint::Http(site) => streamable::open(site, receiver).await,
        Endpoint::Sse(site) => sse::open(site, receiver).await,
        Endpoint::WebSocket(site) => websocket::open(site, receiver).await,
        Endpoint::Custom(own) => own.connect(receiver).await,
    }
}
