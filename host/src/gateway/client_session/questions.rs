//! What a server asks while it works for a client, brought to that client in the way of its era.

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

/// One request of a client, as far as a server that works on it may ask something back.
pub(crate) struct ClientRequest {
    client: Weak<ClientSession>,
    era: Era,
    /// The way for what belongs to the request.
    sink: Arc<dyn ClientSink>,
    /// What the client can be asked.
    capabilities: Arc<str>,
    /// Whether a person has approved the request, where one must.
    pub(super) approval: Approval,
    server: OnceLock<String>,
    /// The connection on which it was sent last.
    connection: AtomicU64,
    /// How often it is with a server at this moment; a second attempt may begin before the first has ended.
    active: AtomicUsize,
    /// Told when it is with none any more.
    idle: Notify,
    /// What was asked and could not be brought to the client.
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

    /// The server works on the request, for as long as what is given lives.
    pub(super) fn start_work(self: &Arc<Self>, client: &ClientSession, server: &str, connection: u64) -> WorkGuard {
        // A request has one server, however often it is sent.
        let _ = self.server.set(server.to_owned());
        self.connection.store(connection, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::SeqCst);
        client.gateway.relay.start_work(connection, &client.name, Some(self))
    }

    /// The server no longer works on the request.
    pub(crate) fn finish_work(&self) {
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until no server works on the request.
    pub(crate) async fn wait_idle(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // From here on nothing that is told is missed.
            idle.as_mut().enable();
            if self.active.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Asks the client, until nobody wants the answer any more.
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
                _ => Err(RpcError::new(INTERNAL_ERROR, "nobody waits any more for what this was asked for")),
            },
        }
    }

    /// The client whose request it is, as long as it is there.
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

    /// The server that works on the request; empty while nobody does.
    pub(super) fn server(&self) -> &str {
        self.server.get().map_or("", String::as_str)
    }

    /// Whether a question that is meant for one of them finds the same client by the other.
    pub(crate) fn has_same_client(&self, other: &ClientRequest) -> bool {
        // Clients without a session share a front, and a request says nothing of another.
        std::ptr::eq(self, other) || (self.era == Era::Legacy && other.is_of(&self.client))
    }

    /// Whether the request is of this client, which has a session.
    fn is_of(&self, client: &Weak<ClientSession>) -> bool {
        self.era == Era::Legacy && Weak::ptr_eq(&self.client, client)
    }

    /// What the client gets: the outcome, or an error where it was to be asked in a way that its era does not have.
    pub(super) fn check_outcome(&self, outcome: Result<String, RpcError>) -> Result<String, RpcError> {
        let Some(topic) = self.undelivered.get() else { return outcome };
        let (server, method) = (self.server(), topic.method());
        let message = format!(
            "server {server:?} asked {method} while it worked on the request, as servers before {MODERN_VERSION} do; a \
             client of {MODERN_VERSION} cannot be asked that way, so the question was declined. A client that begins with \
             initialize can answer it"
        );
        let mut data = JsonObject::default();
        data.set("server", server);
        data.set("asked", method);
        // It may have done something all the same.
        match outcome.map(RawValue::from_string) {
            Ok(answer) => data.set("answer", &answer.ok()),
            Err(error) => data.set("error", &error.message),
        }
        Err(RpcError { data: Some(to_raw(&data)), ..RpcError::new(INTERNAL_ERROR, message) })
    }
}

impl Handler for ClientRequest {
    fn topics(&self) -> Topics {
        // What a client can be asked is in its own words with each request.
        Topics::default()
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        Box::pin(self.ask(question, self.wait_idle()))
    }

    fn active_callers(&self, _: u64) -> ActiveCallers {
        // What comes on the stream of a request is of that request.
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
                // Who has no roots says so in both eras, and servers go on without.
                if question.topic != Topic::Roots {
                    let _ = self.undelivered.set(question.topic);
                }
                NullHandler.answer(question).await
            }
        }
    }
}

impl ClientSession {
    /// Asks the client something on behalf of a server, and waits for so long.
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

    /// Sends a question as it is, and waits for the answer for so long.
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
                false => Some(Err(RpcError::new(INTERNAL_ERROR, "the client of the gateway has gone"))),
            }
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(Some(answer)) => answer,
            _ => Err(RpcError::new(INTERNAL_ERROR, "the client of the gateway did not answer")),
        }
    }

    /// Tells the client's servers that its roots are others now. One that others share may let them all into these, so it
    /// hears nothing unless the client is the only one.
    pub(super) fn tell_roots_changed(&self, alone: bool) {
        if self.can(Topic::Roots.capability()) {
            let links = self.gate.links().into_iter().filter(|link| alone || !link.server().lifecycle.shared);
            links.filter_map(|link| link.current()).for_each(|session| session.tell_roots_changed());
        }
    }

    /// Tells the client that what it was asked to do at an address of a server is done.
    pub(in crate::gateway) fn notify_elicited(&self, elicitation: &str) {
        if let Some(sink) = &self.sink {
            let params = format!(r#"{{"elicitationId":{}}}"#, rpc::quote(elicitation));
            sink.send_or_drop(rpc::notification("notifications/elicitation/complete", Some(&params)));
        }
    }

    /// Whether the client said that it can do this.
    fn can(&self, capability: &str) -> bool {
        self.declared().get(capability).is_some()
    }

    /// What the client said that it can be asked.
    fn declared(&self) -> JsonObject {
        self.session().capabilities.as_deref().and_then(JsonObject::read).unwrap_or_default()
    }

    /// Refuses what the client did not say that it can be asked.
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

    /// A question as the client gets it: with the name of the server that asks, masked, and no longer than a result may be.
    fn question_params(&self, question: &ServerQuestion) -> Result<String, RpcError> {
        let failed = |error: LogicError| RpcError::new(INTERNAL_ERROR, error.to_string());
        let masked = self.gate.mask(&question.server, question.params.get()).map_err(failed)?;
        let read = |params: &str| JsonObject::read(params).map(JsonObject::dedup_names);
        let (Some(mut shown), Some(asked)) = (read(&masked), read(question.params.get())) else {
            return Err(RpcError::new(INVALID_PARAMS, "the params of this question are no object that can be shown"));
        };
        label(&question.server, question.topic, &mut shown);
        if question.topic != Topic::Elicitation {
            return self.gate.cut_texts(shown.to_text()).map_err(failed);
        }
        // A person goes to this very address, and the server says by this very name when it is done.
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
        Err(RpcError::new(INVALID_PARAMS, "this question is longer than max_result_bytes of the gateway"))
    }

    /// The client answers what it was asked.
    pub(super) fn handle_answer(&self, id: ResponseId, outcome: Result<String, RpcError>) {
        let ResponseId::Number(id) = id else { return };
        let Some(waiting) = self.pending().remove(&id) else { return };
        let outcome = outcome.and_then(|result| {
            RawValue::from_string(result).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
        });
        // Whoever waited may have gone this moment.
        let _ = waiting.send(outcome);
    }
}

/// Forgets a question when nobody waits for its answer any more; a client that has yet to answer hears that.
struct QuestionGuard<'a> {
    client: &'a ClientSession,
    id: u64,
    sink: &'a dyn ClientSink,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        if self.client.pending().remove(&self.id).is_some() {
            let params = format!(r#"{{"requestId":{},"reason":"nobody waits for the answer any more"}}"#, self.id);
            self.sink.send_or_drop(rpc::notification("notifications/cancelled", Some(&params)));
        }
    }
}

/// A person may think.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(600);
