//! One connection as JSON-RPC: a request goes out, and its own answer comes back or a failure does.

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
use super::{Era, ServerEvent};
use crate::config::secrets::Secrets;
use crate::failure::{Failure, RequestError};
use crate::rpc::{self, Reply};
use crate::transport::endpoint::Endpoint;
use crate::transport::{self, Delivery, Outgoing, RequestId, ServerStream, Transport};
use credential_filter::CredentialFilter;
use inbox::{HandshakeResult, Inbox};

/// A connection that requests and answers are matched on.
pub struct Wire {
    inbox: Arc<Inbox>,
    transport: Arc<dyn Transport>,
    next_id: AtomicU64,
    /// Closing a stream says that nobody waits (2026-07-28 on HTTP); elsewhere it takes a notification.
    web: bool,
    filter: Arc<CredentialFilter>,
    /// We are ending the connection ourselves.
    closing: AtomicBool,
}

/// What to ask.
pub struct WireRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The JSON object of its parameters, given the id of the request (which is also its progress token).
    pub params: &'a (dyn Fn(RequestId) -> String + Sync),
    /// Headers that MCP wants beside it on HTTP.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// How long to wait.
    pub timeouts: RequestTimeouts,
    /// Who wants to know how far it has come.
    pub progress: Option<OnProgress>,
    /// Who answers what the server asks on the stream of this request, in place of the connection's own.
    pub handler: Option<Arc<dyn Handler>>,
    /// The server is told when nobody waits any more; a handshake is never cancelled.
    pub cancellable: bool,
}

impl Wire {
    /// Connects to where the endpoint says. No credential of `secrets`, or of the endpoint, is in anything that it hands out.
    pub async fn open(
        endpoint: &Endpoint,
        handler: Arc<dyn Handler>,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<Wire, RequestError> {
        let filter = Arc::new(CredentialFilter::new(endpoint, Arc::clone(secrets)));
        let web = matches!(endpoint, Endpoint::Http(_));
        let inbox = Arc::new(Inbox::new(handler, Arc::clone(&filter), web));
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

    /// Sends a request and waits for its answer. Dropping the future gives the request up and tells the server so.
    pub async fn request(&self, ask: WireRequest<'_>) -> Result<Reply, RequestError> {
        let WireRequest { method, params, headers, timeouts, progress, handler, cancellable } = ask;
        let limit = timeouts.idle.min(timeouts.total);
        if limit.is_zero() {
            return Err(RequestError::unsent(Failure::Timeout { method: method.to_owned(), after: limit }));
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let time = RequestClock { started, timeouts, last_progress: None };
        let mut answer = self.inbox.pending.enter(id, time, progress)?;
        // Where all share a stream, what is asked on it says nothing of a request.
        let handler = handler.filter(|_| self.web);
        let mut watch = RequestGuard { wire: self, id, cancellable, given_up: true, has_handler: handler.is_some() };
        if let Some(handler) = handler {
            self.inbox.handlers().insert(id, handler);
        }
        let text = rpc::request(id, method, &params(id));
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
                    // The sender is dropped only after it was used.
                    break match answer.unwrap_or(Err(RequestError::unsent(Failure::Closed))) {
                        // The connection is over. How far the request had come is for the transport to say.
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
                                // Where the connection ended at this very moment, the exchange had been made all the same.
                                break answer.map_err(|failed| RequestError { sent: true, ..failed });
                            }
                            Err(_) => {
                                watch.cancellable = false;
                                let how = format!("its answer to {method} holds no answer");
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
                    // What has been handed over may be acted on, whether it is written by now or not.
                    break Err(RequestError::sent(Failure::Timeout { method: method.to_owned(), after: deadline - started }));
                }
            }
        };
        outcome.map_err(|failed| self.filter.failed(self.inbox.pending.explain(failed)))
    }

    /// How many messages the server has sent.
    pub fn messages(&self) -> u64 {
        self.inbox.pending.messages()
    }

    /// Until when the server may be silent: it may be at work on what it was asked, which has its own time.
    pub fn busy_until(&self) -> Option<Instant> {
        let end = self.inbox.pending.oldest_request()?.deadline(self.inbox.last_question());
        (end > Instant::now()).then_some(end)
    }

    /// Waits while no message comes after those that were seen and all requests wait on, and no longer than until then.
    pub async fn wait_for_change(&self, seen: u64, until: Instant) {
        self.inbox.pending.wait_for_change(seen, until).await;
    }

    /// The connection is about to be ended for this reason, which those hear who lose their answers by it.
    pub fn abandon(&self, why: String) {
        self.inbox.pending.abandon(why);
    }

    /// Sends a notification.
    pub async fn notify(
        &self,
        method: &str,
        params: Option<&str>,
        headers: Vec<(http::HeaderName, http::HeaderValue)>,
    ) -> Result<(), RequestError> {
        let text = rpc::notification(method, params);
        let send = self.transport.send(Outgoing { text, request: None, headers, repeatable: true });
        match tokio::time::timeout(NOTIFY_LIMIT, send).await {
            Ok(sent) => sent.map(drop).map_err(|failed| self.filter.failed(failed)),
            Err(_) => Err(RequestError::sent(Failure::Timeout { method: method.to_owned(), after: NOTIFY_LIMIT })),
        }
    }

    /// The handshake is over: from here on the era is known.
    pub fn complete_handshake(&self, era: Era, headers: Vec<(http::HeaderName, http::HeaderValue)>) {
        self.inbox.set_handshake(HandshakeResult { era, headers: headers.clone() });
        let stream = match era {
            Era::Legacy => ServerStream::Open(headers),
            Era::Modern => ServerStream::None,
        };
        self.transport.established(stream);
    }

    /// What the server lets know unasked.
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.inbox.events()
    }

    /// The lists that still hold.
    pub fn list_cache(&self) -> Arc<ListCache> {
        self.inbox.list_cache()
    }

    /// Who answers the server's questions.
    pub fn handler(&self) -> &Arc<dyn Handler> {
        self.inbox.handler()
    }

    /// Does something for as long as the connection lives.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inbox.spawn(task);
    }

    /// Why the connection is over, once it is.
    pub fn close_reason(&self) -> Option<RequestError> {
        self.inbox.pending.close_reason().map(|failed| self.filter.failed(failed))
    }

    /// Whether messages travel over Streamable HTTP.
    pub fn is_web(&self) -> bool {
        self.web
    }

    /// The process id of the server, where it is a process of ours.
    pub fn pid(&self) -> Option<u32> {
        self.transport.pid()
    }

    /// The last lines that the server wrote to its standard error.
    pub fn stderr_tail(&self) -> String {
        self.filter.text(&self.transport.stderr_tail())
    }

    /// Whether we are ending the connection ourselves, or have done so.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Ends the connection in good manners.
    pub async fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.transport.close().await;
        self.inbox.pending.close(RequestError::unsent(Failure::Closed));
    }

    /// Tells the server that nobody waits for this request any more.
    fn cancel(&self, id: RequestId) {
        let Some(handshake) = self.inbox.handshake() else { return };
        if self.web && handshake.era == Era::Modern || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let params = format!(r#"{{"requestId":{id},"reason":"the caller no longer waits"}}"#);
        let text = rpc::notification("notifications/cancelled", Some(&params));
        let message = Outgoing { text, request: None, headers: handshake.headers.clone(), repeatable: true };
        let transport = Arc::downgrade(&self.transport);
        self.inbox.spawn(async move {
            let Some(transport) = transport.upgrade() else { return };
            // It is a courtesy: a server that cannot be told will find out.
            let _ = tokio::time::timeout(NOTIFY_LIMIT, transport.send(message)).await;
        });
    }
}

/// Whether a request does no harm where it arrives twice: it asks for what there is, or settles what is settled already.
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

/// Whether a message that was being sent when its connection ended may have arrived.
async fn may_have_arrived(send: impl Future<Output = Result<Delivery, RequestError>>) -> bool {
    match tokio::time::timeout(SETTLE_LIMIT, send).await {
        Ok(Err(failed)) => failed.sent,
        Ok(Ok(_)) | Err(_) => true,
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Whatever is under way would keep the transport, and with it the connection.
        self.inbox.stop();
    }
}

/// Clears up behind a request, however it ends.
struct RequestGuard<'a> {
    wire: &'a Wire,
    id: RequestId,
    cancellable: bool,
    given_up: bool,
    /// It has a handler of its own.
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

/// A connection that is over lets go of its senders at once; this is for one that does not.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);
const NOTIFY_LIMIT: Duration = Duration::from_secs(10);
