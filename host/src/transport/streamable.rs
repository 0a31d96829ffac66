//! Streamable HTTP: each message is its own POST request, and the answer comes in the response body.

pub(super) mod answer;
mod exchange;
mod listen;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::Response;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tracing::debug;

use super::connection::{BoxFuture, Delivery, Outgoing, Receive, RequestId, ServerStream, Transport};
use super::receiver::{ClosableReceiver, ConnectionTasks};
use crate::failure::{Failure, RequestError};
use crate::lock::lock;
use crate::rpc;
use crate::web::address::same_origin;
use crate::web::body::{self, BodyKind};
use crate::web::errors::protocol_error;
use crate::web::site::RemoteSite;
use crate::web::{HttpVersion, WebClient, WebRequest};

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

/// The state shared with the tasks.
struct HttpShared {
    web: WebClient,
    receiver: ClosableReceiver,
    state: Mutex<StreamableState>,
}

/// What a connection knows of its session.
struct StreamableState {
    /// The headers of every POST, including the session id once there is one.
    post: HeaderMap,
    session: Option<HeaderValue>,
    /// The headers of the server's own stream; also used to end the session.
    stream: ExtraHeaders,
    listener: Option<AbortHandle>,
    /// Whether a broken stream may be resumed (the initialize era).
    resumable: bool,
}

/// The headers of a message.
type ExtraHeaders = Vec<(HeaderName, HeaderValue)>;

impl HttpShared {
    fn new(web: WebClient, receiver: Arc<dyn Receive>) -> Self {
        let mut post = web.headers().clone();
        post.insert(header::CONTENT_TYPE, JSON);
        post.insert(header::ACCEPT, JSON_OR_EVENTS);
        let state = StreamableState { post, session: None, stream: Vec::new(), listener: None, resumable: true };
        HttpShared { web, receiver: ClosableReceiver::new(receiver), state: Mutex::new(state) }
    }

    fn remember_session(&self, response: &Response) {
        let Some(id) = response.headers().get(SESSION) else { return };
        // A session id from another origin is useless, because it would not be sent there.
        if !same_origin(response.url(), self.web.address()) {
            return;
        }
        let mut state = lock(&self.state);
        if state.session.is_none() {
            let mut id = id.clone();
            id.set_sensitive(true);
            state.post.insert(SESSION, id.clone());
            state.session = Some(id);
        }
    }

    /// Opens an event stream: the server's own, or the rest of a broken answer.
    async fn get(&self, extra: &ExtraHeaders, after: Option<&str>) -> Result<Response, RequestError> {
        let headers = || {
            let mut headers = with_extra(self.web.headers().clone(), extra);
            headers.insert(header::ACCEPT, EVENTS);
            if let Some(session) = &lock(&self.state).session {
                headers.insert(SESSION, session.clone());
            }
            if let Some(id) = after.and_then(|id| HeaderValue::try_from(id).ok()) {
                headers.insert(LAST_EVENT_ID, id);
            }
            headers
        };
        self.web.send(WebRequest::new(Method::GET, self.web.address(), &headers)).await
    }

    /// Handles an answer that is not a stream.
    async fn whole(&self, response: Response, content: BodyKind, id: RequestId) -> Result<Delivery, RequestError> {
        if let BodyKind::Other(kind) = content {
            return Err(self.web.unexpected_kind(&kind, response).await);
        }
        let status = response.status();
        let text = body::text(response, self.web.max_message_bytes()).await?;
        let is_json = content == BodyKind::Json || text.trim_start().starts_with(['{', '[']);
        if !is_json || text.trim_ascii().is_empty() {
            let start = body::excerpt(&self.web.redact(&text));
            return Err(protocol_error(format!("answered with HTTP status {} and {start}", status.as_u16())));
        }
        self.receiver.receive(text.into(), Some(id));
        Ok(Delivery::Exchanged)
    }
}

/// Adds the headers of a message; they replace the configured ones, but not the protocol's own.
fn with_extra(mut headers: HeaderMap, extra: &ExtraHeaders) -> HeaderMap {
    for (name, value) in extra {
        if *name != header::ACCEPT && *name != header::CONTENT_TYPE && *name != SESSION {
            headers.insert(name.clone(), value.clone());
        }
    }
    headers
}

const GOODBYE: Duration = Duration::from_secs(2);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[cfg(test)]
mod tests;
