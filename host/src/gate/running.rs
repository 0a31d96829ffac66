//! The calls of a gate that are under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

/// The calls of a gate that are under way.
#[derive(Default)]
pub(super) struct Calls {
    table: Mutex<Table>,
    /// How many there are.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Table {
    running: HashMap<u64, (String, Arc<Notify>)>,
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
        drop(table);
        self.count.send_modify(|count| *count += 1);
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
        self.table().closed = true;
        let mut count = self.count.subscribe();
        // The sender lives as long as this does.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        *self.count.borrow()
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
        self.calls.table().running.remove(&self.number);
        self.calls.count.send_modify(|count| *count -= 1);
    }
}
