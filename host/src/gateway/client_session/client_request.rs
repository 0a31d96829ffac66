//! A client's request, through which the server that works on it asks back in the way of the client's era.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::approval_state::Approval;
use super::request_context::RequestContext;
use super::{ClientSession, questions};
use crate::failure::RpcError;
use crate::gateway::client::ClientSink;
use crate::gateway::seal::RulesDigest;
use crate::json::{JsonObject, to_raw};
use crate::lock::lock;
use crate::rpc::code::INTERNAL_ERROR;
use crate::session::{ActiveCallers, Era, Handler, MODERN_VERSION, NullHandler, ServerQuestion, Topic, Topics};
use crate::transport::BoxFuture;

/// A request of a client, through which the server that works on it can ask back.
pub(super) struct ClientRequest {
    pub(super) client: Weak<ClientSession>,
    pub(super) era: Era,
    /// Carries messages that belong to the request.
    pub(super) sink: Arc<dyn ClientSink>,
    /// The client capabilities that servers can use.
    pub(super) capabilities: Arc<str>,
    /// The members of `_meta` that reach the server and that no rule sees, as one JSON object, if there are any.
    pub(super) unseen_meta: Option<String>,
    /// The trace id of the request, for rules.
    trace: Option<String>,
    /// The approval of the request, if a rule requires one.
    pub(super) approval: Approval,
    /// The rules by which the request is decided.
    rules: Mutex<RulesDigest>,
    server: OnceLock<String>,
    /// The connection that it was last sent on.
    connection: AtomicU64,
    /// How many attempts are with a server now; a second may start before the first has ended.
    active: AtomicUsize,
    /// Notified when no attempt is with a server.
    idle: Notify,
    /// The topic of a question that could not be delivered to the client.
    undelivered: OnceLock<Topic>,
}

impl ClientRequest {
    pub(super) fn new(context: &RequestContext<'_>) -> Arc<Self> {
        Arc::new(ClientRequest {
            client: Arc::downgrade(context.client),
            era: context.era,
            sink: Arc::clone(&context.envelope.sink),
            capabilities: Arc::clone(&context.capabilities),
            unseen_meta: context.unseen_meta(),
            trace: context.client.gate.has_rules().then(|| context.trace_id()).flatten(),
            approval: Approval::default(),
            rules: Mutex::new(context.client.gateway.rules()),
            server: OnceLock::new(),
            connection: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            idle: Notify::new(),
            undelivered: OnceLock::new(),
        })
    }

    /// Returns the rules by which the request is decided.
    pub(super) fn rules(&self) -> RulesDigest {
        *lock(&self.rules)
    }

    /// Has the request decided by the rules that hold now. They are noted before the gate takes them, so what it uses is
    /// never older.
    pub(super) fn use_current_rules(&self, client: &ClientSession) {
        *lock(&self.rules) = client.gateway.rules();
        client.sync_view();
    }

    /// Notes that a server works on the request.
    pub(super) fn start_work(&self, server: &str, connection: u64) {
        // A request has one server, even if it is sent again.
        let _ = self.server.set(server.to_owned());
        self.connection.store(connection, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that an attempt is over.
    pub(super) fn finish_work(&self) {
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until no server works on the request.
    pub(super) async fn wait_idle(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // From here on no notification is missed.
            idle.as_mut().enable();
            if self.active.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Asks the client, until `given_up` completes.
    pub(super) async fn ask(
        &self,
        question: ServerQuestion,
        given_up: impl Future<Output = ()>,
    ) -> Result<Box<RawValue>, RpcError> {
        let topic = question.topic;
        tokio::select! {
            biased;
            answer = self.ask_client(question) => answer,
            () = given_up => match topic {
                Topic::Elicitation => Ok(to_raw(&json!({"action": "cancel"}))),
                _ => Err(RpcError::new(INTERNAL_ERROR, "the request that this question belongs to was given up")),
            },
        }
    }

    async fn ask_client(&self, question: ServerQuestion) -> Result<Box<RawValue>, RpcError> {
        let connection = self.connection.load(Ordering::Relaxed);
        let question = ServerQuestion { server: self.server().to_owned(), connection, ..question };
        match (self.era, self.client.upgrade()) {
            (Era::Legacy, Some(client)) => questions::ask(&client, question, self.trace.as_deref(), &*self.sink).await,
            (Era::Legacy, None) => NullHandler.answer(question).await,
            (Era::Modern, _) => {
                // A client without roots declines in both eras, and servers continue without them.
                if question.topic != Topic::Roots {
                    let _ = self.undelivered.set(question.topic);
                }
                NullHandler.answer(question).await
            }
        }
    }

    /// Returns the server that works on the request; empty if it was not sent yet.
    pub(super) fn server(&self) -> &str {
        self.server.get().map_or("", String::as_str)
    }

    /// Reports whether a question for either request reaches the same client.
    pub(super) fn has_same_client(&self, other: &ClientRequest) -> bool {
        // Clients without a session share one, so two requests may come from different clients.
        let have_session = self.era == Era::Legacy && other.era == Era::Legacy;
        std::ptr::eq(self, other) || (have_session && Weak::ptr_eq(&self.client, &other.client))
    }

    /// Returns the outcome, or an error if a question could not be delivered in the client's era.
    pub(super) fn check_outcome(&self, outcome: Result<String, RpcError>) -> Result<String, RpcError> {
        let Some(topic) = self.undelivered.get() else { return outcome };
        let (server, method) = (self.server(), topic.method());
        let message = format!(
            "server {server:?} sent {method} while working on the request, as servers before {MODERN_VERSION} do; a \
             client of {MODERN_VERSION} cannot be asked that way, so the question was declined; a client that starts \
             with initialize can answer it"
        );
        let mut data = JsonObject::default();
        data.set("server", server);
        data.set("asked", method);
        // The server may have acted anyway.
        match outcome.map(RawValue::from_string) {
            Ok(answer) => data.set("answer", &answer.ok()),
            Err(error) => data.set("error", &error.message),
        }
        Err(RpcError { data: Some(to_raw(&data)), ..RpcError::new(INTERNAL_ERROR, message) })
    }
}

impl Handler for ClientRequest {
    fn topics(&self) -> Topics {
        // The client's own capabilities are sent with each request.
        Topics::default()
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        Box::pin(self.ask(question, self.wait_idle()))
    }

    fn active_callers(&self, _: u64) -> ActiveCallers {
        // Messages on the stream of a request belong to that request.
        self.client.upgrade().map_or(ActiveCallers::Several, |client| ActiveCallers::One(Arc::clone(&client.name)))
    }
}
