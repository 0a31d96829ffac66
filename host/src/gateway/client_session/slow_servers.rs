//! Servers that keep others waiting: they are asked aside, nobody waits for them meanwhile, and clients hear when they
//! have answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::failure::RequestError;
use crate::registry::Link;
use crate::session::ListKind;

/// The servers that did not give a list in time.
pub(crate) struct SlowServers {
    me: Weak<SlowServers>,
    servers: Mutex<Vec<SlowServer>>,
    /// Those that are being asked; they end with this.
    asking: Mutex<JoinSet<()>>,
}

struct SlowServer {
    link: Weak<Link>,
    kind: ListKind,
    /// How long nobody waits for it; none while it is asked.
    until: Option<Instant>,
}

impl SlowServers {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| SlowServers { me: me.clone(), servers: Mutex::default(), asking: Mutex::default() })
    }

    /// Whether nobody is to wait for this list.
    pub(super) fn has(&self, link: &Arc<Link>, kind: ListKind) -> bool {
        let now = Instant::now();
        self.servers().iter().any(|server| server.is(link, kind) && server.until.is_none_or(|until| now < until))
    }

    /// Nobody is to wait for this list for a while.
    pub(super) fn add(&self, link: &Arc<Link>, kind: ListKind) {
        self.put(link, kind, Some(Instant::now() + AGAIN));
    }

    /// Goes on to ask for a list that has kept somebody waiting; all who listen hear when it is there.
    pub(super) fn ask_in_background(&self, link: &Arc<Link>, kind: ListKind) {
        if self.has(link, kind) {
            return;
        }
        self.put(link, kind, None);
        let (slow_servers, link) = (Weak::clone(&self.me), Arc::clone(link));
        let ask = async move {
            let listed = list(&link, kind).await;
            let Some(slow_servers) = slow_servers.upgrade() else { return };
            match listed {
                Ok(()) => {
                    slow_servers.forget(&link, kind);
                    link.announce_list(kind);
                }
                Err(Some(why)) => {
                    warn!(server = link.id(), "{} has not come: {why}", kind.method());
                    slow_servers.add(&link, kind);
                }
                // Nobody waits for a server that does not start, and all hear when it has.
                Err(None) => slow_servers.forget(&link, kind),
            }
        };
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while asking.try_join_next().is_some() {}
        asking.spawn(ask);
    }

    fn put(&self, link: &Arc<Link>, kind: ListKind, until: Option<Instant>) {
        self.forget(link, kind);
        self.servers().push(SlowServer { link: Arc::downgrade(link), kind, until });
    }

    fn forget(&self, link: &Arc<Link>, kind: ListKind) {
        self.servers().retain(|server| !server.is(link, kind) && server.link.strong_count() > 0);
    }

    fn servers(&self) -> MutexGuard<'_, Vec<SlowServer>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlowServer {
    fn is(&self, link: &Arc<Link>, kind: ListKind) -> bool {
        self.kind == kind && std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link))
    }
}

/// Asks for a list, for as long as a server may take to come up and to answer; an error without a reason is that it does
/// not start.
async fn list(link: &Arc<Link>, kind: ListKind) -> Result<(), Option<RequestError>> {
    let lease = link.lease_if_it_starts().await.map_err(|_| None)?;
    link.list_others(&lease, kind).await.map(drop).map_err(Some)
}

/// How long nobody waits for a list that has not come.
const AGAIN: Duration = Duration::from_secs(60);
