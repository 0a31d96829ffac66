//! What servers ask of a client, brought to the client whose request they work on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use super::client_session::{ClientRequest, ClientSession};
use crate::failure::RpcError;
use crate::gate::{CallEvent, OnEvent};
use crate::rpc::code::INTERNAL_ERROR;
use crate::session::{ActiveCallers, Handler, NullHandler, ServerQuestion, Topics};
use crate::transport::BoxFuture;

/// Brings questions of servers to clients. It is the handler of the registry that a gateway is built on.
#[derive(Default)]
pub struct Relay {
    /// The requests that each server works on, by its connection.
    active: Mutex<HashMap<u64, Vec<ActiveRequest>, FxBuildHasher>>,
    /// The servers of which it was told that nobody knows whom they ask.
    ambiguous_servers: Mutex<HashSet<String>>,
    /// What clients were asked to do at an address of a server and may not have done yet, the oldest first.
    elicitations: Mutex<VecDeque<Elicitation>>,
}

/// What a person was asked to do at an address of a server.
struct Elicitation {
    connection: u64,
    id: String,
    client: Weak<ClientSession>,
}

/// A request that a server works on.
struct ActiveRequest {
    principal: Arc<str>,
    state: RequestState,
}

enum RequestState {
    /// Somebody waits for the answer, and may be asked, or not.
    Awaited(Option<Arc<ClientRequest>>),
    /// Nobody waits for it any more, and the server may not know yet; until then it may log what is of the request.
    GivenUp { until: Instant },
}

/// A request that a server works on, for as long as this lives.
pub(super) struct WorkGuard {
    relay: Arc<Relay>,
    connection: u64,
    principal: Arc<str>,
    request: Option<Arc<ClientRequest>>,
    answered: bool,
}

/// Whom a server means with a question.
enum QuestionTarget {
    Client(Arc<ClientRequest>),
    /// It works for several clients, and nobody knows for which of them it asks.
    Several,
    Nobody,
}

impl Relay {
    /// A server works on a request of this principal from now on; whoever can be asked for it is asked.
    pub(super) fn start_work(
        self: &Arc<Self>,
        connection: u64,
        principal: &Arc<str>,
        request: Option<&Arc<ClientRequest>>,
    ) -> WorkGuard {
        let (principal, request) = (Arc::clone(principal), request.cloned());
        let active = ActiveRequest { principal: Arc::clone(&principal), state: RequestState::Awaited(request.clone()) };
        self.active().entry(connection).or_default().push(active);
        WorkGuard { relay: Arc::clone(self), connection, principal, request, answered: false }
    }

    /// A client is asked to do something at an address of a server, and hears when the server says that it is done.
    pub(super) fn expect_elicitation(&self, connection: u64, id: String, client: &Weak<ClientSession>) {
        let mut elicitations = self.elicitations();
        elicitations.retain(|known| known.client.strong_count() > 0);
        if elicitations.len() == MOST_ELICITATIONS {
            elicitations.pop_front();
        }
        elicitations.push_back(Elicitation { connection, id, client: Weak::clone(client) });
    }

    /// Notes for whom servers work, where nobody is there to be asked.
    pub(super) fn track_work(self: &Arc<Self>, principal: &str) -> OnEvent {
        let (relay, principal) = (Arc::clone(self), Arc::from(principal));
        let working: Mutex<Option<WorkGuard>> = Mutex::default();
        let set = move |now: Option<WorkGuard>| {
            std::mem::replace(&mut *working.lock().unwrap_or_else(PoisonError::into_inner), now)
        };
        Arc::new(move |event| match event {
            CallEvent::Requesting { connection, .. } => drop(set(Some(relay.start_work(connection, &principal, None)))),
            CallEvent::Answered => set(None).into_iter().for_each(WorkGuard::end),
            _ => {}
        })
    }

    /// The one client that a server can mean; where it works for several, nobody knows which.
    fn question_target(&self, connection: u64) -> QuestionTarget {
        let working = self.active();
        let works = working.get(&connection).into_iter().flatten();
        let mut askers = works.filter_map(|active| match &active.state {
            RequestState::Awaited(request) => Some(request.as_ref()),
            RequestState::GivenUp { .. } => None,
        });
        match askers.next() {
            None => QuestionTarget::Nobody,
            Some(Some(first))
                if askers.all(|request| request.is_some_and(|request| request.has_same_client(first))) =>
            {
                QuestionTarget::Client(Arc::clone(first))
            }
            Some(None) if askers.all(|request| request.is_none()) => QuestionTarget::Nobody,
            Some(_) => QuestionTarget::Several,
        }
    }

    /// Waits until a server works on no request of this client any more.
    async fn wait_abandoned(&self, connection: u64, mut request: Arc<ClientRequest>) {
        loop {
            request.wait_idle().await;
            let working = self.active();
            let works = working.get(&connection).into_iter().flatten();
            let mut askers = works.filter_map(|active| match &active.state {
                RequestState::Awaited(request) => request.as_ref(),
                RequestState::GivenUp { .. } => None,
            });
            match askers.find(|other| other.has_same_client(&request)) {
                Some(other) => request = Arc::clone(other),
                None => return,
            }
        }
    }

    /// What a server hears where nobody knows whom it means; whoever runs the gateway hears of it once.
    fn ambiguity_error(&self, question: &ServerQuestion) -> RpcError {
        let ServerQuestion { server, topic, .. } = question;
        let mut confused = self.ambiguous_servers.lock().unwrap_or_else(PoisonError::into_inner);
        if confused.insert(server.clone()) {
            warn!(
                server,
                "it asks {} while it works for several clients, and does not say for which; with `shared: false` \
                 each client has a server of its own",
                topic.method()
            );
        }
        let message = format!(
            "several clients use this server at this moment, and {} does not say which of them is asked; with \
             `shared: false` each has a server of its own",
            topic.method()
        );
        RpcError::new(INTERNAL_ERROR, message)
    }

    fn elicitations(&self) -> MutexGuard<'_, VecDeque<Elicitation>> {
        self.elicitations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active(&self) -> MutexGuard<'_, HashMap<u64, Vec<ActiveRequest>, FxBuildHasher>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Relay {
    fn topics(&self) -> Topics {
        Topics { roots: true, roots_changed: true, sampling: true, elicitation: true, url_elicitation: true }
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let connection = question.connection;
        match self.question_target(connection) {
            QuestionTarget::Client(request) => Box::pin(async move {
                let deserted = self.wait_abandoned(connection, Arc::clone(&request));
                request.ask(question, deserted).await
            }),
            QuestionTarget::Several => Box::pin(std::future::ready(Err(self.ambiguity_error(&question)))),
            QuestionTarget::Nobody => Box::pin(async move { NullHandler.answer(question).await }),
        }
    }

    fn active_callers(&self, connection: u64) -> ActiveCallers {
        let (working, now) = (self.active(), Instant::now());
        let works = working.get(&connection).into_iter().flatten().filter(|active| active.counts(now));
        let mut awaited = false;
        let mut principals = works.map(|active| {
            awaited |= matches!(active.state, RequestState::Awaited(_));
            &active.principal
        });
        let Some(first) = principals.next() else { return ActiveCallers::Unknown };
        let alone = principals.all(|other| other == first);
        match (alone, awaited) {
            (true, true) => ActiveCallers::One(Arc::clone(first)),
            (true, false) => ActiveCallers::Abandoned(Arc::clone(first)),
            (false, _) => ActiveCallers::Several,
        }
    }

    fn elicitation_completed(&self, connection: u64, elicitation: &str) {
        let mut elicitations = self.elicitations();
        let is_it = |known: &Elicitation| known.connection == connection && known.id == elicitation;
        let Some(known) = elicitations.iter().position(is_it).and_then(|place| elicitations.remove(place)) else {
            return;
        };
        drop(elicitations);
        if let Some(client) = known.client.upgrade() {
            client.notify_elicited(elicitation);
        }
    }
}

impl ActiveRequest {
    fn counts(&self, now: Instant) -> bool {
        !matches!(self.state, RequestState::GivenUp { until } if until <= now)
    }

    fn is_of(&self, working: &WorkGuard) -> bool {
        let RequestState::Awaited(request) = &self.state else { return false };
        match (request, &working.request) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => self.principal == working.principal,
            _ => false,
        }
    }
}

impl WorkGuard {
    /// The server has answered: nothing that it says from now on is of the request.
    pub(super) fn end(mut self) {
        self.answered = true;
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut working = self.relay.active();
        let works = working.get_mut(&self.connection);
        if let Some(works) = works
            && let Some(place) = works.iter().position(|active| active.is_of(self))
        {
            let active = works.swap_remove(place);
            if !self.answered {
                works.push(ActiveRequest { state: RequestState::GivenUp { until: now + LINGER }, ..active });
            }
            works.retain(|active| active.counts(now));
            if works.is_empty() {
                working.remove(&self.connection);
            }
        }
        if !self.answered {
            working.retain(|_, works| works.iter().any(|active| active.counts(now)));
        }
        drop(working);
        if let Some(request) = &self.request {
            request.finish_work();
        }
    }
}

/// How long a server may go on with a request after it was told that nobody waits.
const LINGER: Duration = Duration::from_secs(10);
/// How many of them are remembered.
const MOST_ELICITATIONS: usize = 1024;
