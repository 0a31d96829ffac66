//! The running calls of a gate.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

/// The running calls of a gate.
#[derive(Default)]
pub(super) struct RunningCalls {
    table: Mutex<CallTable>,
    /// Notified when the last call has ended after closing.
    all_ended: Notify,
}

#[derive(Default)]
struct CallTable {
    running: HashMap<u64, (String, Arc<Notify>), FxBuildHasher>,
    next: u64,
    closed: bool,
}

/// A running call, registered while this exists.
pub(super) struct RunningCall<'a> {
    calls: &'a RunningCalls,
    number: u64,
    cancelled: Arc<Notify>,
}

impl RunningCalls {
    /// Registers a call; `None` after closing.
    pub(super) fn enter(&self, id: &str) -> Option<RunningCall<'_>> {
        let mut table = self.table();
        if table.closed {
            return None;
        }
        let number = table.next;
        table.next += 1;
        let cancelled = Arc::new(Notify::new());
        table.running.insert(number, (id.to_owned(), Arc::clone(&cancelled)));
        Some(RunningCall { calls: self, number, cancelled })
    }

    /// Cancels the calls with this id; returns whether there were any.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let table = self.table();
        let mut meant = table.running.values().filter(|(running, _)| running == id).peekable();
        let any = meant.peek().is_some();
        meant.for_each(|(_, cancelled)| cancelled.notify_one());
        any
    }

    /// Cancels all calls.
    pub(super) fn cancel_all(&self) {
        self.table().running.values().for_each(|(_, cancelled)| cancelled.notify_one());
    }

    /// Rejects new calls, and waits until there are none.
    pub(super) async fn close(&self) {
        let mut over = pin!(self.all_ended.notified());
        // Enabled first, so that no notification is missed.
        over.as_mut().enable();
        let left = {
            let mut table = self.table();
            table.closed = true;
            table.running.len()
        };
        if left > 0 {
            over.await;
        }
    }

    /// Returns the number of running calls.
    pub(super) fn count(&self) -> usize {
        self.table().running.len()
    }

    fn table(&self) -> MutexGuard<'_, CallTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall<'_> {
    /// Waits until the call is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let mut table = self.calls.table();
        table.running.remove(&self.number);
        if table.closed && table.running.is_empty() {
            self.calls.all_ended.notify_waiters();
        }
    }
}
