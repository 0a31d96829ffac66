//! Servers that keep others waiting: they are asked aside, nobody waits for them meanwhile, and clients hear when they
//! have answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::failure::Failed;
use crate::registry::Link;
use crate::session::Kind;

/// The servers that did not give a list in time.
pub(crate) struct Late {
    me: Weak<Late>,
    servers: Mutex<Vec<Server>>,
    /// Those that are being asked; they end with this.
    asking: Mutex<JoinSet<()>>,
}

struct Server {
    link: Weak<Link>,
    kind: Kind,
    /// How long nobody waits for it; none while it is asked.
    until: Option<Instant>,
}

impl Late {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Late { me: me.clone(), servers: Mutex::default(), asking: Mutex::default() })
    }

    /// Whether nobody is to wait for this list.
    pub(super) fn has(&self, link: &Arc<Link>, kind: Kind) -> bool {
        let now = Instant::now();
        self.servers().iter().any(|server| server.is(link, kind) && server.until.is_none_or(|until| now < until))
    }

    /// Nobody is to wait for this list for a while.
    pub(super) fn note(&self, link: &Arc<Link>, kind: Kind) {
        self.put(link, kind, Some(Instant::now() + AGAIN));
    }

    /// Goes on to ask for a list that has kept somebody waiting; all who listen hear when it is there.
    pub(super) fn ask_aside(&self, link: &Arc<Link>, kind: Kind) {
        if self.has(link, kind) {
            return;
        }
        self.put(link, kind, None);
        let (late, link) = (Weak::clone(&self.me), Arc::clone(link));
        let ask = async move {
            let listed = list(&link, kind).await;
            let Some(late) = late.upgrade() else { return };
            match listed {
                Ok(()) => {
                    late.forget(&link, kind);
                    link.tell_of(kind);
                }
                Err(Some(why)) => {
                    warn!(server = link.id(), "{} has not come: {why}", kind.method());
                    late.note(&link, kind);
                }
                // Nobody waits for a server that does not start, and all hear when it has.
                Err(None) => late.forget(&link, kind),
            }
        };
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while asking.try_join_next().is_some() {}
        asking.spawn(ask);
    }

    fn put(&self, link: &Arc<Link>, kind: Kind, until: Option<Instant>) {
        self.forget(link, kind);
        self.servers().push(Server { link: Arc::downgrade(link), kind, until });
    }

    fn forget(&self, link: &Arc<Link>, kind: Kind) {
        self.servers().retain(|server| !server.is(link, kind) && server.link.strong_count() > 0);
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn is(&self, link: &Arc<Link>, kind: Kind) -> bool {
        self.kind == kind && std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link))
    }
}

/// Asks for a list, for as long as a server may take to come up and to answer; an error without a reason is that it does
/// not start.
async fn list(link: &Arc<Link>, kind: Kind) -> Result<(), Option<Failed>> {
    let lease = link.lease_if_it_starts().await.map_err(|_| None)?;
    link.others_of(&lease, kind).await.map(drop).map_err(Some)
}

/// How long nobody waits for a list that has not come.
const AGAIN: Duration = Duration::from_secs(60);
