//! The lists of one server: requested once for all waiting callers, and cached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Semaphore;

use super::super::tools::ToolList;
use super::{Lease, Link, Unavailable};
use crate::failure::RequestError;
use crate::session::{ListKind, Listing, ServerEvent, Session};

/// The outcome of a request for the list of tools.
type ListOutcome = Result<Arc<ToolList>, RequestError>;

/// The last lists of a server.
pub(super) struct ServerLists {
    tools: Mutex<Option<Arc<ToolList>>>,
    /// Allows one request for the tools at a time; waiting callers share its result.
    pub(super) permit: Arc<Semaphore>,
    attempts: Mutex<ListAttempts>,
    /// The other lists, by kind.
    others: Mutex<OtherListings>,
}

impl Default for ServerLists {
    fn default() -> Self {
        let (tools, attempts, others) = Default::default();
        ServerLists { tools, permit: Arc::new(Semaphore::new(1)), attempts, others }
    }
}

/// The requests for the list of tools so far.
#[derive(Default)]
struct ListAttempts {
    /// How many requests there were.
    count: u64,
    /// The session of the last request, and its outcome.
    last: Option<(Weak<Session>, ListOutcome)>,
}

type OtherListings = [Option<Arc<Listing>>; 4];

impl Link {
    /// Returns a list other than the tools, and requests it if the cached one is out of date.
    pub(crate) async fn list_others(&self, lease: &Lease, kind: ListKind) -> Result<Arc<Listing>, RequestError> {
        let listing = lease.session().list(kind).await?;
        self.other_lists()[kind as usize] = Some(Arc::clone(&listing));
        Ok(listing)
    }

    /// Returns the last known list of a kind other than the tools; it may be out of date.
    pub(crate) fn known_others(&self, kind: ListKind) -> Option<Arc<Listing>> {
        self.other_lists()[kind as usize].clone()
    }

    /// Announces a list that callers did not get before.
    pub(crate) fn announce_list(&self, kind: ListKind) {
        match kind {
            ListKind::Tools => self.opener.context.notices.tools_changed(),
            ListKind::Prompts => self.broadcast(ServerEvent::PromptsChanged),
            ListKind::Resources | ListKind::Templates => self.broadcast(ServerEvent::ResourcesChanged),
        }
    }

    /// Returns which of the last lists exceeded a limit and were cut.
    pub(super) fn cut_lists(&self) -> Vec<String> {
        let tools = self.cached().as_ref().and_then(|tools| tools.listing().cut.clone());
        let others = self.other_lists();
        let others = others.iter().flatten().filter_map(|listing| listing.cut.clone());
        tools.into_iter().chain(others).collect()
    }

    fn other_lists(&self) -> MutexGuard<'_, OtherListings> {
        self.lists.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools of the server, and requests them if the cached list is out of date.
    pub async fn tools_of(&self, lease: &Lease) -> Result<Arc<ToolList>, Unavailable> {
        self.list_tools(lease.session()).await
    }

    /// Returns the last list of tools, if there ever was one.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.cached().clone()
    }

    /// Reports whether the server announced other tools, which it has yet to list.
    pub(crate) fn has_outdated_tools(&self) -> bool {
        self.opener.has_outdated_tools()
    }

    /// Requests the tools over this session, one request at a time.
    async fn list_tools(&self, session: &Arc<Session>) -> Result<Arc<ToolList>, Unavailable> {
        let before = self.attempts().count;
        let _turn = self.lists.permit.acquire().await.expect("nobody closes the semaphore");
        if let Some(listed) = self.attempts().since(before, session) {
            return listed.map_err(Unavailable::Failed);
        }
        self.note_list(session, session.list(ListKind::Tools).await).map_err(Unavailable::Failed)
    }

    /// Stores the outcome of a request for the list of tools.
    pub(super) fn note_list(&self, session: &Arc<Session>, listed: Result<Arc<Listing>, RequestError>) -> ListOutcome {
        let listed = listed.map(|listing| self.keep_tools(listing));
        if listed.is_ok() {
            self.opener.set_tools_outdated(false);
            // The server may have announced others meanwhile.
            if session.has_changed_tools() {
                self.opener.set_tools_outdated(true);
            }
        }
        self.attempts().note(session, listed.clone());
        listed
    }

    pub(super) fn keep_tools(&self, listing: Arc<Listing>) -> Arc<ToolList> {
        let mut cached = self.cached();
        let number = match &*cached {
            Some(tools) if tools.is_of(&listing) || tools.says_the_same(&listing) => return Arc::clone(tools),
            Some(tools) => tools.number + 1,
            None => 1,
        };
        let tools = Arc::new(ToolList::read(listing, number));
        tracing::debug!(server = self.id(), tools = tools.definitions.len(), "the server has listed its tools");
        *cached = Some(Arc::clone(&tools));
        drop(cached);
        self.opener.context.match_rules(self.id(), &tools);
        self.opener.context.notices.tools_changed();
        tools
    }

    fn attempts(&self) -> MutexGuard<'_, ListAttempts> {
        self.lists.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cached(&self) -> MutexGuard<'_, Option<Arc<ToolList>>> {
        self.lists.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListAttempts {
    fn note(&mut self, session: &Arc<Session>, listed: ListOutcome) {
        self.count += 1;
        self.last = Some((Arc::downgrade(session), listed));
    }

    /// Returns the outcome of a request to this session after the first `before`, so that waiting callers share it.
    fn since(&self, before: u64, session: &Arc<Session>) -> Option<ListOutcome> {
        let (asked, listed) = self.last.as_ref().filter(|_| self.count > before)?;
        asked.ptr_eq(&Arc::downgrade(session)).then(|| listed.clone())
    }
}
