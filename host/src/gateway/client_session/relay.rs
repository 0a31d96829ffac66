//! Brings the questions of servers to the client whose request they work on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use super::ClientSession;
use super::client_request::ClientRequest;
use crate::failure::RpcError;
use crate::gate::{CallEvent, OnEvent};
use crate::lock::lock;
use crate::rpc::code::INTERNAL_ERROR;
use crate::session::{ActiveCallers, Handler, NullHandler, ServerQuestion, Topics};
use crate::transport::BoxFuture;

/// Brings the questions of servers to clients; it is the handler of the registry that a gateway is built on.
#[derive(Default)]
pub struct Relay {
    /// The requests that each server works on, by connection.
    active: Mutex<ActiveRequests>,
    /// The number of the last request.
    last: AtomicU64,
    /// The servers for which an ambiguous question was already logged.
    ambiguous_servers: Mutex<HashSet<String>>,
    /// URL elicitations that may not be complete yet, oldest first.
    elicitations: Mutex<VecDeque<Elicitation>>,
}

type ActiveRequests = HashMap<u64, Vec<ActiveRequest>, FxBuildHasher>;

/// A URL elicitation: something that a person was asked to do at a URL of a server.
struct Elicitation {
    connection: u64,
    id: String,
    client: Weak<ClientSession>,
}

/// A request that a server works on.
struct ActiveRequest {
    number: u64,
    principal: Arc<str>,
    state: RequestState,
}

enum RequestState {
    /// The caller waits for the result; it can be asked if there is a `ClientRequest`.
    Awaited(Option<Arc<ClientRequest>>),
    /// The caller gave up, which the server may not know yet; until then it may log messages of the request.
    GivenUp { until: Instant },
}

/// Marks a request as worked on by a server until it is dropped.
pub(super) struct WorkGuard {
    relay: Arc<Relay>,
    connection: u64,
    number: u64,
    request: Option<Arc<ClientRequest>>,
    answered: bool,
}

/// The client that a server's question is for.
enum QuestionTarget {
    Client(Arc<ClientRequest>),
    /// The server works for several clients, and the question does not say which one it is for.
    Several,
    Nobody,
}

/// Notes that a server works on a client's request; its questions go to the client.
pub(super) fn start_work(
    client: &ClientSession,
    request: &Arc<ClientRequest>,
    server: &str,
    connection: u64,
) -> WorkGuard {
    request.start_work(server, connection);
    client.gateway.relay.start_work(connection, &client.name, Some(request))
}

impl Relay {
    /// Notes that a server works on a request of this principal; its questions go to `request`, if there is one.
    fn start_work(
        self: &Arc<Self>,
        connection: u64,
        principal: &Arc<str>,
        request: Option<&Arc<ClientRequest>>,
    ) -> WorkGuard {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (principal, request) = (Arc::clone(principal), request.cloned());
        let active = ActiveRequest { number, principal, state: RequestState::Awaited(request.clone()) };
        lock(&self.active).entry(connection).or_default().push(active);
        WorkGuard { relay: Arc::clone(self), connection, number, request, answered: false }
    }

    /// Remembers a URL elicitation, so that the client is notified when the server reports that it is complete.
    pub(super) fn expect_elicitation(&self, connection: u64, id: String, client: Weak<ClientSession>) {
        let mut elicitations = lock(&self.elicitations);
        elicitations.retain(|known| known.client.strong_count() > 0);
        if elicitations.len() == MOST_ELICITATIONS {
            elicitations.pop_front();
        }
        elicitations.push_back(Elicitation { connection, id, client });
    }

    /// Returns a listener that notes which principal a call is for, if there is no client that can be asked.
    pub(in crate::gateway) fn track_work(self: &Arc<Self>, principal: &str) -> OnEvent {
        let (relay, principal) = (Arc::clone(self), Arc::from(principal));
        let working: Mutex<Option<WorkGuard>> = Mutex::default();
        let set = move |now: Option<WorkGuard>| std::mem::replace(&mut *lock(&working), now);
        Arc::new(move |event| match event {
            CallEvent::Requesting { connection, .. } => drop(set(Some(relay.start_work(connection, &principal, None)))),
            CallEvent::Answered => set(None).into_iter().for_each(WorkGuard::end),
            _ => {}
        })
    }

    /// Returns the client that a server's question can be for; if the server works for several, this is ambiguous.
    fn question_target(&self, connection: u64) -> QuestionTarget {
        let active = lock(&self.active);
        let mut askers = awaited(&active, connection);
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

    /// Waits until a server works on no request of this client.
    async fn wait_abandoned(&self, connection: u64, mut request: Arc<ClientRequest>) {
        loop {
            request.wait_idle().await;
            let active = lock(&self.active);
            match awaited(&active, connection).flatten().find(|other| other.has_same_client(&request)) {
                Some(other) => request = Arc::clone(other),
                None => return,
            }
        }
    }

    /// Returns the error for a question that could be for several clients, and logs a warning once per server.
    fn ambiguity_error(&self, question: &ServerQuestion) -> RpcError {
        let ServerQuestion { server, topic, .. } = question;
        let mut confused = lock(&self.ambiguous_servers);
        if confused.insert(server.clone()) {
            warn!(
                server,
                "the server sent {}, which could be for several clients and was refused; set `shared: false` to give \
                 each client its own server",
                topic.method()
            );
        }
        let message = format!(
            "several clients are using this server, and {} does not say which of them is asked; set \
             `shared: false` in the gateway to give each its own server",
            topic.method()
        );
        RpcError::new(INTERNAL_ERROR, message)
    }
}

/// Returns the requests that a server works on and whose callers wait, each with the client that can be asked.
fn awaited(active: &ActiveRequests, connection: u64) -> impl Iterator<Item = Option<&Arc<ClientRequest>>> {
    active.get(&connection).into_iter().flatten().filter_map(|active| match &active.state {
        RequestState::Awaited(request) => Some(request.as_ref()),
        RequestState::GivenUp { .. } => None,
    })
}

impl Handler for Relay {
    fn topics(&self) -> Topics {
        Topics::ALL
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
        let (working, now) = (lock(&self.active), Instant::now());
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
        let mut elicitations = lock(&self.elicitations);
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
}

impl WorkGuard {
    /// Marks the request as answered: messages that the server logs from now on do not belong to it.
    pub(super) fn end(mut self) {
        self.answered = true;
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut working = lock(&self.relay.active);
        let works = working.get_mut(&self.connection);
        if let Some(works) = works
            && let Some(place) = works.iter().position(|active| active.number == self.number)
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

/// How long a server may go on with a request after it was cancelled.
const LINGER: Duration = Duration::from_secs(10);
/// The maximum number of remembered URL elicitations.
const MOST_ELICITATIONS: usize = 1024;
