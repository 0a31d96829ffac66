//! What servers ask of a client, brought to the client whose request they work on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::value::RawValue;

use super::front::{Asker, Front};
use crate::failure::RpcError;
use crate::session::{Handler, Nobody, Question, Topics};
use crate::transport::BoxFuture;

/// Brings questions of servers to clients. It is the handler of the registry that a gateway is built on.
#[derive(Default)]
pub struct Relay {
    /// The requests that each server works on.
    working: Mutex<HashMap<String, Vec<Arc<Asker>>>>,
}

/// A request that a server works on, for as long as this lives.
pub(super) struct Working {
    relay: Arc<Relay>,
    server: String,
    asker: Arc<Asker>,
}

impl Relay {
    /// A server works on this request from now on.
    pub(super) fn enter(self: &Arc<Self>, server: &str, asker: &Arc<Asker>) -> Working {
        self.working().entry(server.to_owned()).or_default().push(Arc::clone(asker));
        Working { relay: Arc::clone(self), server: server.to_owned(), asker: Arc::clone(asker) }
    }

    /// Whether a server works on a request of this client.
    pub(super) fn works_for(&self, server: &str, front: &Weak<Front>) -> bool {
        self.working().get(server).is_some_and(|askers| askers.iter().any(|asker| asker.is_of(front)))
    }

    /// A request of the one client that a server can mean; where it works for several, nobody knows which.
    fn meant(&self, server: &str) -> Option<Arc<Asker>> {
        let working = self.working();
        let mut askers = working.get(server)?.iter();
        let first = askers.next()?;
        askers.all(|asker| asker.leads_to_the_client_of(first)).then(|| Arc::clone(first))
    }

    fn working(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Asker>>>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Relay {
    fn topics(&self) -> Topics {
        Topics { roots: true, sampling: true, elicitation: true, url_elicitation: true }
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        match self.meant(&question.server) {
            Some(asker) => Box::pin(async move { asker.answer(question).await }),
            None => Box::pin(async move { Nobody.answer(question).await }),
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut working = self.relay.working();
        let Some(askers) = working.get_mut(&self.server) else { return };
        if let Some(place) = askers.iter().position(|asker| Arc::ptr_eq(asker, &self.asker)) {
            askers.swap_remove(place);
        }
        if askers.is_empty() {
            working.remove(&self.server);
        }
    }
}
