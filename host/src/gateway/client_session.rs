//! One client of the gateway, which serves it as an MCP server of both eras.

mod answer_texts;
mod approval;
mod approval_state;
mod batch;
mod calls;
mod cancellation;
mod changes;
mod choosing;
mod client_request;
mod era;
mod labels;
mod logs;
mod methods;
mod notifications;
mod notifier;
pub(super) mod outcome;
mod prompts;
mod questions;
pub(super) mod relay;
mod request_context;
mod resource_links;
mod resources;
mod server_request;
mod shared_changes;
pub(super) mod shown_tools;
mod sources;
mod subscriptions;
mod tool_list;
mod updates;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cancellation::RunningRequests;
use logs::SentLogs;
use questions::OpenQuestions;
use request_context::RequestContext;
use resource_links::ResourceLinks;
use subscriptions::Subscriptions;
use tool_list::{FIRST_LIST, ToolListCache};
use updates::gap_notification;

use super::GatewayState;
use super::choice::Choice;
use super::client::{
    Admission, ClientHandler, ClientMessage, ClientSink, GatewayResponse, McpHeaders, Principal, ResponseFuture,
};
use super::session_terms::{CapabilityFlags, SessionTerms};
use crate::failure::RpcError;
use crate::gate::{CloseMode, Gate, GateError, GateView};
use crate::json::JsonObject;
use crate::lock::lock;
use crate::logic::types::catalog::ExposedTool;
use crate::logic::types::naming::NamingStyle;
use crate::rpc::code::{
    HEADER_MISMATCH, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, OTHER_REPLICA, UNSUPPORTED_VERSION,
};
use crate::rpc::{self, Message, Notification, Reply, Request};
use crate::session::{Era, LogLevel};
use crate::transport::BoxFuture;

/// The session of one client, or of all clients of 2026-07-28 that share a principal.
pub(crate) struct ClientSession {
    gateway: Arc<GatewayState>,
    gate: Gate,
    /// The version of the gateway's options that the gate follows.
    edition: AtomicU64,
    /// The name of the principal.
    name: Arc<str>,
    /// Carries what the gateway sends on its own; clients of 2026-07-28 have none.
    sink: Option<Arc<dyn ClientSink>>,
    negotiated: Mutex<Negotiated>,
    running: RunningRequests,
    questions: OpenQuestions,
    subscriptions: Subscriptions,
    sent: SentToClient,
}

/// What a client negotiated for its session.
#[derive(Default)]
struct Negotiated {
    version: Option<&'static str>,
    /// The capabilities that servers can use, as the client wrote them.
    capabilities: Option<Arc<str>>,
    /// The lowest level of server log messages that the client wants.
    log_level: Option<LogLevel>,
    /// The servers and tools that the client chose, of those that it may use.
    choice: Option<Choice>,
    /// The name of the client program.
    client_name: Option<Arc<str>>,
}

/// What was sent to the client and matters later.
#[derive(Default)]
struct SentToClient {
    tools: ToolListCache,
    links: ResourceLinks,
    logs: SentLogs,
}

/// The context of a message.
struct Envelope {
    headers: Option<McpHeaders>,
    sink: Arc<dyn ClientSink>,
    batch: Option<Admission>,
}

impl ClientSession {
    /// Opens the session with this name, or one that clients of 2026-07-28 share if there is no `sink`.
    pub(super) fn open(
        gateway: &Arc<GatewayState>,
        principal: &Principal,
        name: &str,
        sink: Option<Arc<dyn ClientSink>>,
    ) -> Result<Arc<Self>, GateError> {
        // Read before the view, so that a change in between is not missed.
        let edition = AtomicU64::new(gateway.edition.load(Ordering::SeqCst));
        let mut view = GateView { session: Some(name.to_owned()), ..gateway.view(&principal.name)? };
        view.agent.admin = principal.admin;
        let gate = Gate::open(&gateway.registry, view)?;
        let (name, gateway) = (principal.name.as_str().into(), Arc::clone(gateway));
        let questions = OpenQuestions::new(gateway.replica.id);
        let (negotiated, running, subscriptions, sent) = Default::default();
        Ok(Arc::new(ClientSession {
            gateway,
            gate,
            edition,
            name,
            sink,
            negotiated,
            running,
            questions,
            subscriptions,
            sent,
        }))
    }

    /// Applies the client's current view if the options have changed. A revoked client keeps its view; its session ends
    /// soon.
    fn sync_view(&self) {
        if self.edition.load(Ordering::SeqCst) != self.gateway.edition.load(Ordering::SeqCst) {
            let _ = self.update_view();
        }
    }

    /// Applies what the principal may use now, within the client's choice; an error means that its access was revoked.
    fn update_view(&self) -> Result<(), GateError> {
        // Held to the end, so that no older view or choice replaces a newer one.
        let negotiated = lock(&self.negotiated);
        // Read before the view, so that a change in between is not missed.
        let edition = self.gateway.edition.load(Ordering::SeqCst);
        let view = self.gateway.view(&self.name);
        if let Ok(view) = &view {
            self.gate.set_view(GateView { choice: negotiated.choice.clone(), ..view.clone() });
        }
        // Stored last, so that no other request continues with the old view.
        self.edition.store(edition, Ordering::SeqCst);
        view.map(drop)
    }

    /// Reports whether the client's access was revoked.
    fn is_revoked(&self) -> bool {
        self.gateway.view(&self.name).is_err()
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

    /// Reports whether this is a tool of the gate itself. If an exposed server has one of this name, it is the server's.
    async fn is_own_tool(&self, name: &str) -> bool {
        if self.gate.view().listing.is_none() || !["find_tools", "call_tool"].contains(&name) {
            return false;
        }
        let Some(server) = self.exposed() else { return true };
        if self.gate.link(server).is_none_or(|link| link.known_tools().is_none()) {
            let _ = tokio::time::timeout(FIRST_LIST, self.gate.refresh()).await;
        }
        let is_taken = |tool: &ExposedTool| tool.tool.server == server && tool.tool.tool == name;
        !self.gate.tools(&self.style()).is_ok_and(|tools| tools.iter().any(is_taken))
    }

    /// Handles one message, or one part of a batch.
    async fn handle_one(self: &Arc<Self>, message: Message, envelope: &Envelope) -> Option<GatewayResponse> {
        self.sync_view();
        match message {
            Message::Request(request) if request.has_good_id() => self.handle_request(&request, envelope).await,
            Message::Request(_) => Some(invalid_message(BAD_ID)),
            // `null` is no id, and a message without one is a notification (2025-11-25, basic, requests).
            Message::Notification(notification) if notification.has_null_id() => Some(invalid_message(BAD_ID)),
            Message::Notification(notification) => {
                self.handle_notification(&notification, envelope).await;
                None
            }
            Message::Response(response) => match self.questions.asker(response.id()) {
                // Boxed, because it is rare and its future is large.
                Some(asker) => Box::pin(self.forward_answer(asker, &response)).await,
                None => {
                    self.questions.answer(response.id(), response.into_outcome().map(Reply::into_json));
                    None
                }
            },
            Message::Batch(_) => Some(invalid_message("a batch is not part of a batch")),
            Message::Unreadable(unreadable) => Some(error_response(&unreadable.error())),
        }
    }

    async fn handle_request(self: &Arc<Self>, request: &Request, envelope: &Envelope) -> Option<GatewayResponse> {
        let id = request.id();
        let context = match RequestContext::read(self, request, envelope) {
            Ok(context) => context,
            Err((error, status)) => return Some(GatewayResponse::error(Some(id), &error, status)),
        };
        let answer = match request.method() {
            // The gate itself cancels calls and records their result.
            "tools/call" => calls::call(&context).await,
            // Boxed, to keep the future of a call small.
            _ => Box::pin(self.running.unless_all_cancelled(methods::answer(&context))).await,
        };
        if envelope.headers.is_none() && self.running.take_cancelled(id) {
            return None;
        }
        Some(match answer {
            Ok(result) => GatewayResponse::ok(rpc::result(id, result)),
            Err(error) => {
                let status = match (context.era, error.code) {
                    (Era::Modern, METHOD_NOT_FOUND) => 404,
                    (Era::Modern, OTHER_REPLICA) => 409,
                    (Era::Modern, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => 400,
                    _ => 200,
                };
                GatewayResponse::error(Some(id), &error, status)
            }
        })
    }

    async fn handle_notification(self: &Arc<Self>, notification: &Notification, envelope: &Envelope) {
        match notification.method() {
            "notifications/cancelled" => {
                let params = notification.params().and_then(JsonObject::read).unwrap_or_default();
                let Some(id) = params.get("requestId") else { return };
                if !self.running.cancel(&self.gate, id.get(), envelope.headers.is_none()) {
                    self.forward_cancellation(notification, envelope).await;
                }
            }
            "notifications/initialized" => notifications::start_notifier(self),
            // Without headers this is standard input, which has only one client.
            "notifications/roots/list_changed" => self.tell_roots_changed(envelope.headers.is_none()),
            _ => {}
        }
    }
}

impl ClientHandler for ClientSession {
    fn handle(self: Arc<Self>, incoming: ClientMessage) -> ResponseFuture {
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
        self.subscriptions.end(!self.is_shared());
    }

    fn cancel(&self) {
        self.gate.stop_calls();
        self.running.cancel_all();
    }

    fn close(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.subscriptions.stop_notifier();
            if lock(&self.negotiated).log_level.take().is_some() {
                self.gateway.registry.want_logs(self.gate.number(), None).await;
            }
            drop(std::mem::take(&mut *lock(&self.subscriptions.watched)));
            self.gate.close(CloseMode::Cancel).await;
        })
    }

    fn terms(&self) -> Option<SessionTerms> {
        let Negotiated { version, capabilities, client_name, choice, .. } = &*lock(&self.negotiated);
        let capabilities = capabilities.as_deref().and_then(JsonObject::read).unwrap_or_default();
        Some(SessionTerms {
            version: (*version)?.to_owned(),
            capabilities: CapabilityFlags::read(&capabilities),
            client_name: client_name.clone(),
            choice: choice.clone(),
        })
    }

    fn holds_state(&self) -> bool {
        let has_changed =
            || lock(&self.negotiated).log_level.is_some() || !lock(&self.subscriptions.watched).is_empty();
        // The store has what a client changed, if there is one.
        self.gate.has_own_servers()
            || !self.sent.links.is_empty()
            || (!self.gateway.replica.store.is_shared() && has_changed())
    }

    fn sync_changes(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.load_changes().await })
    }

    fn announce_missed(&self) {
        let Some(sink) = &self.sink else { return };
        for list in ["tools", "prompts", "resources"] {
            sink.send_or_drop(rpc::notification(&format!("notifications/{list}/list_changed"), None));
        }
        let watched: Vec<String> = lock(&self.subscriptions.watched).keys().cloned().collect();
        watched.iter().for_each(|uri| sink.send_or_drop(gap_notification(uri, None)));
    }
}

/// Returns the error for a message without a usable id.
fn invalid_message(why: &str) -> GatewayResponse {
    error_response(&RpcError::new(INVALID_REQUEST, format!("this is not a JSON-RPC message: {why}")))
}

fn error_response(error: &RpcError) -> GatewayResponse {
    GatewayResponse::error(None, error, 400)
}

const BAD_ID: &str = "its id is neither a string nor a number";
