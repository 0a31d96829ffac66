//! Resources of one server that are watched, over whichever connection it has.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use tracing::warn;

use super::{Lease, Link};
use crate::failure::Failed;
use crate::json;
use crate::session::{News, Session, Watching};

/// The resources that are watched.
pub(super) type Watched = BTreeMap<String, Watch>;

/// A resource that is watched.
#[derive(Default)]
pub(super) struct Watch {
    watchers: usize,
    /// How its server knows, once it was told.
    told: Option<Watching>,
}

/// A resource is watched for as long as this lives: over one connection of its server after the other, and the server is not
/// stopped for idleness meanwhile.
pub struct Watcher {
    link: Weak<Link>,
    uri: String,
}

impl Link {
    /// Watches a resource: its new content is news from now on, and so is that something may have been missed.
    pub async fn watch(&self, lease: &Lease, uri: &str) -> Result<Watcher, Failed> {
        // From here on it is counted, and counted out when this fails or is dropped.
        let watcher = self.count_watcher(uri);
        let told = lease.session().watch(uri).await?;
        self.note_told(uri, told);
        Ok(watcher)
    }

    fn count_watcher(&self, uri: &str) -> Watcher {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.watchers.fetch_add(1, Ordering::SeqCst);
        self.watched().entry(uri.to_owned()).or_default().watchers += 1;
        Watcher { link: Weak::clone(&self.me), uri: uri.to_owned() }
    }

    /// The server knows that a resource is watched; says whether it was so before, on this connection or another.
    fn note_told(&self, uri: &str, told: Watching) -> bool {
        let mut watched = self.watched();
        // Where nobody watches it any more, what was told is taken back.
        let Some(watch) = watched.get_mut(uri) else { return false };
        let before = watch.told.replace(told);
        drop(watched);
        before.is_some()
    }

    /// All that is watched.
    fn watched_uris(&self) -> Vec<String> {
        self.watched().keys().cloned().collect()
    }

    /// For a while nothing was heard of what is watched.
    pub(super) fn tell_of_gaps(&self) {
        self.watched_uris().iter().for_each(|uri| self.tell_of_a_gap(uri));
    }

    /// What a resource holds may not be what it did when somebody last looked.
    fn tell_of_a_gap(&self, uri: &str) {
        let params = json::raw(&serde_json::json!({"uri": uri}));
        self.pass_on(News::ResourceUpdated { uri: uri.to_owned(), params });
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a new connection what is watched, and all who watch that they may have missed something.
pub(super) async fn watch_again(session: &Arc<Session>, link: &Weak<Link>) {
    let uris = link.upgrade().map(|link| link.watched_uris()).unwrap_or_default();
    for uri in uris {
        // The link owns this task, so it must not be kept by it: the answer may never come.
        let told = session.watch(&uri).await;
        let Some(link) = link.upgrade() else { return };
        match told {
            Ok(told) => {
                if link.note_told(&uri, told) {
                    link.tell_of_a_gap(&uri);
                }
            }
            // Its end is told elsewhere, and the next connection is told of all that is watched.
            Err(_) if session.over().is_some() => return,
            Err(why) => {
                warn!("{uri:?} is watched, and it no longer tells of it: {why}");
                link.tell_of_a_gap(&uri);
            }
        }
    }
}

impl Watcher {
    /// Whether it watches a resource of this server.
    pub(crate) fn is_of(&self, link: &Weak<Link>) -> bool {
        self.link.ptr_eq(link)
    }

    /// Whether another server has taken the place of this one, or none, so that nothing will be told any more.
    pub(crate) fn is_over(&self) -> bool {
        self.link.upgrade().is_none_or(|link| link.is_retired() || link.is_closed())
    }
}

impl Drop for Watcher {
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
        link.left();
    }
}
