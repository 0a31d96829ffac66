//! Sends questions to a client with a session, and passes its answers on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::ClientSession;
use super::answer_texts::answer_texts;
use super::labels::label;
use crate::failure::RpcError;
use crate::gate::EXEMPT;
use crate::gateway::approvals::ASK_LIMIT;
use crate::gateway::client::ClientSink;
use crate::gateway::replica::ReplicaId;
use crate::json::{self, JsonObject};
use crate::lock::lock;
use crate::logic::LogicError;
use crate::rpc::code::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::rpc::{self, ResponseId};
use crate::session::{MissingCapability, ServerQuestion, Topic, missing_capability};
use crate::store::UNREACHABLE;

/// The questions that a client has not answered yet.
pub(super) struct OpenQuestions {
    replica: ReplicaId,
    /// The senders of the client's answers, by the id of the question.
    pending: Mutex<HashMap<u64, AnswerSender>>,
    /// The number of the last question.
    last: AtomicU64,
}

type AnswerSender = oneshot::Sender<Result<Box<RawValue>, RpcError>>;

impl OpenQuestions {
    pub(super) fn new(replica: ReplicaId) -> Self {
        OpenQuestions { replica, pending: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Returns the replica that asked the question with this id, if it is another one.
    pub(super) fn asker(&self, id: ResponseId) -> Option<ReplicaId> {
        let ResponseId::Number(id) = id else { return None };
        ReplicaId::of_question(id).filter(|asker| *asker != self.replica)
    }

    /// Sends a question, and waits at most `limit` for the answer.
    pub(super) async fn ask(
        &self,
        topic: Topic,
        params: &str,
        sink: &dyn ClientSink,
        limit: Duration,
    ) -> Result<Box<RawValue>, RpcError> {
        let id = self.replica.question(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending).insert(id, sender);
        let _forget = QuestionGuard { questions: self, id, sink };
        let answered = async {
            match sink.deliver(rpc::request(id, topic.method(), params)).await {
                true => receiver.await.ok(),
                false => Some(Err(RpcError::new(INTERNAL_ERROR, DISCONNECTED))),
            }
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(Some(answer)) => answer,
            _ => Err(RpcError::new(INTERNAL_ERROR, UNANSWERED)),
        }
    }

    /// Passes the client's answer on to the task that waits for it.
    pub(super) fn answer(&self, id: ResponseId, outcome: Result<String, RpcError>) {
        let ResponseId::Number(id) = id else { return };
        let Some(waiting) = lock(&self.pending).remove(&id) else { return };
        let outcome = outcome.and_then(|result| {
            RawValue::from_string(result).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
        });
        // The task may have given up meanwhile.
        let _ = waiting.send(outcome);
    }
}

/// Asks a client on behalf of a server, and remembers what the client writes to the server by its answer.
pub(super) async fn ask(
    client: &Arc<ClientSession>,
    question: ServerQuestion,
    trace: Option<&str>,
    sink: &dyn ClientSink,
) -> Result<Box<RawValue>, RpcError> {
    client.check_askable(&question)?;
    let params = client.question_params(&question)?;
    let answer = client.questions.ask(question.topic, &params, sink, ASK_LIMIT).await;
    let texts = answer_texts(&question, &answer);
    if client.gate.note_texts(trace, &question.server, &texts).await.is_err() {
        return Err(RpcError::new(INTERNAL_ERROR, UNREACHABLE));
    }
    answer
}

impl ClientSession {
    /// Notifies servers that the client's roots changed. A shared server is notified only if this is the only client,
    /// because it may apply the roots to all of them.
    pub(super) fn tell_roots_changed(&self, alone: bool) {
        if self.declared().get(Topic::Roots.capability()).is_some() {
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

    /// Returns the capabilities that the client declared.
    fn declared(&self) -> JsonObject {
        lock(&self.negotiated).capabilities.as_deref().and_then(JsonObject::read).unwrap_or_default()
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
    fn question_params(self: &Arc<Self>, question: &ServerQuestion) -> Result<String, RpcError> {
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
            self.gateway.relay.expect_elicitation(question.connection, id, Arc::downgrade(self));
        }
        if self.gate.cut_member(&mut shown, "message").map_err(failed)? {
            return Ok(shown.to_text());
        }
        Err(RpcError::new(INVALID_PARAMS, "this question is longer than the gateway's max_result_bytes"))
    }
}

/// The error for a question whose client has gone.
pub(super) const DISCONNECTED: &str = "the client of the gateway has disconnected";
/// The error for a question that a client did not answer in time.
pub(super) const UNANSWERED: &str = "the client of the gateway did not answer";

/// Forgets a question on drop; a client that has not answered yet is told that it is cancelled.
struct QuestionGuard<'a> {
    questions: &'a OpenQuestions,
    id: u64,
    sink: &'a dyn ClientSink,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        if lock(&self.questions.pending).remove(&self.id).is_some() {
            let params = format!(r#"{{"requestId":{},"reason":"the answer is no longer needed"}}"#, self.id);
            self.sink.send_or_drop(rpc::notification("notifications/cancelled", Some(&params)));
        }
    }
}
