//! The bytes of events that wait to be read or are kept, and who may forget some of them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{OnceLock, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::usage::{LimitedResource, PrincipalUsage, SharedCount};
use crate::gateway::refusal::LimitReached;

/// Keeps events that were read, and can forget them.
pub(in crate::gateway) trait KeepEvents: Send + Sync {
    /// Forgets read events until `enough` bytes are free, and returns the number of bytes freed.
    ///
    /// Events of the principal with usage `own` come first. If only that principal has reached its limit, events of
    /// other principals are left alone.
    fn forget_read(&self, own: Option<&PrincipalUsage>, reached: LimitReached, enough: usize) -> usize;
}

/// The events of a listener, in bytes.
#[derive(Debug, Default)]
pub(in crate::gateway) struct EventLoad {
    bytes: LimitedResource,
    /// How many of the bytes were read and are kept for clients that reconnect.
    read: SharedCount,
    /// Keeps these events; unset if nothing is kept.
    keeper: OnceLock<Weak<dyn KeepEvents>>,
    /// A writer found no room for an event and may wait.
    room_wanted: AtomicBool,
    room: Notify,
}

impl EventLoad {
    pub(super) fn set(&self, max_bytes: usize) {
        self.bytes.set(max_bytes, 1);
    }

    /// Sets who keeps events for clients that reconnect.
    pub(in crate::gateway) fn set_keeper(&self, keeper: Weak<dyn KeepEvents>) {
        // A limiter belongs to one listener, so this is set once.
        let _ = self.keeper.set(keeper);
    }

    /// Returns the bytes of all events.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.used.get()
    }

    /// Counts an event if there is room for it.
    pub(in crate::gateway) fn take(&self, own: Option<&PrincipalUsage>, bytes: usize) -> Result<(), LimitReached> {
        self.bytes.take(own.map(|usage| &usage.event_bytes), bytes)
    }

    /// Counts an event even if there is no room for it.
    pub(in crate::gateway) fn add(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.bytes.used.add(own.map(|usage| &usage.event_bytes), bytes);
    }

    /// Uncounts events that are forgotten.
    pub(in crate::gateway) fn subtract(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.bytes.used.subtract(own.map(|usage| &usage.event_bytes), bytes);
        self.notify_room();
    }

    /// Reports whether more events wait than the limit allows.
    pub(in crate::gateway) fn is_behind(&self) -> bool {
        !self.bytes.has_room(0)
    }

    /// Counts bytes of events that were read and are kept.
    pub(in crate::gateway) fn add_read(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.read.add(own.map(|usage| &usage.read_bytes), bytes);
        self.notify_room();
    }

    /// Uncounts read bytes that are forgotten or will be read again.
    pub(in crate::gateway) fn subtract_read(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.read.subtract(own.map(|usage| &usage.read_bytes), bytes);
    }

    /// Forgets read events to make room for a new one, and returns whether anything was freed.
    pub(in crate::gateway) fn make_room(&self, own: Option<&PrincipalUsage>, full: LimitReached, bytes: usize) -> bool {
        let read = match (full, own) {
            (LimitReached::Own, Some(usage)) => usage.read_bytes.load(Relaxed),
            _ => self.read.get(),
        };
        let Some(keeper) = self.keeper.get().filter(|_| read > 0).and_then(Weak::upgrade) else { return false };
        // Free more than needed, so that the next events need not search again.
        let enough = bytes.max(self.bytes.limit() / 8);
        keeper.forget_read(own, full, enough) > 0
    }

    /// Records that a writer found no room for an event.
    pub(in crate::gateway) fn request_room(&self) {
        self.room_wanted.store(true, Relaxed);
    }

    /// Waits until there may be room for an event.
    pub(in crate::gateway) fn wait_for_room(&self) -> Notified<'_> {
        self.room.notified()
    }

    fn notify_room(&self) {
        if self.room_wanted.load(Relaxed) && self.room_wanted.swap(false, Relaxed) {
            self.room.notify_waiters();
        }
    }
}
