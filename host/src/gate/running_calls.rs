//! The calls of a gate that are under way.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

/// The calls of a gate that are under way.
#[derive(Default)]
pub(super) struct RunningCalls {
    table: Mutex<CallTable>,
    /// Told when no more calls are taken and the last one has ended.
    all_ended: Notify,
}

#[derive(Default)]
struct CallTable {
    running: HashMap<u64, (String, Arc<Notify>), FxBuildHasher>,
    next: u64,
    closed: bool,
}

/// A call that is under way, for as long as this lives.
pub(super) struct RunningCall<'a> {
    calls: &'a RunningCalls,
    number: u64,
    cancelled: Arc<Notify>,
}

impl RunningCalls {
    /// Enters a call; none where no more are taken.
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

    /// Cancels the calls of this id; says whether there were any.
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

    /// Takes no more calls, and waits until there are none.
    pub(super) async fn close(&self) {
        let mut over = pin!(self.all_ended.notified());
        // From here on nothing that is told is missed.
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

    /// How many there are.
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
