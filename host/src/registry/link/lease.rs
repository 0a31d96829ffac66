//! Leases: any number of callers use one connection, and a server is started once for all of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Link, Unavailable};
use crate::logic::types::lifecycle;
use crate::session::Session;

/// A connection in use; the server is not stopped while there is a lease.
pub struct Lease {
    session: Arc<Session>,
    _use: UseGuard,
}

/// Counts one user while it exists.
struct UseGuard(Arc<Link>);

impl Link {
    /// Waits up to `limit` for a connection. Any number of callers may wait at the same time: the server is started
    /// once.
    pub async fn acquire(&self, limit: Duration) -> Result<Lease, Unavailable> {
        self.acquire_if(limit, Link::poll_session).await
    }

    /// Waits for a connection, as long as the server may take to start.
    pub async fn lease(&self) -> Result<Lease, Unavailable> {
        self.acquire(self.default_wait()).await
    }

    /// Waits for a connection during the current start only; for callers that can do without the server.
    pub async fn lease_if_it_starts(&self) -> Result<Lease, Unavailable> {
        self.acquire_if(self.default_wait(), Link::poll_unless_failed).await
    }

    /// Returns a session for short use; the server may be stopped as idle meanwhile.
    pub async fn session(&self) -> Result<Arc<Session>, Unavailable> {
        Ok(self.lease().await?.session)
    }

    /// Waits for a connection; `look` decides whether one is still worth waiting for.
    async fn acquire_if(
        &self,
        limit: Duration,
        look: fn(&Link) -> Result<Option<Arc<Session>>, Unavailable>,
    ) -> Result<Lease, Unavailable> {
        let held = self.count_user()?;
        if let Some(session) = look(self)? {
            return Ok(Lease { session, _use: held });
        }
        // Boxed, so that callers that need not wait do not pay for its size.
        let session = Box::pin(self.wait_for_session(limit, look)).await?;
        Ok(Lease { session, _use: held })
    }

    /// Waits until `look` finds a session.
    async fn wait_for_session(
        &self,
        limit: Duration,
        look: fn(&Link) -> Result<Option<Arc<Session>>, Unavailable>,
    ) -> Result<Arc<Session>, Unavailable> {
        let deadline = Instant::now() + limit.min(LONGEST);
        // Subscribed before looking, so that no change is missed in between.
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(session) = look(self)? {
                return Ok(session);
            }
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.timeout_error(limit));
            }
        }
    }

    /// Returns how long a caller waits that sets no limit.
    pub(super) fn default_wait(&self) -> Duration {
        self.server().acquire_limit() + SLACK
    }

    /// Counts a user, and tells the lifecycle about the first.
    fn count_user(&self) -> Result<UseGuard, Unavailable> {
        let link = self.weak_self.upgrade().ok_or(Unavailable::Closed)?;
        self.usage.begin_lease();
        let held = UseGuard(link);
        if self.is_retired() {
            return Err(Unavailable::Closed);
        }
        if !self.usage.wanted.load(Ordering::SeqCst) {
            let mut state = self.state();
            if !self.usage.wanted.swap(true, Ordering::SeqCst) {
                state.tasks.usage_watch = Some(self.watch_usage());
                self.step(&mut state, &lifecycle::Event::Wanted);
            }
        }
        Ok(held)
    }
}

impl Lease {
    /// Returns the session in use.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease of {:?}", self._use.0.id())
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        self.0.release_user();
    }
}

/// The lifecycle ends the wait itself; this covers a busy host that comes late.
const SLACK: Duration = Duration::from_secs(1);
/// The longest wait, one year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
