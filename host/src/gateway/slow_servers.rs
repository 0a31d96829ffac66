//! Servers that are slow to list. They are asked in the background, requests do not wait for them meanwhile, and
//! clients are notified when they answer.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::lock::lock;
use crate::registry::Link;
use crate::session::ListKind;

/// The servers that did not return a list in time.
#[derive(Default)]
pub(super) struct SlowServers {
    servers: Mutex<Vec<SlowServer>>,
    /// The background requests; they are aborted on drop.
    asking: Mutex<JoinSet<()>>,
}

struct SlowServer {
    link: Weak<Link>,
    kind: ListKind,
    /// Until when requests do not wait for it; `None` while it is being asked.
    until: Option<Instant>,
}

impl SlowServers {
    /// Reports whether requests should not wait for this list.
    pub(super) fn has(&self, link: &Arc<Link>, kind: ListKind) -> bool {
        let now = Instant::now();
        lock(&self.servers).iter().any(|server| server.is(link, kind) && server.until.is_none_or(|until| now < until))
    }

    /// Makes requests skip this list for a while.
    pub(super) fn add(&self, link: &Arc<Link>, kind: ListKind) {
        self.put(link, kind, Some(Instant::now() + AGAIN));
    }

    /// Asks for a slow list in the background, and notifies clients when it arrives.
    pub(super) fn ask_in_background(self: &Arc<Self>, link: &Arc<Link>, kind: ListKind) {
        if self.has(link, kind) {
            return;
        }
        self.put(link, kind, None);
        let (slow_servers, link) = (Arc::downgrade(self), Arc::clone(link));
        let ask = async move {
            let listed = match link.lease_if_it_starts().await {
                Ok(lease) => link.list_others(&lease, kind).await.map(drop).map_err(Some),
                Err(_) => Err(None),
            };
            let Some(slow_servers) = slow_servers.upgrade() else { return };
            match listed {
                Ok(()) => {
                    slow_servers.forget(&link, kind);
                    link.announce_list(kind);
                }
                Err(Some(why)) => {
                    warn!(server = link.id(), "{} failed: {why}", kind.method());
                    slow_servers.add(&link, kind);
                }
                // No request waits for a server that does not start, and clients are notified once it is up.
                Err(None) => slow_servers.forget(&link, kind),
            }
        };
        let mut asking = lock(&self.asking);
        while asking.try_join_next().is_some() {}
        asking.spawn(ask);
    }

    fn put(&self, link: &Arc<Link>, kind: ListKind, until: Option<Instant>) {
        self.forget(link, kind);
        lock(&self.servers).push(SlowServer { link: Arc::downgrade(link), kind, until });
    }

    fn forget(&self, link: &Arc<Link>, kind: ListKind) {
        lock(&self.servers).retain(|server| !server.is(link, kind) && server.link.strong_count() > 0);
    }
}

impl SlowServer {
    fn is(&self, link: &Arc<Link>, kind: ListKind) -> bool {
        self.kind == kind && std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link))
    }
}

/// How long requests do not wait for a list that failed.
const AGAIN: Duration = Duration::from_secs(60);
