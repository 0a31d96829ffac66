//! What servers offer to a gate, and how that is kept true.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tracing::warn;

use super::{Core, Current, Gate, GateError, failures};
use crate::decide::Decide;
use crate::failure::{Failed, Failure};
use crate::logic::types::{Phase, catalog, recovery};
use crate::registry::{Lease, Link, Tools, Unavailable};

/// What became of an attempt to bring all offers up to date.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// Servers that cannot be used, and why.
    pub failed: Vec<(String, Unavailable)>,
    /// Tools that are not as in the last offer of their server; a first offer changes nothing.
    pub changes: Vec<ToolChange>,
}

/// A tool that is not as before.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolChange {
    /// The server of the tool.
    pub server: String,
    /// Its name on its server.
    pub tool: String,
    /// What is not as before.
    pub change: catalog::Change,
}

impl Gate {
    /// Connects all servers that the gate may use, side by side, and takes what they offer now. One that is being
    /// restarted offers what it did before, and is not waited for; nor is one that has failed to start.
    pub async fn refresh(&self) -> Refreshed {
        let links = self.links();
        let offers = links.iter().map(|link| async move {
            let offer = match link.known_tools().filter(|_| link.is_restarting()) {
                Some(tools) => self.take_tools(link, &tools),
                None => match link.lease_if_it_starts().await {
                    Ok(lease) => self.offer(link, lease).await.map(|(_, changes)| changes),
                    Err(why) => Err(why),
                },
            };
            (link.id().to_owned(), offer)
        });
        let mut refreshed = Refreshed::default();
        for (server, outcome) in futures_util::future::join_all(offers).await {
            match outcome {
                Ok(changes) => refreshed.changes.extend(changes),
                Err(why) => refreshed.failed.push((server, why)),
            }
        }
        refreshed
    }

    /// Takes what servers are known to offer, without asking any.
    pub fn take_known(&self) {
        self.take_known_into(&self.core());
    }

    fn take_known_into(&self, core: &Core) {
        let is_current = core.edition == self.registry.edition();
        for link in self.links() {
            let taken = match link.known_tools() {
                _ if link.is_disabled() => core.withdraw(link.id()),
                Some(tools) => core.offer(link.id(), &tools, is_current).map(drop),
                None => Ok(()),
            };
            if let Err(error) = taken {
                warn!(server = link.id(), "its tools cannot be taken: {error}");
            }
        }
    }

    /// Connects a server, takes what it offers, and keeps it for as long as the lease is held.
    pub async fn connect(&self, link: &Link) -> Result<Lease, Unavailable> {
        Ok(self.offer(link, link.lease().await?).await?.0)
    }

    async fn offer(&self, link: &Link, mut lease: Lease) -> Result<(Lease, Vec<ToolChange>), Unavailable> {
        let mut listed = link.tools_of(&lease).await;
        if let Err(Unavailable::Failed(failed)) = &listed
            && let Some(OnceMore { pause, new_session }) = self.once_more(link, failed)
        {
            tokio::time::sleep(pause).await;
            if new_session {
                link.give_up(lease.session());
                lease = link.lease().await?;
            }
            listed = link.tools_of(&lease).await;
        }
        let tools = listed?;
        Ok((lease, self.take_tools(link, &tools)?))
    }

    /// Whether and how a list is asked for a second time: a site that is busy or lost the session may be well again.
    fn once_more(&self, link: &Link, failed: &Failed) -> Option<OnceMore> {
        let Failure::Http(error) = &failed.failure else { return None };
        let phase = if failed.sent { Phase::Sent } else { Phase::NotSent };
        let retry = recovery::RetryPolicy::Safe;
        let context = recovery::Context { phase, attempt: 1, read_only: true, idempotent: true, retry };
        let failure = (&failed.failure).into();
        let decision = self.core().pool.ask(0, |logic| logic.classify(&failure, context)).ok()?;
        let new_session = match decision.action {
            recovery::Action::RetrySameSession => false,
            recovery::Action::RetryNewSession => true,
            _ => return None,
        };
        let pause = error.retry_after.unwrap_or(if new_session { Duration::ZERO } else { PAUSE });
        (pause < link.server().timeouts.list).then_some(OnceMore { pause, new_session })
    }

    fn take_tools(&self, link: &Link, tools: &Arc<Tools>) -> Result<Vec<ToolChange>, Unavailable> {
        // A gate that was opened before a server was configured knows nothing of it.
        let core = if self.core().edition == self.registry.edition() { self.core() } else { self.sync() };
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for retired in retired.iter().filter_map(Weak::upgrade) {
            // A call that began before the configuration changed may wait for just this.
            if let Err(error) = retired.offer(link.id(), tools, false) {
                warn!(server = link.id(), "calls of an older configuration cannot take its tools: {error}");
            }
        }
        core.offer(link.id(), tools, true).map_err(|error| Unavailable::Failed(failures::internal(&error)))
    }

    /// Takes in what has changed since the gate was last used: what it may see, the configuration, and lists of tools. Says
    /// what it is asked with now.
    pub(super) fn sync(&self) -> Arc<Core> {
        let (core, view) = {
            let current = self.current();
            (Arc::clone(&current.core), current.view)
        };
        let (count, views) = (self.registry.tools_count(), self.views.load(Ordering::SeqCst));
        if core.has_seen(count) && view == views {
            return core;
        }
        let core = match core.edition == self.registry.edition() && view == views {
            true => core,
            false => match self.reopen(views) {
                Ok(core) => core,
                Err(error) => {
                    warn!("the gate stays as it was, since it cannot be opened anew: {error}");
                    return core;
                }
            },
        };
        self.take_known_into(&core);
        core.seen.store(count, Ordering::SeqCst);
        core
    }

    /// Begins anew with the configuration of now and with the view of this number, or a later one. Calls under way end as
    /// they began.
    fn reopen(&self, views: u64) -> Result<Arc<Core>, GateError> {
        // Those of servers that have not changed go on.
        self.apart().retain(|_, link| !link.is_retired());
        let core = self.registry.open_core(&self.view())?;
        let mut current = self.current();
        let before = std::mem::replace(&mut *current, Current { core: Arc::clone(&core), view: views });
        drop(current);
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.retain(|core| core.strong_count() > 0);
        retired.push(Arc::downgrade(&before.core));
        Ok(core)
    }
}

/// How a list is asked for a second time.
struct OnceMore {
    pause: Duration,
    new_session: bool,
}

/// Before a second question, where the server does not say how long it wants to be left alone.
const PAUSE: Duration = Duration::from_millis(250);
