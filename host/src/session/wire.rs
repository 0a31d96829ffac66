//! JSON-RPC on one connection: matches requests with their answers, or with failures.

mod credential_filter;
mod inbox;
mod pending;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use pending::RequestClock;
pub use pending::{OnProgress, Progress, RequestTimeouts};

use super::handler::Handler;
use super::listing::ListCache;
use super::message_log::MessageLog;
use super::{Era, ServerEvent};
use crate::config::secrets::Secrets;
use crate::failure::{Failure, RequestError};
use crate::rpc::{self, Reply, TOO_DEEP};
use crate::transport::endpoint::Endpoint;
use crate::transport::{self, Delivery, Outgoing, RequestId, ServerStream, Transport};
use credential_filter::CredentialFilter;
use inbox::{HandshakeResult, Inbox};

/// Receives a line that a server wrote to its standard error.
pub type OnStderr = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A connection on which requests are matched with their answers.
pub(super) struct Wire {
    inbox: Arc<Inbox>,
    transport: Arc<dyn Transport>,
    next_id: AtomicU64,
    /// Whether this is HTTP, where closing a stream cancels a request (2026-07-28); elsewhere it takes a notification.
    web: bool,
    filter: Arc<CredentialFilter>,
    /// Whether the gate itself closes the connection.
    closing: AtomicBool,
}

/// A request to a server.
pub(super) struct WireRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// Builds the JSON object of its parameters from the id of the request (which is also its progress token).
    pub params: &'a (dyn Fn(RequestId) -> String + Sync),
    /// The MCP headers for HTTP.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// How long to wait.
    pub timeouts: RequestTimeouts,
    /// Receives progress notifications.
    pub progress: Option<OnProgress>,
    /// Answers the server's questions on the stream of this request, in place of the connection's handler.
    pub handler: Option<Arc<dyn Handler>>,
    /// Whether the server is told when the caller gives up; a handshake is never cancelled.
    pub cancellable: bool,
}

impl Wire {
    /// Connects to the endpoint. Nothing that it returns contains a credential of `secrets` or of the endpoint.
    pub(super) async fn open(
        endpoint: &Endpoint,
        handler: Arc<dyn Handler>,
        secrets: &Arc<Mutex<Secrets>>,
        log: MessageLog,
        on_stderr: Option<OnStderr>,
    ) -> Result<Wire, RequestError> {
        let filter = Arc::new(CredentialFilter::new(endpoint, Arc::clone(secrets)));
        let web = matches!(endpoint, Endpoint::Http(_));
        let mut inbox = Inbox::new(handler, Arc::clone(&filter), log, web);
        inbox.on_stderr = on_stderr;
        let inbox = Arc::new(inbox);
        let opened = transport::open(endpoint, Arc::clone(&inbox) as _).await;
        let transport = opened.map_err(|failed| filter.failed(failed))?;
        inbox.attach(&transport);
        let (next_id, closing) = (AtomicU64::new(1), AtomicBool::new(false));
        if let Endpoint::Stdio(_) = endpoint {
            // A process on the same machine may answer at once.
            let spin_wait = inbox.pending.spin_wait();
            inbox.spawn(async move { match spin_wait.run().await {} });
        }
        Ok(Wire { inbox, transport, next_id, web, filter, closing })
    }

    /// Sends a request and waits for its answer. Dropping the future gives up the request and notifies the server.
    pub(super) async fn request(&self, ask: WireRequest<'_>) -> Result<Reply, RequestError> {
        let WireRequest { method, params, headers, timeouts, progress, handler, cancellable } = ask;
        let limit = timeouts.idle.min(timeouts.total);
        if limit.is_zero() {
            return Err(RequestError::unsent(Failure::Timeout { method: method.to_owned(), after: limit }));
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let time = RequestClock { started, timeouts, last_progress: None };
        let mut answer = self.inbox.pending.enter(id, time, progress)?;
        // On a shared stream, a question cannot be attributed to a request.
        let handler = handler.filter(|_| self.web);
        let mut watch = RequestGuard { wire: self, id, cancellable, given_up: true, has_handler: handler.is_some() };
        if let Some(handler) = handler {
            self.inbox.handlers().insert(id, handler);
        }
        let text = rpc::request(id, method, &params(id));
        self.inbox.log_sent(&text);
        let mut send =
            self.transport.send(Outgoing { text, request: Some(id), headers, repeatable: is_repeatable(method) });
        let timer = tokio::time::sleep(limit);
        tokio::pin!(timer);
        let mut sending = true;
        let outcome = loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    watch.given_up = false;
                    // The sender is never dropped unused.
                    break match answer.unwrap_or(Err(RequestError::unsent(Failure::Closed))) {
                        // The connection is closed; only the transport knows whether the request was sent.
                        Err(over) if !over.sent => {
                            let sent = !sending || Box::pin(may_have_arrived(&mut send)).await;
                            Err(RequestError { sent, ..over })
                        }
                        outcome => outcome,
                    };
                }
                sent = &mut send, if sending => {
                    sending = false;
                    match sent {
                        Ok(Delivery::Written) => {}
                        Ok(Delivery::Exchanged) => match answer.try_recv() {
                            Ok(answer) => {
                                watch.given_up = false;
                                // Even if the connection closed at this moment, the exchange is complete.
                                break answer.map_err(|failed| RequestError { sent: true, ..failed });
                            }
                            Err(_) => {
                                watch.cancellable = false;
                                let how = format!("its HTTP response to {method} contains no answer");
                                break Err(RequestError::sent(Failure::Protocol(how)));
                            }
                        },
                        Err(failed) => {
                            watch.cancellable = false;
                            break Err(failed);
                        }
                    }
                }
                () = &mut timer => {
                    let last_progress = self.inbox.pending.last_progress(id);
                    let deadline = RequestClock { started, timeouts, last_progress }.deadline(self.inbox.last_question());
                    if deadline > Instant::now() {
                        timer.as_mut().reset(deadline);
                        continue;
                    }
                    // The server may act on the request, even if it is not fully written yet.
                    break Err(RequestError::sent(Failure::Timeout { method: method.to_owned(), after: deadline - started }));
                }
            }
        };
        match outcome {
            // The component says so of the result of a call.
            Ok(reply) if reply.is_too_deep() && method != "tools/call" => {
                Err(RequestError::sent(Failure::Protocol(format!("the result of {method} is {TOO_DEEP}"))))
            }
            Ok(reply) => Ok(reply),
            Err(failed) => Err(self.filter.failed(self.inbox.pending.explain(failed))),
        }
    }

    /// Returns how many messages the server has sent.
    pub(super) fn messages(&self) -> u64 {
        self.inbox.pending.messages()
    }

    /// Returns until when the server may be silent because it works on a request; `None` if it is idle.
    pub(super) fn busy_until(&self) -> Option<Instant> {
        let end = self.inbox.pending.oldest_request()?.deadline(self.inbox.last_question());
        (end > Instant::now()).then_some(end)
    }

    /// Waits until the server has sent more than `seen` messages, a request is given up, or `until` is reached.
    pub(super) async fn wait_for_change(&self, seen: u64, until: Instant) {
        self.inbox.pending.wait_for_change(seen, until).await;
    }

    /// Sets the reason why the connection is about to be closed, for the errors of its open requests.
    pub(super) fn abandon(&self, why: String) {
        self.inbox.pending.abandon(why);
    }

    /// Sends a notification.
    pub(super) async fn notify(
        &self,
        method: &str,
        params: Option<&str>,
        headers: Vec<(http::HeaderName, http::HeaderValue)>,
    ) -> Result<(), RequestError> {
        let text = rpc::notification(method, params);
        self.inbox.log_sent(&text);
        let send = self.transport.send(Outgoing { text, request: None, headers, repeatable: true });
        match tokio::time::timeout(NOTIFY_LIMIT, send).await {
            Ok(sent) => sent.map(drop).map_err(|failed| self.filter.failed(failed)),
            Err(_) => Err(RequestError::sent(Failure::Timeout { method: method.to_owned(), after: NOTIFY_LIMIT })),
        }
    }

    /// Completes the handshake, which settles the era.
    pub(super) fn complete_handshake(&self, era: Era, headers: Vec<(http::HeaderName, http::HeaderValue)>) {
        let _ = self.inbox.handshake.set(HandshakeResult { era, headers: headers.clone() });
        let stream = match era {
            Era::Legacy => ServerStream::Open(headers),
            Era::Modern => ServerStream::None,
        };
        self.transport.established(stream);
    }

    /// Subscribes to the events of the server.
    pub(super) fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.inbox.events()
    }

    /// Returns the cached lists.
    pub(super) fn list_cache(&self) -> Arc<ListCache> {
        Arc::clone(&self.inbox.list_cache)
    }

    /// Returns the handler of the server's questions.
    pub(super) fn handler(&self) -> &Arc<dyn Handler> {
        &self.inbox.handler
    }

    /// Spawns a task that ends with the connection.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inbox.spawn(task);
    }

    /// Returns why the connection was closed, if it was.
    pub(super) fn close_reason(&self) -> Option<RequestError> {
        self.inbox.pending.close_reason().map(|failed| self.filter.failed(failed))
    }

    /// Reports whether the transport is Streamable HTTP.
    pub(super) fn is_web(&self) -> bool {
        self.web
    }

    /// Returns the process id of the server, if it is a child process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.transport.pid()
    }

    /// Returns the last lines that the server wrote to its standard error.
    pub(super) fn stderr_tail(&self) -> String {
        self.filter.text(&self.transport.stderr_tail())
    }

    /// Reports whether the gate itself closes or has closed the connection.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Closes the connection gracefully.
    pub(super) async fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.transport.close().await;
        self.inbox.pending.close(RequestError::unsent(Failure::Closed));
    }

    /// Notifies the server that a request is cancelled.
    fn cancel(&self, id: RequestId) {
        let Some(handshake) = self.inbox.handshake.get() else { return };
        if self.web && handshake.era == Era::Modern || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let params = format!(r#"{{"requestId":{id},"reason":"the caller no longer waits"}}"#);
        let text = rpc::notification("notifications/cancelled", Some(&params));
        self.inbox.log_sent(&text);
        let message = Outgoing { text, request: None, headers: handshake.headers.clone(), repeatable: true };
        let transport = Arc::downgrade(&self.transport);
        self.inbox.spawn(async move {
            let Some(transport) = transport.upgrade() else { return };
            // Best effort: the answer is ignored anyway.
            let _ = tokio::time::timeout(NOTIFY_LIMIT, transport.send(message)).await;
        });
    }
}

/// Reports whether a request is safe to send twice: it only reads, or sets what is already set.
fn is_repeatable(method: &str) -> bool {
    let asks = [
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
    ];
    method.ends_with("/list") || asks.contains(&method)
}

/// Reports whether a message may have arrived that was being sent when its connection closed.
async fn may_have_arrived(send: impl Future<Output = Result<Delivery, RequestError>>) -> bool {
    match tokio::time::timeout(SETTLE_LIMIT, send).await {
        Ok(Err(failed)) => failed.sent,
        Ok(Ok(_)) | Err(_) => true,
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Running tasks would keep the transport, and with it the connection.
        self.inbox.stop();
    }
}

/// Cleans up after a request, however it ends.
struct RequestGuard<'a> {
    wire: &'a Wire,
    id: RequestId,
    cancellable: bool,
    given_up: bool,
    /// Whether it has its own handler.
    has_handler: bool,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if self.has_handler {
            self.wire.inbox.handlers().remove(&self.id);
        }
        if self.given_up && self.wire.inbox.pending.forget(self.id, self.cancellable) && self.cancellable {
            self.wire.cancel(self.id);
        }
    }
}

/// How long to wait for a pending send of a closed connection, which normally ends at once.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);
const NOTIFY_LIMIT: Duration = Duration::from_secs(10);
