//! Resources of one server that are watched, over whichever connection it has.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use tracing::warn;

use super::{Lease, Link};
use crate::failure::RequestError;
use crate::json;
use crate::session::{ResourceSubscription, ServerEvent, Session};

/// The resources that are watched.
pub(super) type WatchedResources = BTreeMap<String, ResourceWatch>;

/// A resource that is watched.
#[derive(Default)]
pub(super) struct ResourceWatch {
    watchers: usize,
    /// How its server knows, once it was told.
    subscription: Option<ResourceSubscription>,
}

/// A resource is watched for as long as this lives: over one connection of its server after the other, and the server is not
/// stopped for idleness meanwhile.
pub struct ResourceWatcher {
    link: Weak<Link>,
    uri: String,
}

impl Link {
    /// Watches a resource: its new content is news from now on, and so is that something may have been missed.
    pub async fn watch(&self, lease: &Lease, uri: &str) -> Result<ResourceWatcher, RequestError> {
        // From here on it is counted, and counted out when this fails or is dropped.
        let watcher = self.count_watcher(uri);
        let told = lease.session().watch(uri).await?;
        self.set_subscription(uri, told);
        Ok(watcher)
    }

    fn count_watcher(&self, uri: &str) -> ResourceWatcher {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.watchers.fetch_add(1, Ordering::SeqCst);
        self.watched().entry(uri.to_owned()).or_default().watchers += 1;
        ResourceWatcher { link: Weak::clone(&self.weak_self), uri: uri.to_owned() }
    }

    /// The server knows that a resource is watched; says whether it was so before, on this connection or another.
    fn set_subscription(&self, uri: &str, told: ResourceSubscription) -> bool {
        let mut watched = self.watched();
        // Where nobody watches it any more, what was told is taken back.
        let Some(watch) = watched.get_mut(uri) else { return false };
        let before = watch.subscription.replace(told);
        drop(watched);
        before.is_some()
    }

    /// All that is watched.
    fn watched_uris(&self) -> Vec<String> {
        self.watched().keys().cloned().collect()
    }

    /// For a while nothing was heard of what is watched.
    pub(super) fn announce_missed_updates(&self) {
        self.watched_uris().iter().for_each(|uri| self.announce_missed_update(uri));
    }

    /// What a resource holds may not be what it did when somebody last looked.
    fn announce_missed_update(&self, uri: &str) {
        let params = json::to_raw(&serde_json::json!({"uri": uri}));
        self.broadcast(ServerEvent::ResourceUpdated { uri: uri.to_owned(), params });
    }

    fn watched(&self) -> MutexGuard<'_, WatchedResources> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a new connection what is watched, and all who watch that they may have missed something.
pub(super) async fn resubscribe(session: &Arc<Session>, link: &Weak<Link>) {
    let uris = link.upgrade().map(|link| link.watched_uris()).unwrap_or_default();
    for uri in uris {
        // The link owns this task, so it must not be kept by it: the answer may never come.
        let told = session.watch(&uri).await;
        let Some(link) = link.upgrade() else { return };
        match told {
            Ok(told) => {
                if link.set_subscription(&uri, told) {
                    link.announce_missed_update(&uri);
                }
            }
            // Its end is told elsewhere, and the next connection is told of all that is watched.
            Err(_) if session.close_reason().is_some() => return,
            Err(why) => {
                warn!("{uri:?} is watched, and it no longer tells of it: {why}");
                link.announce_missed_update(&uri);
            }
        }
    }
}

impl ResourceWatcher {
    /// Whether it watches a resource of this server.
    pub(crate) fn is_of(&self, link: &Weak<Link>) -> bool {
        self.link.ptr_eq(link)
    }

    /// Whether another server has taken the place of this one, or none, so that nothing will be told any more.
    pub(crate) fn is_over(&self) -> bool {
        self.link.upgrade().is_none_or(|link| link.is_retired() || link.is_closed())
    }
}

impl Drop for ResourceWatcher {
    fn drop(&mut self) {
        let Some(link) = self.link.upgrade() else { return };
        let mut watched = link.watched();
        let last = watched.get_mut(&self.uri).is_some_and(|watch| {
            watch.watchers -= 1;
            watch.watchers == 0
        });
        let told = if last { watched.remove(&self.uri) } else { None };
        drop(watched);
        drop(told);
        link.watchers.fetch_sub(1, Ordering::SeqCst);
        link.release_user();
    }
}
