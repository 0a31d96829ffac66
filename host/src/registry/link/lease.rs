//! Who uses a connection, and how one waits for it: any number of callers, and one start.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Link, Unavailable};
use crate::logic::types::lifecycle;
use crate::session::Session;

/// A connection in use. The server is kept at least as long as there is one.
pub struct Lease {
    session: Arc<Session>,
    _use: UseGuard,
}

/// Counts one user.
struct UseGuard(Arc<Link>);

impl Link {
    /// A connection, for as long as the lease is held. Any number may ask at the same time: the server is started once.
    pub async fn acquire(&self, limit: Duration) -> Result<Lease, Unavailable> {
        self.acquire_if(limit, Link::poll_session).await
    }

    /// The same, for as long as a server may take to come up.
    pub async fn lease(&self) -> Result<Lease, Unavailable> {
        self.acquire(self.default_wait()).await
    }

    /// The same for who can do without the server: it waits for the start that is under way, and for no further one.
    pub async fn lease_if_it_starts(&self) -> Result<Lease, Unavailable> {
        self.acquire_if(self.default_wait(), Link::poll_unless_failed).await
    }

    /// A session for a short look; the server may be stopped for idleness while it is used.
    pub async fn session(&self) -> Result<Arc<Session>, Unavailable> {
        Ok(self.lease().await?.session)
    }

    /// A connection by this look at where the server stands: it says for how long one is worth waiting for.
    async fn acquire_if(
        &self,
        limit: Duration,
        look: fn(&Link) -> Result<Option<Arc<Session>>, Unavailable>,
    ) -> Result<Lease, Unavailable> {
        let held = self.count_user()?;
        if let Some(session) = look(self)? {
            return Ok(Lease { session, _use: held });
        }
        // Apart, so that who need not wait has no room for it.
        let session = Box::pin(self.wait_for_session(limit, look)).await?;
        Ok(Lease { session, _use: held })
    }

    /// Waits until such a look finds a session.
    async fn wait_for_session(
        &self,
        limit: Duration,
        look: fn(&Link) -> Result<Option<Arc<Session>>, Unavailable>,
    ) -> Result<Arc<Session>, Unavailable> {
        let deadline = Instant::now() + limit.min(LONGEST);
        // Before the next look, so that nothing is missed between the look and the wait.
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

    /// How long a caller waits where it says nothing.
    fn default_wait(&self) -> Duration {
        let server = self.server();
        server.lifecycle.acquire_timeout.max(server.timeouts.initialize) + SLACK
    }

    /// Counts a user, and lets the machine know of the first.
    fn count_user(&self) -> Result<UseGuard, Unavailable> {
        let link = self.weak_self.upgrade().ok_or(Unavailable::Closed)?;
        self.users.fetch_add(1, Ordering::SeqCst);
        self.leases.fetch_add(1, Ordering::Relaxed);
        let held = UseGuard(link);
        if self.is_retired() {
            return Err(Unavailable::Closed);
        }
        if !self.wanted.load(Ordering::SeqCst) {
            let mut state = self.state();
            if !self.wanted.swap(true, Ordering::SeqCst) {
                state.janitor = Some(self.watch_usage());
                self.step(&mut state, &lifecycle::Event::Wanted);
            }
        }
        Ok(held)
    }
}

impl Lease {
    /// The session in use.
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

/// The machine ends the wait itself; this is for a host so busy that it comes late.
const SLACK: Duration = Duration::from_secs(1);
/// Nobody waits longer than a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
