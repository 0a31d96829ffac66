//! Watched resources of one server, across reconnects.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use tracing::warn;

use super::{Lease, Link};
use crate::failure::RequestError;
use crate::json;
use crate::session::{ResourceSubscription, ServerEvent, Session};

/// The watched resources by URI.
pub(super) type WatchedResources = BTreeMap<String, ResourceWatch>;

/// A watched resource.
#[derive(Default)]
pub(super) struct ResourceWatch {
    watchers: usize,
    /// The subscription at the server, once there is one.
    subscription: Option<ResourceSubscription>,
}

/// Watches a resource while it exists, across reconnects, and keeps the server from being stopped as idle.
pub struct ResourceWatcher {
    link: Weak<Link>,
    uri: String,
}

impl Link {
    /// Watches a resource: announces its updates, and also when an update may have been missed.
    pub async fn watch(&self, lease: &Lease, uri: &str) -> Result<ResourceWatcher, RequestError> {
        // The watcher counts from here on, and stops counting when it is dropped.
        let watcher = self.count_watcher(uri);
        let subscription = lease.session().watch(uri).await?;
        self.set_subscription(uri, subscription);
        Ok(watcher)
    }

    fn count_watcher(&self, uri: &str) -> ResourceWatcher {
        self.usage.begin_watch();
        self.watched().entry(uri.to_owned()).or_default().watchers += 1;
        ResourceWatcher { link: Weak::clone(&self.weak_self), uri: uri.to_owned() }
    }

    /// Stores the subscription of a watched resource; returns whether there was one before, on any connection.
    fn set_subscription(&self, uri: &str, subscription: ResourceSubscription) -> bool {
        let mut watched = self.watched();
        // If nobody watches the resource any more, dropping the subscription cancels it.
        let Some(watch) = watched.get_mut(uri) else { return false };
        let before = watch.subscription.replace(subscription);
        drop(watched);
        before.is_some()
    }

    /// Returns the URIs of all watched resources.
    fn watched_uris(&self) -> Vec<String> {
        self.watched().keys().cloned().collect()
    }

    /// Announces that updates of all watched resources may have been missed.
    pub(super) fn announce_missed_updates(&self) {
        self.watched_uris().iter().for_each(|uri| self.announce_missed_update(uri));
    }

    /// Announces that an update of a resource may have been missed.
    fn announce_missed_update(&self, uri: &str) {
        let params = json::to_raw(&serde_json::json!({"uri": uri}));
        self.broadcast(ServerEvent::ResourceUpdated { uri: uri.to_owned(), params });
    }

    fn watched(&self) -> MutexGuard<'_, WatchedResources> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Subscribes a new connection to all watched resources, and announces that updates may have been missed.
pub(super) async fn resubscribe(session: &Arc<Session>, link: &Weak<Link>) {
    let uris = link.upgrade().map(|link| link.watched_uris()).unwrap_or_default();
    for uri in uris {
        // The link owns this task, so the task must not keep the link: the answer may never come.
        let subscription = session.watch(&uri).await;
        let Some(link) = link.upgrade() else { return };
        match subscription {
            Ok(subscription) => {
                if link.set_subscription(&uri, subscription) {
                    link.announce_missed_update(&uri);
                }
            }
            // The end of the session is reported elsewhere, and the next connection subscribes again.
            Err(_) if session.close_reason().is_some() => return,
            Err(why) => {
                warn!("cannot subscribe to updates of {uri:?} again: {why}");
                link.announce_missed_update(&uri);
            }
        }
    }
}

impl ResourceWatcher {
    /// Reports whether the resource belongs to this link.
    pub(crate) fn is_of(&self, link: &Weak<Link>) -> bool {
        self.link.ptr_eq(link)
    }

    /// Reports whether the link is closed or replaced, so that no update will come.
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
        let subscription = if last { watched.remove(&self.uri) } else { None };
        drop(watched);
        drop(subscription);
        link.usage.end_watch();
        link.release_user();
    }
}
