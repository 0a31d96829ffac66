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
use super::client::{ClientHandler, ClientMessage, ClientSink, GatewayResponse, Principal};
use crate::failure::RpcError;
use crate::gate::{CloseMode, Gate, GateError};
use crate::logic::types::naming::NamingStyle;
use crate::registry::ResourceWatcher;
use crate::session::message::{self, Places};
use crate::session::{LogLevel, METHOD_NOT_FOUND};
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

    /// One message, or one part of a batch.
    async fn handle_one(
        &self,
        text: &str,
        places: Option<&Places>,
        incoming: &ClientMessage,
    ) -> Option<GatewayResponse> {
        self.sync_view();
        let found = places.and_then(|places| Some((places.id(text)?, places.method(text).into(), places.params(text))));
        let (id, method, params) = match found {
            Some(request) => request,
            None => match message::read(text) {
                Ok(message::Incoming::Request { id, method, params }) => (id, method, params.map(RawValue::get)),
                // `null` is no id, and what has none is a notification (2025-11-25, basic, requests).
                Ok(message::Incoming::Notification { .. }) if has_id(text) => return Some(invalid_message(BAD_ID)),
                Ok(message::Incoming::Notification { method, params }) => {
                    self.handle_notification(&method, params, incoming);
                    return None;
                }
                Ok(message::Incoming::Answer { id, outcome }) => {
                    self.handle_answer(id, outcome.map(|(range, _)| text[range].to_owned()));
                    return None;
                }
                Err(why) => return Some(unreadable(text, &why)),
            },
        };
        if !is_id(id.get()) {
            return Some(invalid_message(BAD_ID));
        }
        let params = params.unwrap_or("{}");
        let context = match RequestContext::read(self, &method, params, incoming.headers.as_ref()) {
            Ok(context) => context,
            Err((error, status)) => return Some(GatewayResponse::new(error_text(id.get(), &error), status)),
        };
        let mut deferred = None;
        let answer = match &*method {
            // The gate cancels it, and knows what became of it.
            "tools/call" => {
                let wanted = places.and_then(|places| places.call(text));
                calls::call(self, &context, id, params, wanted, incoming, &mut deferred).await
            }
            // Apart, so that calls have no room for it.
            _ => {
                let answer = methods::answer(self, &context, id, &method, params, incoming);
                Box::pin(self.unless_cancelled(answer)).await
            }
        };
        if self.take_cancelled(id, incoming) {
            return None;
        }
        match answer {
            Ok(mut text) => {
                // A result mostly stands in the memory of the message that it came in, where such a head had room.
                let head = [r#"{"jsonrpc":"2.0","id":"#, id.get(), r#","result":"#].concat();
                text.reserve_exact(head.len() + ENDS);
                text.insert_str(0, &head);
                text.push('}');
                Some(GatewayResponse { text, status: 200, deferred })
            }
            Err(error) => {
                let status = match (context.era, error.code) {
                    (Era::Modern, METHOD_NOT_FOUND) => 404,
                    (Era::Modern, -32022..=-32020) => 400,
                    _ => 200,
                };
                Some(GatewayResponse { text: error_text(id.get(), &error), status, deferred })
            }
        }
    }

    fn handle_notification(&self, method: &str, params: Option<&RawValue>, incoming: &ClientMessage) {
        #[derive(serde::Deserialize)]
        struct CancelledParams {
            #[serde(rename = "requestId")]
            request_id: Box<RawValue>,
        }
        match method {
            "notifications/cancelled" => {
                let Some(Ok(CancelledParams { request_id })) = params.map(|params| serde_json::from_str(params.get()))
                else {
                    return;
                };
                self.cancel_request(&request_id, incoming);
            }
            "notifications/initialized" => self.start_notifier(),
            // Who comes over standard input and output is alone.
            "notifications/roots/list_changed" => self.tell_roots_changed(incoming.headers.is_none()),
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
            match message::batch(&incoming.text) {
                None => self.handle_one(&incoming.text, incoming.ranges.as_ref(), &incoming).await,
                // Apart, so that other messages have no room for it.
                Some(Ok(parts)) => Box::pin(self.handle_batch(&parts, &incoming)).await,
                Some(Err(why)) => Some(unreadable(&incoming.text, &why)),
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

/// An error as the answer to the request of this id.
fn error_text(id: &str, error: &RpcError) -> String {
    let data = error.data.as_deref().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    let message = message::quote(&error.message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":{message}{data}}}}}"#, error.code)
}

/// The answer to a text that is no message, and so has no id to answer to.
fn invalid_message(why: &str) -> GatewayResponse {
    error_response(INVALID_REQUEST, format!("this is no JSON-RPC message: {why}"))
}

/// The same where the text may not even be JSON.
fn unreadable(text: &str, why: &str) -> GatewayResponse {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => invalid_message(why),
        Err(why) => error_response(PARSE_ERROR, format!("this is not JSON: {why}")),
    }
}

fn error_response(code: i64, text: String) -> GatewayResponse {
    GatewayResponse::new(error_text("null", &RpcError::new(code, text)), 400)
}

/// Whether a request can have this id.
fn is_id(id: &str) -> bool {
    id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

/// Whether a message has an id, whatever it is.
fn has_id(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(rename = "id")]
        _id: serde::de::IgnoredAny,
    }
    // Nearly no notification has the word.
    text.contains("\"id\"") && serde_json::from_str::<Envelope>(text).is_ok()
}

/// What follows a result: the end of the message, and that of the line.
const ENDS: usize = 2;
const BAD_ID: &str = "its id is neither a text nor a number";
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// How many lines of logs are remembered as told; two ways lead to a client, and a line comes on both.
const TOLD: usize = 256;
