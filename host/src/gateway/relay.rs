//! What servers ask of a client, brought to the client whose call they work on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::value::RawValue;

use super::front::Front;
use crate::failure::RpcError;
use crate::session::{Handler, Nobody, Question, Topics};
use crate::transport::BoxFuture;

/// Brings questions of servers to clients. It is the handler of the registry that a gateway is built on.
#[derive(Default)]
pub struct Relay {
    /// The clients whose calls each server works on.
    working: Mutex<HashMap<String, Vec<Weak<Front>>>>,
}

/// A call that a server works on, for as long as this lives.
pub(super) struct Working {
    relay: Arc<Relay>,
    server: String,
    front: Weak<Front>,
}

impl Relay {
    /// A server works on a call of this client from now on.
    pub(super) fn enter(self: &Arc<Self>, server: &str, front: &Weak<Front>) -> Working {
        self.working().entry(server.to_owned()).or_default().push(Weak::clone(front));
        Working { relay: Arc::clone(self), server: server.to_owned(), front: Weak::clone(front) }
    }

    /// The one client that a server can mean; where it works for several, nobody knows which.
    fn meant(&self, server: &str) -> Option<Arc<Front>> {
        let working = self.working();
        let mut fronts = working.get(server)?.iter();
        let first = fronts.next()?;
        fronts.all(|front| Weak::ptr_eq(front, first)).then(|| first.upgrade()).flatten()
    }

    fn working(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<Front>>>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Relay {
    fn topics(&self) -> Topics {
        Topics { roots: true, sampling: true, elicitation: true, url_elicitation: true }
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        match self.meant(&question.server) {
            Some(front) => Box::pin(async move { front.ask(question).await }),
            None => Box::pin(async move { Nobody.answer(question).await }),
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut working = self.relay.working();
        let Some(fronts) = working.get_mut(&self.server) else { return };
        if let Some(place) = fronts.iter().position(|front| Weak::ptr_eq(front, &self.front)) {
            fronts.swap_remove(place);
        }
        if fronts.is_empty() {
            working.remove(&self.server);
        }
    }
}
