//! What a client subscribed to.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::AbortHandle;

use crate::lock::lock;
use crate::registry::ResourceWatcher;

/// What a client subscribed to.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// The resources that a client of the initialize era subscribed to.
    pub(super) watched: Mutex<HashMap<String, ResourceWatcher>>,
    /// The task that notifies a client of the initialize era of changes.
    notifier: Mutex<Option<AbortHandle>>,
    /// Notified when all subscriptions end.
    ended: Notify,
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

    /// Unsubscribes from all resources.
    pub(super) fn clear(&self) {
        drop(std::mem::take(&mut *lock(&self.watched)));
    }

    /// Ends all subscriptions and, if the listener is `closing`, those that come later.
    pub(super) fn end(&self, closing: bool) {
        self.closing.store(closing, Ordering::SeqCst);
        self.ended.notify_waiters();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Completes when all subscriptions end.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.stop_notifier();
    }
}
