//! Who uses a link.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Counts the users of a link.
#[derive(Default)]
pub(super) struct LinkUsage {
    /// How many hold a lease or watch a resource.
    users: AtomicUsize,
    /// How many of them watch a resource.
    watchers: AtomicUsize,
    /// How many leases there ever were.
    leases: AtomicU64,
    /// Whether the lifecycle knows that somebody wants the server.
    pub(super) wanted: AtomicBool,
}

impl LinkUsage {
    /// Counts a lease.
    pub(super) fn begin_lease(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.leases.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a watcher of a resource.
    pub(super) fn begin_watch(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.watchers.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a user.
    pub(super) fn end_use(&self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
    }

    /// Stops counting a user as a watcher.
    pub(super) fn end_watch(&self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns how many use the server now.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::SeqCst)
    }

    /// Reports whether anybody has a lease; a retired link does not wait for watchers.
    pub(super) fn has_callers(&self) -> bool {
        self.users() > self.watchers.load(Ordering::SeqCst)
    }

    /// Returns how many leases there ever were.
    pub(super) fn leases(&self) -> u64 {
        self.leases.load(Ordering::Relaxed)
    }
}
