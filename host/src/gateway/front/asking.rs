//! What a server asks while it works for a client, brought to that client in the way of its era.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};

use super::approving::Approval;
use super::era::{Context, Era};
use super::labelled::label;
use super::{Front, INTERNAL_ERROR, INVALID_PARAMS};
use crate::failure::RpcError;
use crate::gate::EXEMPT;
use crate::gateway::client::{Incoming, Outlet};
use crate::gateway::relay::Working;
use crate::json::{self, Object, raw};
use crate::logic::LogicError;
use crate::session::message::{self, AnswerId};
use crate::session::{During, Handler, Lack, METHOD_NOT_FOUND, MODERN_VERSION, Nobody, Question, Topic, Topics, lack};
use crate::transport::BoxFuture;

/// One request of a client, as far as a server that works on it may ask something back.
pub(crate) struct Asker {
    front: Weak<Front>,
    era: Era,
    /// The way for what belongs to the request.
    outlet: Arc<dyn Outlet>,
    /// What the client can be asked.
    capabilities: Arc<str>,
    /// Whether a person has approved the request, where one must.
    pub(super) approval: Approval,
    server: OnceLock<String>,
    /// The connection on which it was sent last.
    connection: AtomicU64,
    /// How often it is with a server at this moment; a second attempt may begin before the first has ended.
    works: AtomicUsize,
    /// Told when it is with none any more.
    idle: Notify,
    /// What was asked and could not be brought to the client.
    unheard: OnceLock<Topic>,
}

impl Asker {
    pub(super) fn new(front: &Front, context: &Context, incoming: &Incoming) -> Arc<Self> {
        Arc::new(Asker {
            front: front.me.clone(),
            era: context.era,
            outlet: Arc::clone(&incoming.outlet),
            capabilities: Arc::clone(&context.capabilities),
            approval: Approval::default(),
            server: OnceLock::new(),
            connection: AtomicU64::new(0),
            works: AtomicUsize::new(0),
            idle: Notify::new(),
            unheard: OnceLock::new(),
        })
    }

    /// The server works on the request, for as long as what is given lives.
    pub(super) fn work(self: &Arc<Self>, front: &Front, server: &str, connection: u64) -> Working {
        // A request has one server, however often it is sent.
        let _ = self.server.set(server.to_owned());
        self.connection.store(connection, Ordering::Relaxed);
        self.works.fetch_add(1, Ordering::SeqCst);
        front.inside.relay.enter(connection, &front.name, Some(self))
    }

    /// The server no longer works on the request.
    pub(crate) fn left(&self) {
        if self.works.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until no server works on the request.
    pub(crate) async fn over(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            // From here on nothing that is told is missed.
            idle.as_mut().enable();
            if self.works.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Asks the client, until nobody wants the answer any more.
    pub(crate) async fn ask(
        &self,
        question: Question,
        given_up: impl Future<Output = ()>,
    ) -> Result<Box<RawValue>, RpcError> {
        let topic = question.topic;
        tokio::select! {
            biased;
            answer = self.put(question) => answer,
            () = given_up => match topic {
                Topic::Elicitation => Ok(raw(&[("action", "cancel")].into_iter().collect::<BTreeMap<_, _>>())),
                _ => Err(RpcError::new(INTERNAL_ERROR, "nobody waits any more for what this was asked for")),
            },
        }
    }

    /// The client whose request it is, as long as it is there.
    pub(super) fn front(&self) -> Option<Arc<Front>> {
        self.front.upgrade()
    }

    pub(super) fn era(&self) -> Era {
        self.era
    }

    pub(super) fn outlet(&self) -> &dyn Outlet {
        &*self.outlet
    }

    pub(super) fn capabilities(&self) -> &str {
        &self.capabilities
    }

    /// The server that works on the request; empty while nobody does.
    pub(super) fn server(&self) -> &str {
        self.server.get().map_or("", String::as_str)
    }

    /// Whether a question that is meant for one of them finds the same client by the other.
    pub(crate) fn leads_to_the_client_of(&self, other: &Asker) -> bool {
        // Clients without a session share a front, and a request says nothing of another.
        std::ptr::eq(self, other) || (self.era == Era::Legacy && other.is_of(&self.front))
    }

    /// Whether the request is of this client, which has a session.
    fn is_of(&self, front: &Weak<Front>) -> bool {
        self.era == Era::Legacy && Weak::ptr_eq(&self.front, front)
    }

    /// What the client gets: the outcome, or an error where it was to be asked in a way that its era does not have.
    pub(super) fn settle(&self, outcome: Result<String, RpcError>) -> Result<String, RpcError> {
        let Some(topic) = self.unheard.get() else { return outcome };
        let (server, method) = (self.server(), topic.method());
        let message = format!(
            "server {server:?} asked {method} while it worked on the request, as servers before {MODERN_VERSION} do; a \
             client of {MODERN_VERSION} cannot be asked that way, so the question was declined. A client that begins with \
             initialize can answer it"
        );
        let mut data = Object::default();
        data.set("server", server);
        data.set("asked", method);
        // It may have done something all the same.
        match outcome.map(RawValue::from_string) {
            Ok(answer) => data.set("answer", &answer.ok()),
            Err(error) => data.set("error", &error.message),
        }
        Err(RpcError { data: Some(raw(&data)), ..RpcError::new(INTERNAL_ERROR, message) })
    }
}

impl Handler for Asker {
    fn topics(&self) -> Topics {
        // What a client can be asked is in its own words with each request.
        Topics::default()
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        Box::pin(self.ask(question, self.over()))
    }

    fn during(&self, _: u64) -> During {
        // What comes on the stream of a request is of that request.
        self.front.upgrade().map_or(During::Several, |front| During::One(Arc::clone(&front.name)))
    }
}

impl Asker {
    async fn put(&self, question: Question) -> Result<Box<RawValue>, RpcError> {
        let connection = self.connection.load(Ordering::Relaxed);
        let question = Question { server: self.server().to_owned(), connection, ..question };
        match (self.era, self.front.upgrade()) {
            (Era::Legacy, Some(front)) => front.ask(question, &*self.outlet, ASK_LIMIT).await,
            (Era::Legacy, None) => Nobody.answer(question).await,
            (Era::Modern, _) => {
                // Who has no roots says so in both eras, and servers go on without.
                if question.topic != Topic::Roots {
                    let _ = self.unheard.set(question.topic);
                }
                Nobody.answer(question).await
            }
        }
    }
}

impl Front {
    /// Asks the client something on behalf of a server, and waits for so long.
    async fn ask(&self, question: Question, outlet: &dyn Outlet, limit: Duration) -> Result<Box<RawValue>, RpcError> {
        self.check_askable(&question)?;
        let params = self.shown(&question)?;
        self.send_question(question.topic.method(), &params, outlet, limit).await
    }

    /// Sends a question as it is, and waits for the answer for so long.
    pub(super) async fn send_question(
        &self,
        method: &str,
        params: &str,
        outlet: &dyn Outlet,
        limit: Duration,
    ) -> Result<Box<RawValue>, RpcError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.asked().insert(id, sender);
        let _forget = Forget { front: self, id, outlet };
        let answered = async {
            match outlet.deliver(message::request(id, method, params)).await {
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
    pub(in crate::gateway) fn tell_elicited(&self, elicitation: &str) {
        if let Some(outlet) = &self.outlet {
            let params = format!(r#"{{"elicitationId":{}}}"#, message::quote(elicitation));
            outlet.tell(message::notification("notifications/elicitation/complete", Some(&params)));
        }
    }

    /// Whether the client said that it can do this.
    fn can(&self, capability: &str) -> bool {
        self.declared().get(capability).is_some()
    }

    /// What the client said that it can be asked.
    fn declared(&self) -> Object {
        self.session().capabilities.as_deref().and_then(Object::read).unwrap_or_default()
    }

    /// Refuses what the client did not say that it can be asked.
    fn check_askable(&self, question: &Question) -> Result<(), RpcError> {
        let method = question.topic.method();
        match lack(&self.declared(), question.topic, Some(&question.params)) {
            None => Ok(()),
            Some(Lack::Capability) => {
                let text = format!("the client of the gateway cannot answer {method}");
                Err(RpcError::new(METHOD_NOT_FOUND, text))
            }
            Some(Lack::Part(part)) => {
                let text = format!("the client of the gateway cannot answer {method} with {part:?}");
                Err(RpcError::new(INVALID_PARAMS, text))
            }
        }
    }

    /// A question as the client gets it: with the name of the server that asks, masked, and no longer than a result may be.
    fn shown(&self, question: &Question) -> Result<String, RpcError> {
        let failed = |error: LogicError| RpcError::new(INTERNAL_ERROR, error.to_string());
        let masked = self.gate.mask(&question.server, question.params.get()).map_err(failed)?;
        let read = |params: &str| Object::read(params).map(Object::unique);
        let (Some(mut shown), Some(asked)) = (read(&masked), read(question.params.get())) else {
            return Err(RpcError::new(INVALID_PARAMS, "the params of this question are no object that can be shown"));
        };
        label(&question.server, question.topic, &mut shown);
        if question.topic != Topic::Elicitation {
            return self.gate.fit(shown.to_text()).map_err(failed);
        }
        // A person goes to this very address, and the server says by this very name when it is done.
        for name in EXEMPT {
            if let Some(value) = asked.get(name) {
                shown.set(name, value);
            }
        }
        if let Some(id) = asked.get("elicitationId").and_then(json::text) {
            self.inside.relay.expect(question.connection, id, &self.me);
        }
        if self.gate.fit_but_for(&mut shown, "message").map_err(failed)? {
            return Ok(shown.to_text());
        }
        Err(RpcError::new(INVALID_PARAMS, "this question is longer than max_result_bytes of the gateway"))
    }

    /// The client answers what it was asked.
    pub(super) fn answered(&self, id: AnswerId, outcome: Result<String, RpcError>) {
        let AnswerId::Number(id) = id else { return };
        let Some(waiting) = self.asked().remove(&id) else { return };
        let outcome = outcome.and_then(|result| {
            RawValue::from_string(result).map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
        });
        // Whoever waited may have gone this moment.
        let _ = waiting.send(outcome);
    }
}

/// Forgets a question when nobody waits for its answer any more; a client that has yet to answer hears that.
struct Forget<'a> {
    front: &'a Front,
    id: u64,
    outlet: &'a dyn Outlet,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if self.front.asked().remove(&self.id).is_some() {
            let params = format!(r#"{{"requestId":{},"reason":"nobody waits for the answer any more"}}"#, self.id);
            self.outlet.tell(message::notification("notifications/cancelled", Some(&params)));
        }
    }
}

/// A person may think.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(600);
