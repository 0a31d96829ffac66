//! The running calls of a gate.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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
    running: HashMap<u64, (String, Arc<EarlyEnd>), FxBuildHasher>,
    next: u64,
    closed: bool,
}

/// Why a call ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    /// Its caller cancels it, or is gone.
    Cancelled,
    /// The gateway stops, and the caller still waits.
    Stopped,
}

/// Tells a call to end early; the first reason counts.
#[derive(Default)]
struct EarlyEnd {
    reason: OnceLock<EndReason>,
    told: Notify,
}

impl EarlyEnd {
    fn tell(&self, reason: EndReason) {
        // A call that is ending already has its reason.
        let _ = self.reason.set(reason);
        self.told.notify_one();
    }
}

/// A running call, registered while this exists.
pub(super) struct RunningCall<'a> {
    calls: &'a RunningCalls,
    number: u64,
    end: Arc<EarlyEnd>,
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
        let end = Arc::new(EarlyEnd::default());
        table.running.insert(number, (id.to_owned(), Arc::clone(&end)));
        Some(RunningCall { calls: self, number, end })
    }

    /// Cancels the calls with this id; returns whether there were any.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let table = self.table();
        let mut meant = table.running.values().filter(|(running, _)| running == id).peekable();
        let any = meant.peek().is_some();
        meant.for_each(|(_, end)| end.tell(EndReason::Cancelled));
        any
    }

    /// Ends all calls early.
    pub(super) fn end_all(&self, reason: EndReason) {
        self.table().running.values().for_each(|(_, end)| end.tell(reason));
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
    /// Waits until the call must end early, and returns why; after that, it returns at once.
    pub(super) async fn end_reason(&self) -> EndReason {
        loop {
            if let Some(reason) = self.end.reason.get() {
                return *reason;
            }
            self.end.told.notified().await;
        }
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
