//! What one server lists: asked for once for all who want it, and kept for those who come later.

use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use super::super::tools::ToolList;
use super::{Lease, Link, Unavailable};
use crate::failure::RequestError;
use crate::session::{ListKind, Listing, ServerEvent, Session};

/// What came of asking for a list of tools.
type ListOutcome = Result<Arc<ToolList>, RequestError>;

/// The lists of tools that were asked for.
#[derive(Default)]
pub(super) struct ListAttempts {
    /// How many.
    count: u64,
    /// The session that was asked for the last one, and what came of it.
    last: Option<(Weak<Session>, ListOutcome)>,
}

/// What a server last listed, by kind.
pub(super) type OtherListings = [Option<Arc<Listing>>; 4];

impl Link {
    /// What the server has of a kind beside its tools, asked for where the last list no longer holds.
    pub(crate) async fn list_others(&self, lease: &Lease, kind: ListKind) -> Result<Arc<Listing>, RequestError> {
        let listing = lease.session().list(kind).await?;
        self.other_lists()[kind as usize] = Some(Arc::clone(&listing));
        Ok(listing)
    }

    /// What it last listed of a kind beside its tools, if it ever did; that may have changed since.
    pub(crate) fn known_others(&self, kind: ListKind) -> Option<Arc<Listing>> {
        self.other_lists()[kind as usize].clone()
    }

    /// Lets all who listen know that a list is there which they were shown without.
    pub(crate) fn announce_list(&self, kind: ListKind) {
        match kind {
            ListKind::Tools => self.opener.context.tools_changed(),
            ListKind::Prompts => self.broadcast(ServerEvent::PromptsChanged),
            ListKind::Resources | ListKind::Templates => self.broadcast(ServerEvent::ResourcesChanged),
        }
    }

    /// Which of the lists it gave last are longer than is taken.
    pub(super) fn cut_lists(&self) -> Vec<String> {
        let tools = self.cached().as_ref().and_then(|tools| tools.listing().cut.clone());
        let others = self.other_lists();
        let others = others.iter().flatten().filter_map(|listing| listing.cut.clone());
        tools.into_iter().chain(others).collect()
    }

    fn other_lists(&self) -> MutexGuard<'_, OtherListings> {
        self.other_lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of the server, asked for where the last list no longer holds.
    pub async fn tools_of(&self, lease: &Lease) -> Result<Arc<ToolList>, Unavailable> {
        self.list_tools(lease.session()).await
    }

    /// The last list of tools that the server gave, if it ever did.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.cached().clone()
    }

    /// Asks over this session, one at a time.
    async fn list_tools(&self, session: &Arc<Session>) -> Result<Arc<ToolList>, Unavailable> {
        let before = self.lists().count;
        let _turn = self.listing.acquire().await.expect("nobody closes the semaphore");
        if let Some(listed) = self.lists().since(before, session) {
            return listed.map_err(Unavailable::Failed);
        }
        self.note_list(session, session.list(ListKind::Tools).await).map_err(Unavailable::Failed)
    }

    /// Takes what came of asking for a list.
    pub(super) fn note_list(&self, session: &Arc<Session>, listed: Result<Arc<Listing>, RequestError>) -> ListOutcome {
        let listed = listed.map(|listing| self.keep_tools(listing));
        self.lists().note(session, listed.clone());
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
        *cached = Some(Arc::clone(&tools));
        drop(cached);
        self.opener.context.match_rules(self.id(), &tools);
        self.opener.context.tools_changed();
        tools
    }

    fn lists(&self) -> MutexGuard<'_, ListAttempts> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cached(&self) -> MutexGuard<'_, Option<Arc<ToolList>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListAttempts {
    fn note(&mut self, session: &Arc<Session>, listed: ListOutcome) {
        self.count += 1;
        self.last = Some((Arc::downgrade(session), listed));
    }

    /// What came of asking this session since there were so many lists: who waited for that need not wait for another.
    fn since(&self, before: u64, session: &Arc<Session>) -> Option<ListOutcome> {
        let (asked, listed) = self.last.as_ref().filter(|_| self.count > before)?;
        asked.ptr_eq(&Arc::downgrade(session)).then(|| listed.clone())
    }
}
