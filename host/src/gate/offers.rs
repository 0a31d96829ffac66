//! Tools that servers offer to a gate, and how they are kept up to date.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tracing::warn;

use super::{CurrentBackend, Gate, GateError, failures};
use crate::decide::{Decide, LogicResult};
use crate::failure::{Failure, RequestError};
use crate::logic::types::recovery;
use crate::registry::{GateBackend, Lease, Link, ServerToolChange, ToolList, Unavailable};

/// The outcome of refreshing all tools.
#[derive(Debug, Default)]
pub struct RefreshOutcome {
    /// Servers that cannot be used, and why.
    pub failed: Vec<(String, Unavailable)>,
    /// Tools that changed since the last list of their server; a first list changes nothing.
    pub changes: Vec<ServerToolChange>,
}

impl Gate {
    /// Connects all servers that the gate may use at the same time, and takes their current tools. A server that is
    /// restarting keeps its tools; neither it nor one that failed to start is waited for.
    pub async fn refresh(&self) -> RefreshOutcome {
        let links = self.links();
        let offers = links.iter().map(|link| async move {
            let offer = match link.known_tools().filter(|_| link.is_restarting()) {
                Some(tools) => self.offer_tools(link, &tools),
                None => match link.lease_if_it_starts().await {
                    Ok(lease) => self.offer(link, lease).await.map(|(_, changes)| changes),
                    Err(why) => Err(why),
                },
            };
            (link.id().to_owned(), offer)
        });
        let mut refreshed = RefreshOutcome::default();
        for (server, outcome) in futures_util::future::join_all(offers).await {
            match outcome {
                Ok(changes) => refreshed.changes.extend(changes),
                Err(why) => refreshed.failed.push((server, why)),
            }
        }
        refreshed
    }

    /// Takes the tools that are already known, without a request to any server.
    pub fn take_known(&self) {
        self.take_known_into(&self.backend());
    }

    fn take_known_into(&self, backend: &GateBackend) {
        let is_current = backend.config_version() == self.registry.config_version();
        for link in self.links() {
            let taken = match link.known_tools() {
                _ if link.is_disabled() => backend.withdraw(link.id()),
                Some(tools) => backend.offer(link.id(), &tools, is_current).map(drop),
                // Its entry in the configuration has changed, and it has to list its tools again.
                None => backend.withdraw(link.id()),
            };
            if let Err(error) = taken {
                warn!(server = link.id(), "cannot update its tools: {error}");
            }
        }
    }

    /// Withdraws the tools of servers that announced others, so that a call waits for the new list: by the old one, a tool
    /// that has become destructive could still be called.
    pub(super) fn withdraw_outdated(&self, backend: &GateBackend) -> LogicResult<()> {
        let announced = self.registry.announced_tools();
        if self.announced_tools.load(Ordering::SeqCst) == announced {
            return Ok(());
        }
        let mut all_listed = true;
        for link in self.links() {
            if link.has_outdated_tools() {
                all_listed = false;
                backend.withdraw(link.id())?;
            }
        }
        if all_listed {
            self.announced_tools.store(announced, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Connects a server, takes its tools, and returns the lease.
    pub async fn connect(&self, link: &Link) -> Result<Lease, Unavailable> {
        Ok(self.offer(link, link.lease().await?).await?.0)
    }

    async fn offer(&self, link: &Link, mut lease: Lease) -> Result<(Lease, Vec<ServerToolChange>), Unavailable> {
        let mut listed = link.tools_of(&lease).await;
        if let Err(Unavailable::Failed(failed)) = &listed
            && let Some(ListRetry { pause, new_session }) = self.list_retry(link, failed)
        {
            tokio::time::sleep(pause).await;
            if new_session {
                link.discard_session(lease.session());
                lease = link.lease().await?;
            }
            listed = link.tools_of(&lease).await;
        }
        let tools = listed?;
        Ok((lease, self.offer_tools(link, &tools)?))
    }

    /// Decides whether and how to list again: a site that was busy or lost the session may work by now.
    fn list_retry(&self, link: &Link, failed: &RequestError) -> Option<ListRetry> {
        let Failure::Http(error) = &failed.failure else { return None };
        let (phase, retry) = (failed.phase(), recovery::RetryPolicy::Safe);
        let context = recovery::Context { phase, attempt: 1, read_only: true, idempotent: true, retry };
        let failure = (&failed.failure).into();
        let decision = self.backend().pool.ask(0, |logic| logic.classify(&failure, context)).ok()?;
        let new_session = match decision.action {
            recovery::Action::RetrySameSession => false,
            recovery::Action::RetryNewSession => true,
            _ => return None,
        };
        let pause = error.retry_after.unwrap_or(if new_session { Duration::ZERO } else { PAUSE });
        (pause < link.server().timeouts.list).then_some(ListRetry { pause, new_session })
    }

    fn offer_tools(&self, link: &Link, tools: &Arc<ToolList>) -> Result<Vec<ServerToolChange>, Unavailable> {
        // A gate opened before a server was configured does not know it.
        let backend = if self.backend().config_version() == self.registry.config_version() {
            self.backend()
        } else {
            self.sync()
        };
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for retired in retired.iter().filter_map(Weak::upgrade) {
            // A call that began before the configuration changed may wait for these tools.
            if let Err(error) = retired.offer(link.id(), tools, false) {
                warn!(server = link.id(), "cannot update its tools for calls of an older configuration: {error}");
            }
        }
        backend.offer(link.id(), tools, true).map_err(|error| Unavailable::Failed(failures::internal(&error)))
    }

    /// Applies all changes since the last use (view, configuration, tool lists) and returns the backend to use.
    pub(crate) fn sync(&self) -> Arc<GateBackend> {
        let (backend, view) = {
            let current = self.current();
            (Arc::clone(&current.backend), current.view_version)
        };
        let (count, views) = (self.registry.tools_count(), self.view_version.load(Ordering::SeqCst));
        if backend.has_seen(count) && view == views {
            return backend;
        }
        let backend = match backend.config_version() == self.registry.config_version() && view == views {
            true => backend,
            false => match self.reopen(views) {
                Ok(backend) => backend,
                Err(error) => {
                    warn!("the gate keeps its previous settings, because reopening it failed: {error}");
                    return backend;
                }
            },
        };
        self.take_known_into(&backend);
        backend.tools_seen.store(count, Ordering::SeqCst);
        backend
    }

    /// Opens a backend for the current configuration and for the view with this number or a later one. Running calls
    /// keep theirs.
    fn reopen(&self, view_version: u64) -> Result<Arc<GateBackend>, GateError> {
        // Connections of unchanged servers stay.
        self.scoped_links().retain(|_, link| !link.is_retired());
        let backend = self.registry.open_backend(&self.view())?;
        let mut current = self.current();
        let before = std::mem::replace(&mut *current, CurrentBackend { backend: Arc::clone(&backend), view_version });
        drop(current);
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.retain(|backend| backend.strong_count() > 0);
        retired.push(Arc::downgrade(&before.backend));
        Ok(backend)
    }
}

/// How to list a second time.
struct ListRetry {
    pause: Duration,
    new_session: bool,
}

/// The pause before listing again if the server names none.
const PAUSE: Duration = Duration::from_millis(250);
