//! Transports, which carry messages to and from a server: one trait, four kinds.

mod connection;
pub mod endpoint;
pub(crate) mod events;
mod receiver;
mod sse;
mod stdio;
mod streamable;
#[cfg(test)]
pub(crate) mod waiting;
mod websocket;

use std::sync::Arc;

pub use connection::{BoxFuture, Connect, Delivery, Outgoing, Receive, RequestId, ServerStream, Transport};

use crate::failure::RequestError;
pub use crate::web::authorize;
use endpoint::Endpoint;

/// Opens a connection to an endpoint.
pub async fn open(endpoint: &Endpoint, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    match endpoint {
        Endpoint::Stdio(program) => stdio::open(program, receiver).await,
        Endpoint::Http(site) => streamable::open(site, receiver).await,
        Endpoint::Sse(site) => sse::open(site, receiver).await,
        Endpoint::WebSocket(site) => websocket::open(site, receiver).await,
        Endpoint::Custom(own) => own.connect(receiver).await,
    }
}
