//! Limits and counts what a listener has in flight, and counts what it refused.

mod events;
mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::client::Principal;
use super::limits::GatewayLimits;
use super::refusal::{LimitReached, RequestRefusal};
pub(super) use events::{EventLoad, KeepEvents};
pub(super) use usage::PrincipalUsage;
use usage::{LimitedResource, UsageByPrincipal};

/// A snapshot of what a listener handles and what it refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadStats {
    /// Open connections.
    pub connections: usize,
    /// Requests in flight.
    pub requests: usize,
    /// Bytes of request and response bodies in flight.
    pub bytes: usize,
    /// Bytes of events that wait or are kept.
    pub event_bytes: usize,
    /// Sessions of the initialize era.
    pub sessions: usize,
    /// Requests to `/mcp` and calls through the API that were admitted.
    pub accepted: u64,
    /// What was refused.
    pub refused: RefusalCounts,
}

/// Why a connection or a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// There were too many connections; the connection was refused or closed.
    Connections,
    /// Too much was in flight.
    Requests,
    /// The rate limit was exceeded.
    Rate,
    /// There were too many sessions.
    Sessions,
    /// The request had no valid token.
    Unauthorized,
    /// The request had a foreign host or origin.
    Foreign,
}

/// How many connections and requests were refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusalCounts([u64; 6]);

impl RefusalCounts {
    /// Returns how many were refused for this reason.
    pub fn of(&self, reason: RefusalReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns how many were refused in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the counts with the names of their reasons.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ["connections", "requests", "rate", "sessions", "unauthorized", "foreign"].into_iter().zip(self.0)
    }
}

/// The shared limits and counters of a listener.
#[derive(Debug, Default)]
pub struct LoadLimiter {
    requests: LimitedResource,
    bytes: LimitedResource,
    session_slots: LimitedResource,
    pub(super) events: EventLoad,
    pub(super) usage: UsageByPrincipal,
    pub(super) connections: AtomicUsize,
    pub(super) sessions: AtomicUsize,
    accepted: AtomicU64,
    refused: [AtomicU64; 6],
}

impl LoadLimiter {
    pub(super) fn new(limits: &GatewayLimits, several: bool) -> Arc<Self> {
        let limiter = LoadLimiter::default();
        limiter.set(limits, several);
        Arc::new(limiter)
    }

    /// Sets new limits, and whether several principals share them; what already exceeds them continues.
    pub(super) fn set(&self, limits: &GatewayLimits, several: bool) {
        self.requests.set(limits.max_requests, 1);
        // A single request must always fit.
        self.bytes.set(limits.max_inflight_bytes, limits.max_body_bytes);
        self.session_slots.set(limits.max_sessions, 1);
        self.events.set(limits.streams.max_event_bytes);
        self.usage.set(several);
    }

    /// Returns the current counts.
    pub fn stats(&self) -> LoadStats {
        LoadStats {
            connections: self.connections.load(Relaxed),
            requests: self.requests.used.get(),
            bytes: self.bytes.used.get(),
            event_bytes: self.events.bytes(),
            sessions: self.sessions.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            refused: RefusalCounts(self.refused.each_ref().map(|count| count.load(Relaxed))),
        }
    }

    /// Counts a connection or a request that is refused.
    pub(super) fn count_refusal(&self, reason: RefusalReason) {
        self.refused[reason as usize].fetch_add(1, Relaxed);
    }

    /// Reports whether a request of `bytes` bytes would be admitted now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.requests.has_room(1) && self.bytes.has_room(bytes)
    }

    /// Reports whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.used.get() == 0
    }

    /// Admits a request of a principal.
    pub(super) fn admit(self: &Arc<Self>, principal: &Arc<Principal>) -> Result<RequestSlot, RequestRefusal> {
        let usage = self.usage.of(principal);
        self.requests.take(usage.as_deref().map(|usage| &usage.requests), 1).map_err(|reached| {
            self.count_refusal(RefusalReason::Requests);
            let all = "too many requests are in flight: try again later";
            RequestRefusal::limit(reached, all, "too many requests of this principal are in flight: try again later")
        })?;
        self.accepted.fetch_add(1, Relaxed);
        Ok(RequestSlot { load: self.clone(), usage, bytes: 0, counted: true })
    }

    /// Creates a slot that counts the bytes of a request, but not the request.
    pub(super) fn uncounted_slot(self: &Arc<Self>) -> RequestSlot {
        RequestSlot { load: self.clone(), usage: None, bytes: 0, counted: false }
    }

    /// Reserves a slot for a session of a principal, or for a subscriber without a session.
    pub(super) fn session_slot(self: &Arc<Self>, principal: &Arc<Principal>) -> Result<SessionSlot, LimitReached> {
        let usage = self.usage.of(principal);
        self.session_slots.take(usage.as_deref().map(|usage| &usage.session_slots), 1)?;
        Ok(SessionSlot { load: self.clone(), usage })
    }
}

/// A request in flight, counted with its bytes until this is dropped.
pub(super) struct RequestSlot {
    load: Arc<LoadLimiter>,
    pub(super) usage: Option<Arc<PrincipalUsage>>,
    bytes: usize,
    counted: bool,
}

impl RequestSlot {
    /// Counts more bytes of the request's body if there is room.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), RequestRefusal> {
        self.load.bytes.take(self.own_bytes(), bytes).map_err(|reached| {
            self.load.count_refusal(RefusalReason::Requests);
            let all = "too many bytes are in flight: try again later";
            RequestRefusal::limit(reached, all, "too many bytes of this principal are in flight: try again later")
        })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Counts the response instead of the request, even if it is larger.
    pub(super) fn replace(&mut self, bytes: usize) {
        self.load.bytes.used.add(self.own_bytes(), bytes);
        self.load.bytes.used.subtract(self.own_bytes(), self.bytes);
        self.bytes = bytes;
    }

    fn own_bytes(&self) -> Option<&AtomicUsize> {
        self.usage.as_deref().map(|usage| &usage.bytes)
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.load.bytes.used.subtract(self.own_bytes(), self.bytes);
        let own = self.usage.as_deref().map(|usage| &usage.requests);
        self.load.requests.used.subtract(own, usize::from(self.counted));
    }
}

/// The slot of a session, or of a subscriber without a session, until this is dropped.
pub(super) struct SessionSlot {
    load: Arc<LoadLimiter>,
    usage: Option<Arc<PrincipalUsage>>,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.load.session_slots.used.subtract(self.usage.as_deref().map(|usage| &usage.session_slots), 1);
    }
}
