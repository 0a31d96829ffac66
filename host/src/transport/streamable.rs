//! Streamable HTTP: each message is its own POST request, and the answer comes in the response body.

pub(super) mod answer;
mod exchange;
mod listen;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::sync::OnceCell;
use tracing::debug;

use super::connection::{BoxFuture, Delivery, Outgoing, Receive, ServerStream, Transport};
use super::connection_tasks::ConnectionTasks;
use crate::failure::{Failure, RequestError};
use crate::lock::lock;
use crate::rpc;
use crate::web::body::{self, BodyKind};
use crate::web::site::RemoteSite;
use crate::web::{HttpVersion, WebClient, WebRequest};
use shared::{HttpShared, SESSION, with_extra};

/// Prepares the client; the first message opens the connection.
pub(super) async fn open(site: &RemoteSite, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    let web = WebClient::open(site, HttpVersion::Any).await?;
    let shared = Arc::new(HttpShared::new(web, receiver));
    Ok(Arc::new(Streamable { shared, tasks: ConnectionTasks::default(), closing: OnceCell::new() }))
}

struct Streamable {
    shared: Arc<HttpShared>,
    /// The tasks that read the server's own stream and the rest of answers.
    tasks: ConnectionTasks,
    closing: OnceCell<()>,
}

impl Streamable {
    async fn post(&self, message: Outgoing) -> Result<Delivery, RequestError> {
        let shared = &*self.shared;
        shared.receiver.check_open()?;
        let session = lock(&shared.state).session.is_some();
        let headers = || with_extra(lock(&shared.state).post.clone(), &message.headers);
        let (body, repeatable) = (Bytes::from(message.text), message.repeatable);
        let request = WebRequest::new(Method::POST, shared.web.address(), &headers);
        let response = shared.web.send(WebRequest { body, repeatable, ..request }).await?;
        if !response.status().is_success() {
            let error = answer::read_error(response, session, &shared.web).await;
            return error.deliver(message.request, &shared.receiver);
        }
        // Sessions belong to the initialize era: an id from the answer to a modern request must not be used in the
        // handshake.
        if !message.headers.iter().any(|(name, _)| *name == rpc::header::METHOD) {
            shared.remember_session(&response);
        }
        let Some(id) = message.request else {
            self.tasks.finish_or_spawn(body::drain(response));
            return Ok(Delivery::Exchanged);
        };
        body::check_encoding(&response)?;
        match body::body_kind(&response) {
            BodyKind::Events => {
                let left = exchange::follow(shared, response, id, message.headers).await?;
                self.tasks.finish_or_spawn(left.drain(self.shared.clone()));
                Ok(Delivery::Exchanged)
            }
            content => shared.whole(response, content, id).await,
        }
    }

    async fn end_session(&self) {
        self.tasks.shutdown().await;
        self.shared.receiver.close(Failure::Closed);
        let (session, extra) = {
            let mut state = lock(&self.shared.state);
            (state.session.take(), std::mem::take(&mut state.stream))
        };
        let Some(session) = session else { return };
        let web = &self.shared.web;
        let headers = || {
            let mut headers = with_extra(web.headers().clone(), &extra);
            headers.insert(SESSION, session.clone());
            headers
        };
        let request = WebRequest::new(Method::DELETE, web.address(), &headers);
        match tokio::time::timeout(GOODBYE, web.send(request)).await {
            Ok(Ok(response)) => debug!(status = response.status().as_u16(), "the session was ended"),
            // The server will expire it.
            Ok(Err(error)) => debug!(%error, "the session could not be ended"),
            Err(_) => debug!("the session could not be ended in time"),
        }
    }
}

impl Transport for Streamable {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        Box::pin(self.post(message))
    }

    fn established(&self, stream: ServerStream) {
        let mut state = lock(&self.shared.state);
        match stream {
            ServerStream::None => state.resumable = false,
            ServerStream::Open(headers) => {
                state.stream.clone_from(&headers);
                drop(state);
                if self.shared.receiver.check_open().is_ok() {
                    let task = self.tasks.spawn(listen::run(self.shared.clone(), headers));
                    // One stream is enough, even if the handshake completes several times.
                    if let Some(earlier) = lock(&self.shared.state).listener.replace(task) {
                        earlier.abort();
                    }
                }
            }
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closing.get_or_init(|| self.end_session()).await;
        })
    }
}

const GOODBYE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
