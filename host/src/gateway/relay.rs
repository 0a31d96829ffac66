//! What servers ask of a client, brought to the client whose request they work on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use super::front::{Asker, Front};
use crate::failure::RpcError;
use crate::gate::{CallEvent, OnEvent};
use crate::session::{During, Handler, Nobody, Question, Topics};
use crate::transport::BoxFuture;

/// Brings questions of servers to clients. It is the handler of the registry that a gateway is built on.
#[derive(Default)]
pub struct Relay {
    /// The requests that each server works on, by its connection.
    working: Mutex<HashMap<u64, Vec<Work>, FxBuildHasher>>,
    /// The servers of which it was told that nobody knows whom they ask.
    confused: Mutex<HashSet<String>>,
    /// What clients were asked to do at an address of a server and may not have done yet, the oldest first.
    elicitations: Mutex<VecDeque<Elicitation>>,
}

/// What a person was asked to do at an address of a server.
struct Elicitation {
    connection: u64,
    id: String,
    front: Weak<Front>,
}

/// A request that a server works on.
struct Work {
    principal: Arc<str>,
    state: State,
}

enum State {
    /// Somebody waits for the answer, and may be asked, or not.
    Awaited(Option<Arc<Asker>>),
    /// Nobody waits for it any more, and the server may not know yet; until then it may log what is of the request.
    GivenUp { until: Instant },
}

/// A request that a server works on, for as long as this lives.
pub(super) struct Working {
    relay: Arc<Relay>,
    connection: u64,
    principal: Arc<str>,
    asker: Option<Arc<Asker>>,
    answered: bool,
}

/// Whom a server means with a question.
enum Meant {
    Client(Arc<Asker>),
    /// It works for several clients, and nobody knows for which of them it asks.
    Several,
    Nobody,
}

impl Relay {
    /// A server works on a request of this principal from now on; whoever can be asked for it is asked.
    pub(super) fn enter(
        self: &Arc<Self>,
        connection: u64,
        principal: &Arc<str>,
        asker: Option<&Arc<Asker>>,
    ) -> Working {
        let (principal, asker) = (Arc::clone(principal), asker.cloned());
        let work = Work { principal: Arc::clone(&principal), state: State::Awaited(asker.clone()) };
        self.working().entry(connection).or_default().push(work);
        Working { relay: Arc::clone(self), connection, principal, asker, answered: false }
    }

    /// A client is asked to do something at an address of a server, and hears when the server says that it is done.
    pub(super) fn expect(&self, connection: u64, id: String, front: &Weak<Front>) {
        let mut elicitations = self.elicitations();
        elicitations.retain(|known| known.front.strong_count() > 0);
        if elicitations.len() == MOST_ELICITATIONS {
            elicitations.pop_front();
        }
        elicitations.push_back(Elicitation { connection, id, front: Weak::clone(front) });
    }

    /// Notes for whom servers work, where nobody is there to be asked.
    pub(super) fn note(self: &Arc<Self>, principal: &str) -> OnEvent {
        let (relay, principal) = (Arc::clone(self), Arc::from(principal));
        let working: Mutex<Option<Working>> = Mutex::default();
        let set = move |now: Option<Working>| {
            std::mem::replace(&mut *working.lock().unwrap_or_else(PoisonError::into_inner), now)
        };
        Arc::new(move |event| match event {
            CallEvent::Requesting { connection, .. } => drop(set(Some(relay.enter(connection, &principal, None)))),
            CallEvent::Answered => set(None).into_iter().for_each(Working::end),
            _ => {}
        })
    }

    /// The one client that a server can mean; where it works for several, nobody knows which.
    fn meant(&self, connection: u64) -> Meant {
        let working = self.working();
        let works = working.get(&connection).into_iter().flatten();
        let mut askers = works.filter_map(|work| match &work.state {
            State::Awaited(asker) => Some(asker.as_ref()),
            State::GivenUp { .. } => None,
        });
        match askers.next() {
            None => Meant::Nobody,
            Some(Some(first)) if askers.all(|asker| asker.is_some_and(|asker| asker.leads_to_the_client_of(first))) => {
                Meant::Client(Arc::clone(first))
            }
            Some(None) if askers.all(|asker| asker.is_none()) => Meant::Nobody,
            Some(_) => Meant::Several,
        }
    }

    /// Waits until a server works on no request of this client any more.
    async fn deserted(&self, connection: u64, mut asker: Arc<Asker>) {
        loop {
            asker.over().await;
            let working = self.working();
            let works = working.get(&connection).into_iter().flatten();
            let mut askers = works.filter_map(|work| match &work.state {
                State::Awaited(asker) => asker.as_ref(),
                State::GivenUp { .. } => None,
            });
            match askers.find(|other| other.leads_to_the_client_of(&asker)) {
                Some(other) => asker = Arc::clone(other),
                None => return,
            }
        }
    }

    /// What a server hears where nobody knows whom it means; whoever runs the gateway hears of it once.
    fn confusion(&self, question: &Question) -> RpcError {
        let Question { server, topic, .. } = question;
        let mut confused = self.confused.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn working(&self) -> MutexGuard<'_, HashMap<u64, Vec<Work>, FxBuildHasher>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Relay {
    fn topics(&self) -> Topics {
        Topics { roots: true, roots_changed: true, sampling: true, elicitation: true, url_elicitation: true }
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let connection = question.connection;
        match self.meant(connection) {
            Meant::Client(asker) => Box::pin(async move {
                let deserted = self.deserted(connection, Arc::clone(&asker));
                asker.ask(question, deserted).await
            }),
            Meant::Several => Box::pin(std::future::ready(Err(self.confusion(&question)))),
            Meant::Nobody => Box::pin(async move { Nobody.answer(question).await }),
        }
    }

    fn during(&self, connection: u64) -> During {
        let (working, now) = (self.working(), Instant::now());
        let works = working.get(&connection).into_iter().flatten().filter(|work| work.counts(now));
        let mut awaited = false;
        let mut principals = works.map(|work| {
            awaited |= matches!(work.state, State::Awaited(_));
            &work.principal
        });
        let Some(first) = principals.next() else { return During::Nobody };
        let alone = principals.all(|other| other == first);
        match (alone, awaited) {
            (true, true) => During::One(Arc::clone(first)),
            (true, false) => During::Deserted(Arc::clone(first)),
            (false, _) => During::Several,
        }
    }

    fn elicited(&self, connection: u64, elicitation: &str) {
        let mut elicitations = self.elicitations();
        let is_it = |known: &Elicitation| known.connection == connection && known.id == elicitation;
        let Some(known) = elicitations.iter().position(is_it).and_then(|place| elicitations.remove(place)) else {
            return;
        };
        drop(elicitations);
        if let Some(front) = known.front.upgrade() {
            front.tell_elicited(elicitation);
        }
    }
}

impl Work {
    fn counts(&self, now: Instant) -> bool {
        !matches!(self.state, State::GivenUp { until } if until <= now)
    }

    fn is_of(&self, working: &Working) -> bool {
        let State::Awaited(asker) = &self.state else { return false };
        match (asker, &working.asker) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => self.principal == working.principal,
            _ => false,
        }
    }
}

impl Working {
    /// The server has answered: nothing that it says from now on is of the request.
    pub(super) fn end(mut self) {
        self.answered = true;
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut working = self.relay.working();
        let works = working.get_mut(&self.connection);
        if let Some(works) = works
            && let Some(place) = works.iter().position(|work| work.is_of(self))
        {
            let work = works.swap_remove(place);
            if !self.answered {
                works.push(Work { state: State::GivenUp { until: now + LINGER }, ..work });
            }
            works.retain(|work| work.counts(now));
            if works.is_empty() {
                working.remove(&self.connection);
            }
        }
        if !self.answered {
            working.retain(|_, works| works.iter().any(|work| work.counts(now)));
        }
        drop(working);
        if let Some(asker) = &self.asker {
            asker.left();
        }
    }
}

/// How long a server may go on with a request after it was told that nobody waits.
const LINGER: Duration = Duration::from_secs(10);
/// How many of them are remembered.
const MOST_ELICITATIONS: usize = 1024;
const INTERNAL_ERROR: i64 = -32603;
