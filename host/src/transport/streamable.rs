//! Streamable HTTP: each message is its own POST request, and the answer comes in the response body.

pub(super) mod answer;
mod exchange;
mod listen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::Response;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tracing::debug;

use super::endpoint::RemoteSite;
use super::web::body::{self, BodyKind};
use super::web::connection_tasks::ConnectionTasks;
use super::web::receiver::ClosableReceiver;
use super::web::{self, HttpVersion, WebClient, WebRequest};
use super::{BoxFuture, Delivery, Outgoing, Receive, RequestId, ServerStream, Transport};
use crate::failure::{Failure, RequestError};
use crate::rpc;

/// Prepares the client; the first message opens the connection.
pub(super) async fn open(site: &RemoteSite, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    let web = WebClient::open(site, HttpVersion::Any).await?;
    Ok(Arc::new(Streamable::new(web, receiver)))
}

struct Streamable {
    shared: Arc<HttpShared>,
    /// The tasks that read the server's own stream and the rest of answers.
    tasks: ConnectionTasks,
    closing: OnceCell<()>,
}

/// The state shared with the tasks.
struct HttpShared {
    web: WebClient,
    receiver: ClosableReceiver,
    state: Mutex<State>,
}

struct State {
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

impl Streamable {
    fn new(web: WebClient, receiver: Arc<dyn Receive>) -> Self {
        let mut post = web.headers().clone();
        post.insert(header::CONTENT_TYPE, JSON);
        post.insert(header::ACCEPT, JSON_OR_EVENTS);
        let state = Mutex::new(State { post, session: None, stream: Vec::new(), listener: None, resumable: true });
        let shared = Arc::new(HttpShared { web, receiver: ClosableReceiver::new(receiver), state });
        Streamable { shared, tasks: ConnectionTasks::default(), closing: OnceCell::new() }
    }

    async fn post(&self, message: Outgoing) -> Result<Delivery, RequestError> {
        let link = &*self.shared;
        link.receiver.check_open()?;
        let session = lock(&link.state).session.is_some();
        let headers = || with_extra(lock(&link.state).post.clone(), &message.headers);
        let url = link.web.address().clone();
        let (body, repeatable) = (Bytes::from(message.text), message.repeatable);
        let ask = WebRequest { method: Method::POST, url, headers: &headers, body, repeatable };
        let response = link.web.send(ask).await?;
        // Sessions belong to the initialize era: an id from the answer to a modern request must not be used in the
        // handshake.
        let modern = message.headers.iter().any(|(name, _)| *name == rpc::header::METHOD);
        if response.status().is_success() && !modern {
            link.remember_session(&response);
        }
        let Some(id) = message.request else {
            if !response.status().is_success() {
                return Err(RequestError::sent(Failure::Http(
                    answer::read_error(response, session, &link.web).await.error,
                )));
            }
            self.tasks.finish_or_spawn(body::drain(response));
            return Ok(Delivery::Exchanged);
        };
        if !response.status().is_success() {
            return link.receive_error(response, id, session).await;
        }
        body::check_encoding(&response)?;
        match body::body_kind(&response) {
            BodyKind::Events => {
                let left = exchange::follow(link, response, id, message.headers).await?;
                self.tasks.finish_or_spawn(left.drain(self.shared.clone()));
                Ok(Delivery::Exchanged)
            }
            content => link.whole(response, content, id).await,
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
        let (url, body) = (web.address().clone(), Bytes::new());
        let ask = WebRequest { method: Method::DELETE, url, headers: &headers, body, repeatable: true };
        match tokio::time::timeout(GOODBYE, web.send(ask)).await {
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

impl HttpShared {
    fn remember_session(&self, response: &Response) {
        let Some(id) = response.headers().get(SESSION) else { return };
        // A session id from another origin is useless, because it would not be sent there.
        if !web::address::same_origin(response.url(), self.web.address()) {
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
        let (url, body) = (self.web.address().clone(), Bytes::new());
        let ask = WebRequest { method: Method::GET, url, headers: &headers, body, repeatable: true };
        self.web.send(ask).await
    }

    /// Handles an HTTP error: the answer to this request, or an error of the whole session.
    async fn receive_error(&self, response: Response, id: RequestId, session: bool) -> Result<Delivery, RequestError> {
        let refusal = answer::read_error(response, session, &self.web).await;
        let message = refusal.answer_to(id).map_err(|error| RequestError::sent(Failure::Http(error)))?;
        self.receiver.receive(message, Some(id));
        Ok(Delivery::Exchanged)
    }

    /// Handles an answer that is not a stream.
    async fn whole(&self, mut response: Response, content: BodyKind, id: RequestId) -> Result<Delivery, RequestError> {
        if let BodyKind::Other(kind) = content {
            let start = self.web.beginning(&mut response).await;
            let how = format!("answered with content type {kind}: {}", body::excerpt(&start));
            return Err(RequestError::sent(Failure::Protocol(how)));
        }
        let status = response.status();
        let text = body::text(response, self.web.max_message_bytes()).await?;
        let is_json = content == BodyKind::Json || text.trim_start().starts_with(['{', '[']);
        if !is_json || text.trim_ascii().is_empty() {
            let start = self.web.redact(text);
            let how = format!("answered with HTTP status {} and {}", status.as_u16(), body::excerpt(&start));
            return Err(RequestError::sent(Failure::Protocol(how)));
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

/// Locks a mutex; the state is always consistent, so a panic elsewhere cannot corrupt it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const GOODBYE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
