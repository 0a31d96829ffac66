//! The face that the gateway shows to one client: an MCP server of both eras.

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

/// The face that the gateway shows to one client.
pub(crate) struct ClientSession {
    me: Weak<ClientSession>,
    gateway: Arc<GatewayState>,
    gate: Gate,
    principal: Principal,
    /// The name of the principal, for the record of each call.
    name: Arc<str>,
    /// The way for what is sent unasked; clients of 2026-07-28 have none.
    sink: Option<Arc<dyn ClientSink>>,
    session: Mutex<SessionState>,
    /// What is under way and can be stopped, by the client's id of the request.
    cancel_handles: Mutex<BTreeMap<String, CancelHandle>>,
    /// What its client stopped and wants no answer to any more, by the same id.
    cancelled_ids: Mutex<HashSet<String>>,
    /// What the client was asked, and who waits for its answer.
    pending: Mutex<PendingQuestions>,
    next: AtomicU64,
    /// Tells those who only listen that there will be no more news.
    subscriptions_ended: Notify,
    /// The client of a session will ask nothing more.
    closing: AtomicBool,
    /// Tells requests that are no calls that they are cancelled.
    cancelled: Notify,
    tool_list: ToolListCache,
    /// The resources that servers named in their answers.
    resource_links: ResourceLinks,
    /// Which of the gateway's settings it has taken over.
    edition: AtomicU64,
    /// The lines of servers' logs that it was told last.
    sent_logs: Mutex<VecDeque<u64>>,
}

/// Who waits for which answer of the client.
type PendingQuestions = HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>;

/// What a client of the initialize era said of itself.
#[derive(Default)]
struct SessionState {
    /// The version that was agreed on.
    version: Option<&'static str>,
    /// What it can be asked, as it wrote it.
    capabilities: Option<Arc<str>>,
    /// The least grave lines of servers' logs that it wants.
    log_level: Option<LogLevel>,
    /// The resources whose content it wants to hear of.
    subscribed: HashMap<String, ResourceWatcher>,
    /// Tells the client what has changed.
    notifier: Option<tokio::task::AbortHandle>,
}

/// What comes with a message.
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
        // Before the view, so that a change between the two is not missed.
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

    /// Takes over what the client may use now, where that has changed. Who may use nothing is about to be sent away.
    fn sync_view(&self) {
        let edition = self.gateway.edition.load(Ordering::SeqCst);
        if self.edition.load(Ordering::SeqCst) == edition {
            return;
        }
        if let Ok(view) = self.gateway.view(&self.principal) {
            self.gate.set_view(view);
        }
        // Last, so that no other request goes on before.
        self.edition.store(edition, Ordering::SeqCst);
    }

    /// Whether the client may use nothing any more.
    fn is_revoked(&self) -> bool {
        self.gateway.view(&self.principal).is_err()
    }

    /// Whether several clients may share it: those of 2026-07-28 that have no session.
    fn is_shared(&self) -> bool {
        self.sink.is_none()
    }

    /// The names that the client is shown.
    fn style(&self) -> NamingStyle {
        self.gateway.active().options.names.clone().unwrap_or_else(|| self.gate.style())
    }

    /// The server whose own names the client is shown, where it is one alone.
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
            // The gate cancels it, and knows what became of it.
            "tools/call" => calls::call(self, &context, request, envelope, &mut deferred).await,
            // Boxed, so that the future of a call has no room for it.
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
            // On standard input there is one client.
            "notifications/roots/list_changed" => self.tell_roots_changed(envelope.headers.is_none()),
            _ => {}
        }
    }

    /// Tells the client from now on what has changed.
    fn start_notifier(&self) {
        let Some(sink) = self.sink.clone() else { return };
        let client = self.me.clone();
        let mut session = self.session();
        session.notifier.get_or_insert_with(|| tokio::spawn(notifications::run_notifier(client, sink)).abort_handle());
    }

    /// Whether the client has not been told this line of a log yet; it counts as told from now on.
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
                // Boxed, so that the future of another message has no room for it.
                Message::Batch(batch) => Box::pin(self.handle_batch(batch.parts, &envelope)).await,
                message => self.handle_one(message, &envelope).await,
            }
        })
    }

    fn end_subscriptions(&self) {
        // Clients without a session may come through another door.
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

/// The parameters of a request of this method.
fn params_of<'a, T: Deserialize<'a>>(method: &str, params: &'a str) -> Result<T, RpcError> {
    serde_json::from_str(params)
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("{method} cannot be read: {error}")))
}

/// Answers a message that has no id to answer to.
fn invalid_message(why: &str) -> GatewayResponse {
    error_response(&RpcError::new(INVALID_REQUEST, format!("this is not a JSON-RPC message: {why}")))
}

fn error_response(error: &RpcError) -> GatewayResponse {
    GatewayResponse::error(None, error, 400)
}

const BAD_ID: &str = "its id is neither a string nor a number";
/// How many lines of logs are remembered as told; two ways lead to a client, and a line comes on both.
const TOLD: usize = 256;
