//! Brings a server's questions to the client whose request it works on, in the way of the client's era.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};

use super::approval::Approval;
use super::era::{Era, RequestContext};
use super::labels::label;
use super::{ClientSession, Envelope};
use crate::failure::RpcError;
use crate::gate::EXEMPT;
use crate::gateway::client::ClientSink;
use crate::gateway::relay::WorkGuard;
use crate::json::{self, JsonObject, to_raw};
use crate::logic::LogicError;
use crate::rpc::code::METHOD_NOT_FOUND;
use crate::rpc::code::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::rpc::{self, ResponseId};
use crate::session::{
    ActiveCallers, Handler, MODERN_VERSION, MissingCapability, NullHandler, ServerQuestion, Topic, Topics,
    missing_capability,
};
use crate::transport::BoxFuture;

/// A request of a client, through which the server that works on it can ask back.
pub(crate) struct ClientRequest {
    client: Weak<ClientSession>,
    era: Era,
    /// Carries messages that belong to the request.
    sink: Arc<dyn ClientSink>,
    /// The client capabilities that servers can use.
    capabilities: Arc<str>,
    /// The approval of the request, if a rule requires one.
    pub(super) approval: Approval,
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
    pub(super) fn new(client: &ClientSession, context: &RequestContext, envelope: &Envelope) -> Arc<Self> {
        Arc::new(ClientRequest {
            client: client.me.clone(),
            era: context.era,
            sink: Arc::clone(&envelope.sink),
            capabilities: Arc::clone(&context.capabilities),
            approval: Approval::default(),
            server: OnceLock::new(),
            connection: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            idle: Notify::new(),
            undelivered: OnceLock::new(),
        })
    }

    /// Notes that a server works on the request, until the guard is dropped.
    pub(super) fn start_work(self: &Arc<Self>, client: &ClientSession, server: &str, connection: u64) -> WorkGuard {
        // A request has one server, even if it is sent again.
        let _ = self.server.set(server.to_owned());
        self.connection.store(connection, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::SeqCst);
        client.gateway.relay.start_work(connection, &client.name, Some(self))
    }

    /// Notes that an attempt is over.
    pub(crate) fn finish_work(&self) {
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until no server works on the request.
    pub(crate) async fn wait_idle(&self) {
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
    pub(crate) async fn ask(
        &self,
        question: ServerQuestion,
        given_up: impl Future<Output = ()>,
    ) -> Result<Box<RawValue>, RpcError> {
        let topic = question.topic;
        tokio::select! {
            biased;
            answer = self.ask_client(question) => answer,
            () = given_up => match topic {
                Topic::Elicitation => Ok(to_raw(&[("action", "cancel")].into_iter().collect::<BTreeMap<_, _>>())),
                _ => Err(RpcError::new(INTERNAL_ERROR, "the request that this question belongs to was given up")),
            },
        }
    }

    /// Returns the client, if its session still exists.
    pub(super) fn client(&self) -> Option<Arc<ClientSession>> {
        self.client.upgrade()
    }

    pub(super) fn era(&self) -> Era {
        self.era
    }

    pub(super) fn sink(&self) -> &dyn ClientSink {
        &*self.sink
    }

    pub(super) fn capabilities(&self) -> &str {
        &self.capabilities
    }

    /// Returns the server that works on the request; empty if it was not sent yet.
    pub(super) fn server(&self) -> &str {
        self.server.get().map_or("", String::as_str)
    }

    /// Reports whether a question for either request reaches the same client.
    pub(crate) fn has_same_client(&self, other: &ClientRequest) -> bool {
        // Clients without a session share one, so two requests may come from different clients.
        std::ptr::eq(self, other) || (self.era == Era::Legacy && other.is_of(&self.client))
    }

    /// Reports whether the request is from this client, which has a session.
    fn is_of(&self, client: &Weak<ClientSession>) -> bool {
        self.era == Era::Legacy && Weak::ptr_eq(&self.client, client)
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

impl ClientRequest {
    async fn ask_client(&self, question: ServerQuestion) -> Result<Box<RawValue>, RpcError> {
        let connection = self.connection.load(Ordering::Relaxed);
        let question = ServerQuestion { server: self.server().to_owned(), connection, ..question };
        match (self.era, self.client.upgrade()) {
            (Era::Legacy, Some(client)) => client.ask(question, &*self.sink, ASK_LIMIT).await,
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
}

impl ClientSession {
    /// Asks the client on behalf of a server, and waits at most `limit` for the answer.
    async fn ask(
        &self,
        question: ServerQuestion,
        sink: &dyn ClientSink,
        limit: Duration,
    ) -> Result<Box<RawValue>, RpcError> {
        self.check_askable(&question)?;
        let params = self.question_params(&question)?;
        self.send_question(question.topic.method(), &params, sink, limit).await
    }

    /// Sends a question unchanged, and waits at most `limit` for the answer.
    pub(super) async fn send_question(
        &self,
        method: &str,
        params: &str,
        sink: &dyn ClientSink,
        limit: Duration,
    ) -> Result<Box<RawValue>, RpcError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.pending().insert(id, sender);
        let _forget = QuestionGuard { client: self, id, sink };
        let answered = async {
            match sink.deliver(rpc::request(id, method, params)).await {
                true => receiver.await.ok(),
                false => Some(Err(RpcError::new(INTERNAL_ERROR, "the client of the gateway has disconnected"))),
            }
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(Some(answer)) => answer,
            _ => Err(RpcError::new(INTERNAL_ERROR, "the client of the gateway did not answer")),
        }
    }

    /// Notifies servers that the client's roots changed. A shared server is notified only if this is the only client,
    /// because it may apply the roots to all of them.
    pub(super) fn tell_roots_changed(&self, alone: bool) {
        if self.can(Topic::Roots.capability()) {
            let links = self.gate.links().into_iter().filter(|link| alone || !link.server().lifecycle.shared);
            links.filter_map(|link| link.current()).for_each(|session| session.tell_roots_changed());
        }
    }

    /// Notifies the client that a URL elicitation is complete.
    pub(in crate::gateway) fn notify_elicited(&self, elicitation: &str) {
        if let Some(sink) = &self.sink {
            let params = format!(r#"{{"elicitationId":{}}}"#, rpc::quote(elicitation));
            sink.send_or_drop(rpc::notification("notifications/elicitation/complete", Some(&params)));
        }
    }

    /// Reports whether the client declared this capability.
    fn can(&self, capability: &str) -> bool {
        self.declared().get(capability).is_some()
    }

    /// Returns the capabilities that the client declared.
    fn declared(&self) -> JsonObject {
        self.session().capabilities.as_deref().and_then(JsonObject::read).unwrap_or_default()
    }

    /// Checks that the client declared the capability for a question.
    fn check_askable(&self, question: &ServerQuestion) -> Result<(), RpcError> {
        let method = question.topic.method();
        match missing_capability(&self.declared(), question.topic, Some(&question.params)) {
            None => Ok(()),
            Some(MissingCapability::Capability) => {
                let text = format!("the client of the gateway cannot answer {method}");
                Err(RpcError::new(METHOD_NOT_FOUND, text))
            }
            Some(MissingCapability::Part(part)) => {
                let text = format!("the client of the gateway cannot answer {method} with {part:?}");
                Err(RpcError::new(INVALID_PARAMS, text))
            }
        }
    }

    /// Returns the parameters of a question for the client: masked, with the server's name, and cut to the maximum
    /// size.
    fn question_params(&self, question: &ServerQuestion) -> Result<String, RpcError> {
        let failed = |error: LogicError| RpcError::new(INTERNAL_ERROR, error.to_string());
        let masked = self.gate.mask(&question.server, question.params.get()).map_err(failed)?;
        let read = |params: &str| JsonObject::read(params).map(JsonObject::dedup_names);
        let (Some(mut shown), Some(asked)) = (read(&masked), read(question.params.get())) else {
            return Err(RpcError::new(INVALID_PARAMS, "the params of this question are not an object"));
        };
        label(&question.server, question.topic, &mut shown);
        if question.topic != Topic::Elicitation {
            return self.gate.cut_texts(shown.to_text()).map_err(failed);
        }
        // The person needs the exact URL, and the server reports completion under the exact id.
        for name in EXEMPT {
            if let Some(value) = asked.get(name) {
                shown.set(name, value);
            }
        }
        if let Some(id) = asked.get("elicitationId").and_then(json::string_value) {
            self.gateway.relay.expect_elicitation(question.connection, id, &self.me);
        }
        if self.gate.cut_member(&mut shown, "message").map_err(failed)? {
            return Ok(shown.to_text());
        }
        Err(RpcError::new(INVALID_PARAMS, "this question is longer than the gateway's max_result_bytes"))
    }

    /// Passes the client's answer on to the task that waits for it.
    pub(super) fn handle_answer(&self, id: ResponseId, outcome: Result<String, RpcError>) {
        let ResponseId::Number(id) = id else { return };
        let Some(waiting) = self.pending().remove(&id) else { return };
        let outcome = outcome.and_then(|result| {
            RawValue::from_string(result).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
        });
        // The task may have given up meanwhile.
        let _ = waiting.send(outcome);
    }
}

/// Forgets a question on drop; a client that has not answered yet is told that it is cancelled.
struct QuestionGuard<'a> {
    client: &'a ClientSession,
    id: u64,
    sink: &'a dyn ClientSink,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        if self.client.pending().remove(&self.id).is_some() {
            let params = format!(r#"{{"requestId":{},"reason":"the answer is no longer needed"}}"#, self.id);
            self.sink.send_or_drop(rpc::notification("notifications/cancelled", Some(&params)));
        }
    }
}

/// Long, because a person may have to decide.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(600);
