//! One client of the gateway, which serves it as an MCP server of both eras.

mod approval;
mod batch;
mod calls;
mod cancellation;
mod era;
mod labels;
mod methods;
mod notifications;
mod notifier;
pub mod outcome;
mod progress;
mod prompts;
mod questions;
mod resource_links;
mod resources;
mod resubscribe;
pub(super) mod slow_servers;
mod sources;
mod tool_list;
mod updates;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};

use super::GatewayState;
use super::client::{Admission, ClientHandler, ClientMessage, ClientSink, GatewayResponse, McpHeaders, Principal};
use crate::failure::RpcError;
use crate::gate::{CloseMode, Gate, GateError};
use crate::logic::types::naming::NamingStyle;
use crate::registry::ResourceWatcher;
use crate::rpc::code::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, UNSUPPORTED_VERSION,
};
use crate::rpc::{self, Message, Notification, Reply, Request};
use crate::session::LogLevel;
use crate::transport::BoxFuture;
use cancellation::CancelHandle;
use era::{Era, RequestContext};
pub(crate) use questions::ClientRequest;
use resource_links::ResourceLinks;
use tool_list::ToolListCache;

/// The session of one client, or of all clients of 2026-07-28 that share a principal.
pub(crate) struct ClientSession {
    me: Weak<ClientSession>,
    gateway: Arc<GatewayState>,
    gate: Gate,
    principal: Principal,
    /// The name of the principal, for records and log lines of calls.
    name: Arc<str>,
    /// Carries what the gateway sends on its own; clients of 2026-07-28 have none.
    sink: Option<Arc<dyn ClientSink>>,
    session: Mutex<SessionState>,
    /// The running requests that can be cancelled, by the client's request id.
    cancel_handles: Mutex<BTreeMap<String, CancelHandle>>,
    /// The ids of requests that the client cancelled and that get no response.
    cancelled_ids: Mutex<HashSet<String>>,
    /// The questions that the client has not answered yet.
    pending: Mutex<PendingQuestions>,
    next: AtomicU64,
    /// Notified when all subscriptions end.
    subscriptions_ended: Notify,
    /// Set when the listener of a client with a session closes.
    closing: AtomicBool,
    /// Notified when all requests other than tool calls are cancelled.
    cancelled: Notify,
    tool_list: ToolListCache,
    /// The resources that servers linked to in results.
    resource_links: ResourceLinks,
    /// The version of the gateway's options that was last applied.
    edition: AtomicU64,
    /// The server log messages that were last sent to the client.
    sent_logs: Mutex<VecDeque<u64>>,
}

/// The senders of the client's answers, by the id of the question.
type PendingQuestions = HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>;

/// The session of a client of the initialize era.
#[derive(Default)]
struct SessionState {
    /// The negotiated protocol version.
    version: Option<&'static str>,
    /// The capabilities that servers can use, as the client wrote them.
    capabilities: Option<Arc<str>>,
    /// The lowest level of server log messages that the client wants.
    log_level: Option<LogLevel>,
    /// The resources that the client subscribed to.
    subscribed: HashMap<String, ResourceWatcher>,
    /// The task that notifies the client of changes.
    notifier: Option<tokio::task::AbortHandle>,
}

/// The context of a message.
struct Envelope {
    headers: Option<McpHeaders>,
    sink: Arc<dyn ClientSink>,
    batch: Option<Box<dyn Admission>>,
}

impl ClientSession {
    pub(super) fn open(
        inside: &Arc<GatewayState>,
        principal: &Principal,
        sink: Option<Arc<dyn ClientSink>>,
    ) -> Result<Arc<Self>, GateError> {
        // Read before the view, so that a change in between is not missed.
        let edition = AtomicU64::new(inside.edition.load(Ordering::SeqCst));
        let gate = Gate::open(&inside.registry, inside.view(principal)?)?;
        Ok(Arc::new_cyclic(|me| ClientSession {
            me: me.clone(),
            gateway: Arc::clone(inside),
            gate,
            principal: principal.clone(),
            name: principal.name.as_str().into(),
            sink,
            session: Mutex::default(),
            cancel_handles: Mutex::default(),
            cancelled_ids: Mutex::default(),
            pending: Mutex::default(),
            next: AtomicU64::new(1),
            subscriptions_ended: Notify::new(),
            closing: AtomicBool::new(false),
            cancelled: Notify::new(),
            tool_list: ToolListCache::default(),
            resource_links: ResourceLinks::default(),
            edition,
            sent_logs: Mutex::default(),
        }))
    }

    /// Applies the client's current view if the options have changed. A revoked client keeps its view; its session ends
    /// soon.
    fn sync_view(&self) {
        let edition = self.gateway.edition.load(Ordering::SeqCst);
        if self.edition.load(Ordering::SeqCst) == edition {
            return;
        }
        if let Ok(view) = self.gateway.view(&self.principal) {
            self.gate.set_view(view);
        }
        // Stored last, so that no other request continues with the old view.
        self.edition.store(edition, Ordering::SeqCst);
    }

    /// Reports whether the client's access was revoked.
    fn is_revoked(&self) -> bool {
        self.gateway.view(&self.principal).is_err()
    }

    /// Reports whether several clients may share this session: those of 2026-07-28.
    fn is_shared(&self) -> bool {
        self.sink.is_none()
    }

    /// Returns the style of the names that the client sees.
    fn style(&self) -> NamingStyle {
        self.gateway.active().options.names.clone().unwrap_or_else(|| self.gate.style())
    }

    /// Returns the exposed server, if only one is exposed under its own names.
    fn exposed(&self) -> Option<&str> {
        self.gateway.expose.as_deref()
    }

    /// Handles one message, or one part of a batch.
    async fn handle_one(&self, message: Message, envelope: &Envelope) -> Option<GatewayResponse> {
        self.sync_view();
        match message {
            Message::Request(request) if request.has_good_id() => self.handle_request(&request, envelope).await,
            Message::Request(_) => Some(invalid_message(BAD_ID)),
            // `null` is no id, and a message without one is a notification (2025-11-25, basic, requests).
            Message::Notification(notification) if notification.has_null_id() => Some(invalid_message(BAD_ID)),
            Message::Notification(notification) => {
                self.handle_notification(&notification, envelope);
                None
            }
            Message::Response(response) => {
                self.handle_answer(response.id(), response.into_outcome().map(Reply::into_json));
                None
            }
            Message::Batch(_) => Some(invalid_message("a batch is not part of a batch")),
            Message::Unreadable(unreadable) => Some(error_response(&unreadable.error())),
        }
    }

    async fn handle_request(&self, request: &Request, envelope: &Envelope) -> Option<GatewayResponse> {
        let id = request.id();
        let context = match RequestContext::read(self, request, envelope.headers.as_ref()) {
            Ok(context) => context,
            Err((error, status)) => return Some(GatewayResponse::error(Some(id), &error, status)),
        };
        let mut deferred = None;
        let answer = match request.method() {
            // The gate itself cancels calls and records their result.
            "tools/call" => calls::call(self, &context, request, envelope, &mut deferred).await,
            // Boxed, to keep the future of a call small.
            _ => Box::pin(self.unless_cancelled(methods::answer(self, &context, request, envelope))).await,
        };
        if self.take_cancelled(id, envelope) {
            return None;
        }
        Some(match answer {
            Ok(result) => GatewayResponse { deferred, ..GatewayResponse::ok(rpc::result(id, result)) },
            Err(error) => {
                let status = match (context.era, error.code) {
                    (Era::Modern, METHOD_NOT_FOUND) => 404,
                    (Era::Modern, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => 400,
                    _ => 200,
                };
                GatewayResponse { deferred, ..GatewayResponse::error(Some(id), &error, status) }
            }
        })
    }

    fn handle_notification(&self, notification: &Notification, envelope: &Envelope) {
        #[derive(serde::Deserialize)]
        struct CancelledParams {
            #[serde(rename = "requestId")]
            request_id: Box<RawValue>,
        }
        match notification.method() {
            "notifications/cancelled" => {
                if let Some(Ok(CancelledParams { request_id })) = notification.params().map(serde_json::from_str) {
                    self.cancel_request(request_id.get(), envelope);
                }
            }
            "notifications/initialized" => self.start_notifier(),
            // Without headers this is standard input, which has only one client.
            "notifications/roots/list_changed" => self.tell_roots_changed(envelope.headers.is_none()),
            _ => {}
        }
    }

    /// Starts the task that notifies the client of changes, unless it already runs.
    fn start_notifier(&self) {
        let Some(sink) = self.sink.clone() else { return };
        let client = self.me.clone();
        let mut session = self.session();
        session.notifier.get_or_insert_with(|| tokio::spawn(notifications::run_notifier(client, sink)).abort_handle());
    }

    /// Marks a log message as sent; returns false if it already was.
    fn mark_log_sent(&self, line: u64) -> bool {
        let mut told = self.sent_logs.lock().unwrap_or_else(PoisonError::into_inner);
        if told.contains(&line) {
            return false;
        }
        if told.len() == TOLD {
            told.pop_front();
        }
        told.push_back(line);
        true
    }

    fn session(&self) -> MutexGuard<'_, SessionState> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel_handles(&self) -> MutexGuard<'_, BTreeMap<String, CancelHandle>> {
        self.cancel_handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, PendingQuestions> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for ClientSession {
    fn handle(self: Arc<Self>, incoming: ClientMessage) -> BoxFuture<'static, Option<GatewayResponse>> {
        Box::pin(async move {
            let ClientMessage { message, headers, sink, batch } = incoming;
            let envelope = Envelope { headers, sink, batch };
            match message {
                // Boxed, to keep the future of a single message small.
                Message::Batch(batch) => Box::pin(self.handle_batch(batch.parts, &envelope)).await,
                message => self.handle_one(message, &envelope).await,
            }
        })
    }

    fn end_subscriptions(&self) {
        // Clients without a session may still use another listener.
        self.closing.store(self.sink.is_some(), Ordering::SeqCst);
        self.subscriptions_ended.notify_waiters();
    }

    fn cancel(&self) {
        self.gate.cancel_all();
        self.cancelled.notify_waiters();
    }

    fn close(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Some(herald) = self.session().notifier.take() {
                herald.abort();
            }
            if self.session().log_level.take().is_some() {
                self.gateway.registry.want_logs(self.gate.number(), None).await;
            }
            drop(std::mem::take(&mut self.session().subscribed));
            self.gate.close(CloseMode::Cancel).await;
        })
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        if let Some(herald) = self.session().notifier.take() {
            herald.abort();
        }
    }
}

/// Reads the parameters of a request.
fn params_of<'a, T: Deserialize<'a>>(method: &str, params: &'a str) -> Result<T, RpcError> {
    serde_json::from_str(params)
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("{method} cannot be read: {error}")))
}

/// Returns the error for a message without a usable id.
fn invalid_message(why: &str) -> GatewayResponse {
    error_response(&RpcError::new(INVALID_REQUEST, format!("this is not a JSON-RPC message: {why}")))
}

fn error_response(error: &RpcError) -> GatewayResponse {
    GatewayResponse::error(None, error, 400)
}

const BAD_ID: &str = "its id is neither a string nor a number";
/// How many sent log messages are remembered; each reaches a client in two ways and must be sent once.
const TOLD: usize = 256;
