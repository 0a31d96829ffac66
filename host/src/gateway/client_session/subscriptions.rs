//! What a client subscribed to, and how subscriptions are renewed whose server was replaced or removed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::ClientSession;
use super::sources::watch;
use crate::lock::lock;
use crate::registry::ResourceWatcher;
use crate::transport::BoxFuture;

/// What a client subscribed to.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// The resources that a client of the initialize era subscribed to.
    pub(super) watched: Mutex<HashMap<String, ResourceWatcher>>,
    /// The task that notifies a client of the initialize era of changes.
    notifier: Mutex<Option<AbortHandle>>,
    /// Notified when all subscriptions end.
    pub(super) ended: Notify,
    /// Set when the listener of a client with a session closes.
    closing: AtomicBool,
}

impl Subscriptions {
    /// Sets the task that notifies the client of changes, unless there is one.
    pub(super) fn set_notifier(&self, start: impl FnOnce() -> AbortHandle) {
        lock(&self.notifier).get_or_insert_with(start);
    }

    /// Stops the task that notifies the client of changes.
    pub(super) fn stop_notifier(&self) {
        lock(&self.notifier).take().iter().for_each(AbortHandle::abort);
    }

    /// Ends all subscriptions and, if the listener is `closing`, those that come later.
    pub(super) fn end(&self, closing: bool) {
        self.closing.store(closing, Ordering::SeqCst);
        self.ended.notify_waiters();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.stop_notifier();
    }
}

/// Renews the subscriptions of one client, one round at a time.
#[derive(Default)]
pub(super) struct Resubscriber {
    work: Option<BoxFuture<'static, NewWatchers>>,
    /// The next round, which starts when `work` is done.
    next: Option<(Weak<ClientSession>, Vec<String>)>,
}

/// The resources with renewed subscriptions.
pub(super) type NewWatchers = Vec<(String, ResourceWatcher)>;

impl Resubscriber {
    /// Starts to renew these subscriptions, or queues them if a round is running.
    pub(super) fn begin(&mut self, client: &Arc<ClientSession>, uris: Vec<String>) {
        if uris.is_empty() {
            return;
        }
        match &self.work {
            None => self.work = Some(Box::pin(resubscribe(Arc::downgrade(client), uris))),
            Some(_) => self.next = Some((Arc::downgrade(client), uris)),
        }
    }

    /// Waits until the running round is done. This is cancel-safe.
    pub(super) async fn done(&mut self) -> NewWatchers {
        let Some(work) = &mut self.work else { return std::future::pending().await };
        let renewed = work.await;
        self.work = None;
        if let Some((Some(client), mut uris)) = self.next.take().map(|(client, uris)| (client.upgrade(), uris)) {
            uris.retain(|uri| !renewed.iter().any(|(known, _)| known == uri));
            self.begin(&client, uris);
        }
        renewed
    }
}

async fn resubscribe(client: Weak<ClientSession>, uris: Vec<String>) -> NewWatchers {
    let mut renewed = Vec::new();
    for uri in uris {
        let Some(client) = client.upgrade() else { break };
        // A resource that no server has now is tried again after the next change.
        if let Ok(Some(watcher)) = watch(&client, &uri).await {
            renewed.push((uri, watcher));
        }
    }
    renewed
}
