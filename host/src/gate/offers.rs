//! What servers offer to a gate, and how that is kept true.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{info, warn};

use super::{Core, Gate, failures, open_in};
use crate::decide::{Answer, Decide};
use crate::failure::{Failed, Failure};
use crate::logic::types::{Phase, catalog, execution, recovery};
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
        self.take_known_into(&mut self.core());
    }

    fn take_known_into(&self, core: &mut Core) {
        for link in self.links() {
            let taken = match link.known_tools() {
                _ if link.is_disabled() => core.withdraw(link.id()),
                Some(tools) => core.offer(link.id(), &tools).map(drop),
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
        let decision = self.core().logic.classify(&(&failed.failure).into(), context).ok()?;
        let new_session = match decision.action {
            recovery::Action::RetrySameSession => false,
            recovery::Action::RetryNewSession => true,
            _ => return None,
        };
        let pause = error.retry_after.unwrap_or(if new_session { Duration::ZERO } else { PAUSE });
        (pause < link.server().timeouts.list).then_some(OnceMore { pause, new_session })
    }

    fn take_tools(&self, link: &Link, tools: &Arc<Tools>) -> Result<Vec<ToolChange>, Unavailable> {
        let core = &mut *self.core();
        // A gate that was opened before a server was configured knows nothing of it.
        if core.edition != self.registry.edition() {
            self.reopen(core);
            self.take_known_into(core);
        }
        core.offer(link.id(), tools).map_err(|error| Unavailable::Failed(failures::internal(&error)))
    }

    /// Takes in what has changed since the gate was last used: the configuration, and lists of tools.
    /// `begun` are the calls of the caller that are counted and not yet in the component.
    pub(super) fn sync(&self, begun: usize) {
        let count = self.registry.tools_count();
        if self.seen.load(Ordering::SeqCst) == count {
            return;
        }
        let core = &mut *self.core();
        self.seen.store(count, Ordering::SeqCst);
        if core.edition != self.registry.edition() {
            self.reopen(core);
        }
        self.take_known_into(core);
        if self.calls.count() <= begun {
            for retired in std::mem::take(&mut core.retired) {
                drop(core.logic.close_gate(retired));
            }
        }
    }

    /// Begins anew with the configuration of now. Calls under way end as they began.
    fn reopen(&self, core: &mut Core) {
        // Those of servers that have not changed go on.
        self.apart().retain(|_, link| !link.is_retired());
        core.edition = self.registry.edition();
        match open_in(&mut core.logic, &self.registry, &self.view()) {
            Ok(id) => {
                core.retired.push(std::mem::replace(&mut core.id, id));
                // What servers are known to offer now is taken next; one that became another is asked again.
                core.offered.clear();
            }
            Err(error) => warn!("the gate stays as it was, since it cannot be opened anew: {error}"),
        }
    }
}

/// How a list is asked for a second time.
struct OnceMore {
    pause: Duration,
    new_session: bool,
}

/// Before a second question, where the server does not say how long it wants to be left alone.
const PAUSE: Duration = Duration::from_millis(250);

impl Core {
    /// Forgets what a server offers.
    fn withdraw(&mut self, server: &str) -> Answer<()> {
        match self.offered.remove(server) {
            Some(_) => self.logic.withdraw(self.id, server),
            None => Ok(()),
        }
    }

    /// Shows the component what a server offers, unless it knows that already.
    fn offer(&mut self, server: &str, tools: &Arc<Tools>) -> Answer<Vec<ToolChange>> {
        if self.offered.get(server).is_some_and(|known| Arc::ptr_eq(known, tools)) {
            return Ok(Vec::new());
        }
        let notes = self.logic.offer(self.id, server, &tools.offered)?;
        for retired in &self.retired {
            // A call that began before the configuration changed may wait for just this.
            if let Err(error) = self.logic.offer(*retired, server, &tools.offered) {
                warn!(server, "calls of an older configuration cannot take its tools: {error}");
            }
        }
        self.offered.insert(server.to_owned(), Arc::clone(tools));
        let mut changes = Vec::new();
        for note in notes {
            match note {
                execution::OfferNote::Changed(catalog::ToolChange { tool, change }) => {
                    info!(server, "{}", failures::change(&tool, change));
                    changes.push(ToolChange { server: server.to_owned(), tool, change });
                }
                other => warn!(server, "{}", failures::note(&other)),
            }
        }
        Ok(changes)
    }
}
