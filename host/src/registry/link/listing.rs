//! The tools of one server: asked for once for all who want them, and kept for those who come later.

use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use super::super::tools::Tools;
use super::{Lease, Link, Unavailable};
use crate::failure::Failed;
use crate::session::{Kind, Listing, Session};

/// What came of asking for a list of tools.
type Listed = Result<Arc<Tools>, Failed>;

/// The lists of tools that were asked for.
#[derive(Default)]
pub(super) struct Lists {
    /// How many.
    count: u64,
    /// The session that was asked for the last one, and what came of it.
    last: Option<(Weak<Session>, Listed)>,
}

impl Link {
    /// The tools of the server, asked for where the last list no longer holds.
    pub async fn tools_of(&self, lease: &Lease) -> Result<Arc<Tools>, Unavailable> {
        self.list_tools(&lease.session).await
    }

    /// The last list of tools that the server gave, if it ever did.
    pub fn known_tools(&self) -> Option<Arc<Tools>> {
        self.cached().clone()
    }

    /// Asks over this session, one at a time.
    async fn list_tools(&self, session: &Arc<Session>) -> Result<Arc<Tools>, Unavailable> {
        let before = self.lists().count;
        let _turn = self.listing.acquire().await.expect("nobody closes the semaphore");
        if let Some(listed) = self.lists().since(before, session) {
            return listed.map_err(Unavailable::Failed);
        }
        self.listed(session, session.list(Kind::Tools).await).map_err(Unavailable::Failed)
    }

    /// Takes what came of asking for a list.
    pub(super) fn listed(&self, session: &Arc<Session>, listed: Result<Arc<Listing>, Failed>) -> Listed {
        let listed = listed.map(|listing| self.keep_tools(listing));
        self.lists().note(session, listed.clone());
        listed
    }

    pub(super) fn keep_tools(&self, listing: Arc<Listing>) -> Arc<Tools> {
        let mut cached = self.cached();
        let number = match &*cached {
            Some(tools) if tools.is_of(&listing) || tools.says_the_same(&listing) => return Arc::clone(tools),
            Some(tools) => tools.number + 1,
            None => 1,
        };
        let tools = Arc::new(Tools::read(listing, number));
        *cached = Some(Arc::clone(&tools));
        drop(cached);
        self.opener.surroundings.tools_changed();
        tools
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cached(&self) -> MutexGuard<'_, Option<Arc<Tools>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists {
    fn note(&mut self, session: &Arc<Session>, listed: Listed) {
        self.count += 1;
        self.last = Some((Arc::downgrade(session), listed));
    }

    /// What came of asking this session since there were so many lists: who waited for that need not wait for another.
    fn since(&self, before: u64, session: &Arc<Session>) -> Option<Listed> {
        let (asked, listed) = self.last.as_ref().filter(|_| self.count > before)?;
        asked.ptr_eq(&Arc::downgrade(session)).then(|| listed.clone())
    }
}
