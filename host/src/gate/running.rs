//! The calls of a gate that are under way.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

/// The calls of a gate that are under way.
#[derive(Default)]
pub(super) struct Calls {
    table: Mutex<Table>,
    /// Told when no more calls are taken and the last one has ended.
    over: Notify,
}

#[derive(Default)]
struct Table {
    running: HashMap<u64, (String, Arc<Notify>), FxBuildHasher>,
    next: u64,
    closed: bool,
}

/// A call that is under way, for as long as this lives.
pub(super) struct Running<'a> {
    calls: &'a Calls,
    number: u64,
    cancelled: Arc<Notify>,
}

impl Calls {
    /// Enters a call; none where no more are taken.
    pub(super) fn enter(&self, id: &str) -> Option<Running<'_>> {
        let mut table = self.table();
        if table.closed {
            return None;
        }
        let number = table.next;
        table.next += 1;
        let cancelled = Arc::new(Notify::new());
        table.running.insert(number, (id.to_owned(), Arc::clone(&cancelled)));
        Some(Running { calls: self, number, cancelled })
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
    pub(super) async fn closed(&self) {
        let mut over = pin!(self.over.notified());
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

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running<'_> {
    /// Waits until the call is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut table = self.calls.table();
        table.running.remove(&self.number);
        if table.closed && table.running.is_empty() {
            self.calls.over.notify_waiters();
        }
    }
}
