//! What one server lists: asked for once for all who want it, and kept for those who come later.

use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use super::super::tools::Tools;
use super::{Lease, Link, Unavailable};
use crate::failure::Failed;
use crate::session::{Kind, Listing, News, Session};

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

/// What a server last listed, by kind.
pub(super) type Others = [Option<Arc<Listing>>; 4];

impl Link {
    /// What the server has of a kind beside its tools, asked for where the last list no longer holds.
    pub(crate) async fn others_of(&self, lease: &Lease, kind: Kind) -> Result<Arc<Listing>, Failed> {
        let listing = lease.session().list(kind).await?;
        self.others()[kind as usize] = Some(Arc::clone(&listing));
        Ok(listing)
    }

    /// What it last listed of a kind beside its tools, if it ever did; that may have changed since.
    pub(crate) fn known_others(&self, kind: Kind) -> Option<Arc<Listing>> {
        self.others()[kind as usize].clone()
    }

    /// Lets all who listen know that a list is there which they were shown without.
    pub(crate) fn tell_of(&self, kind: Kind) {
        match kind {
            Kind::Tools => self.opener.surroundings.tools_changed(),
            Kind::Prompts => self.pass_on(News::PromptsChanged),
            Kind::Resources | Kind::Templates => self.pass_on(News::ResourcesChanged),
        }
    }

    /// Which of the lists it gave last are longer than is taken.
    pub(super) fn cut_lists(&self) -> Vec<String> {
        let tools = self.cached().as_ref().and_then(|tools| tools.listing().cut.clone());
        let others = self.others();
        let others = others.iter().flatten().filter_map(|listing| listing.cut.clone());
        tools.into_iter().chain(others).collect()
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of the server, asked for where the last list no longer holds.
    pub async fn tools_of(&self, lease: &Lease) -> Result<Arc<Tools>, Unavailable> {
        self.list_tools(lease.session()).await
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
        self.opener.surroundings.match_rules(self.id(), &tools);
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
