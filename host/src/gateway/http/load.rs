//! Limits and counts what is in flight, and counts what was refused.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::connections::ConnectionTable;
use super::options::GatewayLimits;
use super::refusal::HttpRefusal;
use super::sessions::HttpSessions;
use super::usage::{LimitReached, PrincipalUsage, SharedLimit, UsageByPrincipal};
use crate::gateway::client::Principal;

/// A snapshot of what a server handles and what it refused.
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
    /// Connections that were refused or closed because there were too many.
    pub shed_connections: u64,
    /// Requests that were refused because too much was in flight.
    pub shed_requests: u64,
    /// Requests that were refused by the rate limit.
    pub shed_rate: u64,
    /// Sessions that were refused because there were too many.
    pub shed_sessions: u64,
    /// Requests without a valid token.
    pub unauthorized: u64,
    /// Requests with a foreign host or origin.
    pub foreign: u64,
}

impl LoadStats {
    /// Returns how much was refused, by reason.
    pub fn refused(&self) -> [(&'static str, u64); 6] {
        [
            ("connections", self.shed_connections),
            ("requests", self.shed_requests),
            ("rate", self.shed_rate),
            ("sessions", self.shed_sessions),
            ("unauthorized", self.unauthorized),
            ("foreign", self.foreign),
        ]
    }
}

/// The shared limits and counters of a server.
#[derive(Debug)]
pub struct LoadLimiter {
    limits: LoadLimits,
    pub(super) connections: Arc<ConnectionTable>,
    requests: AtomicUsize,
    bytes: AtomicUsize,
    event_bytes: AtomicUsize,
    /// How many of the event bytes were read and are kept for clients that reconnect.
    read_bytes: AtomicUsize,
    /// The sessions that keep these events; unset if nothing is kept.
    resumable_sessions: OnceLock<Weak<HttpSessions>>,
    /// A writer found no room for an event and may wait.
    room_wanted: AtomicBool,
    room: Notify,
    session_slots: AtomicUsize,
    usage: UsageByPrincipal,
    pub(super) sessions: AtomicUsize,
    accepted: AtomicU64,
    shed_requests: AtomicU64,
    pub(super) shed_rate: AtomicU64,
    pub(super) shed_sessions: AtomicU64,
    pub(super) unauthorized: AtomicU64,
    pub(super) foreign: AtomicU64,
}

impl LoadLimiter {
    pub(in crate::gateway) fn new(limits: &GatewayLimits) -> Self {
        let load_limits = LoadLimits {
            requests: SharedLimit::new(limits.max_requests),
            bytes: SharedLimit::new(limits.max_inflight_bytes),
            session_slots: SharedLimit::new(limits.max_sessions),
            event_bytes: SharedLimit::new(limits.max_event_bytes),
        };
        let limiter = LoadLimiter {
            limits: load_limits,
            connections: Arc::default(),
            requests: AtomicUsize::default(),
            bytes: AtomicUsize::default(),
            event_bytes: AtomicUsize::default(),
            read_bytes: AtomicUsize::default(),
            resumable_sessions: OnceLock::new(),
            room_wanted: AtomicBool::default(),
            room: Notify::new(),
            session_slots: AtomicUsize::default(),
            usage: UsageByPrincipal::default(),
            sessions: AtomicUsize::default(),
            accepted: AtomicU64::default(),
            shed_requests: AtomicU64::default(),
            shed_rate: AtomicU64::default(),
            shed_sessions: AtomicU64::default(),
            unauthorized: AtomicU64::default(),
            foreign: AtomicU64::default(),
        };
        limiter.set(limits, false);
        limiter
    }

    /// Sets new limits, and whether several principals share them; what already exceeds them continues.
    pub(in crate::gateway) fn set(&self, limits: &GatewayLimits, several: bool) {
        self.connections.set(limits.max_connections, several);
        self.limits.requests.set(limits.max_requests, 1);
        // A single request must always fit.
        self.limits.bytes.set(limits.max_inflight_bytes, limits.max_body_bytes);
        self.limits.session_slots.set(limits.max_sessions, 1);
        self.limits.event_bytes.set(limits.max_event_bytes, 1);
        self.usage.set(several);
    }

    /// Returns the current counts.
    pub fn stats(&self) -> LoadStats {
        LoadStats {
            connections: self.connections.len(),
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            event_bytes: self.event_bytes.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            shed_connections: self.connections.shed(),
            shed_requests: self.shed_requests.load(Relaxed),
            shed_rate: self.shed_rate.load(Relaxed),
            shed_sessions: self.shed_sessions.load(Relaxed),
            unauthorized: self.unauthorized.load(Relaxed),
            foreign: self.foreign.load(Relaxed),
        }
    }

    /// Reports whether a request of `bytes` bytes would be admitted now.
    pub(in crate::gateway) fn has_room(&self, bytes: usize) -> bool {
        let held = self.bytes.load(Relaxed).saturating_add(bytes);
        self.requests.load(Relaxed) < self.limits.requests.all() && held <= self.limits.bytes.all()
    }

    /// Reports whether no request is in flight.
    pub(in crate::gateway) fn is_idle(&self) -> bool {
        self.requests.load(Relaxed) == 0
    }

    /// Admits a request of a principal.
    pub(in crate::gateway) fn admit(self: &Arc<Self>, principal: &Arc<Principal>) -> Result<RequestSlot, HttpRefusal> {
        let usage = self.usage.of(principal);
        let own = usage.as_ref().map(|usage| &usage.requests);
        if let Err(full) = self.limits.requests.take(&self.requests, own, 1) {
            self.shed_requests.fetch_add(1, Relaxed);
            return Err(match full {
                LimitReached::All => HttpRefusal::busy("too many requests are in flight: try again later"),
                LimitReached::Own => {
                    HttpRefusal::over_share("too many requests of this principal are in flight: try again later")
                }
            });
        }
        self.accepted.fetch_add(1, Relaxed);
        Ok(RequestSlot { load: self.clone(), usage, bytes: 0, counted: true })
    }

    /// Creates a slot that counts the bytes of a request, but not the request.
    pub(in crate::gateway) fn uncounted_slot(self: &Arc<Self>) -> RequestSlot {
        RequestSlot { load: self.clone(), usage: None, bytes: 0, counted: false }
    }

    /// Reserves a slot for a session of a principal, or for a listener without a session.
    pub(super) fn session_slot(self: &Arc<Self>, principal: &Arc<Principal>) -> Result<SessionSlot, LimitReached> {
        let usage = self.usage.of(principal);
        self.limits.session_slots.take(&self.session_slots, usage.as_ref().map(|usage| &usage.session_slots), 1)?;
        Ok(SessionSlot { load: self.clone(), usage })
    }

    /// Sets the sessions that keep events for clients that reconnect.
    pub(super) fn set_sessions(&self, sessions: Weak<HttpSessions>) {
        // A limiter belongs to one server, so this is set once.
        let _ = self.resumable_sessions.set(sessions);
    }

    /// Returns the usage of a principal, or `None` if there is only one principal.
    pub(super) fn usage(&self, principal: &Arc<Principal>) -> Option<Arc<PrincipalUsage>> {
        self.usage.of(principal)
    }

    /// Counts an event if there is room for it.
    pub(super) fn keep_event(&self, own: Option<&PrincipalUsage>, bytes: usize) -> Result<(), LimitReached> {
        self.limits.event_bytes.take(&self.event_bytes, own.map(|usage| &usage.event_bytes), bytes)
    }

    /// Forgets read events to make room for a new one, and returns whether anything was freed.
    pub(super) fn make_room(&self, own: Option<&PrincipalUsage>, full: LimitReached, bytes: usize) -> bool {
        let read = match (full, own) {
            (LimitReached::Own, Some(usage)) => &usage.read_bytes,
            _ => &self.read_bytes,
        };
        if read.load(Relaxed) == 0 {
            return false;
        }
        let Some(sessions) = self.resumable_sessions.get().and_then(Weak::upgrade) else { return false };
        // Free more than needed, so that the next events need not search again.
        let enough = bytes.max(self.limits.event_bytes.all() / 8);
        sessions.forget_read(own, full, enough) > 0
    }

    /// Counts bytes of events that were read and are kept.
    pub(super) fn add_read(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.read_bytes.fetch_add(bytes, Relaxed);
        if let Some(usage) = own {
            usage.read_bytes.fetch_add(bytes, Relaxed);
        }
        self.notify_room();
    }

    /// Uncounts read bytes that are forgotten or will be read again.
    pub(super) fn take_read(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.read_bytes.fetch_sub(bytes, Relaxed);
        if let Some(usage) = own {
            usage.read_bytes.fetch_sub(bytes, Relaxed);
        }
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

    /// Reports whether more events wait than the limit allows.
    pub(in crate::gateway) fn is_behind(&self) -> bool {
        self.event_bytes.load(Relaxed) > self.limits.event_bytes.all()
    }

    /// Counts an event even if there is no room for it.
    pub(in crate::gateway) fn force_event(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.event_bytes.fetch_add(bytes, Relaxed);
        if let Some(usage) = own {
            usage.event_bytes.fetch_add(bytes, Relaxed);
        }
    }

    pub(in crate::gateway) fn forget_events(&self, own: Option<&PrincipalUsage>, bytes: usize) {
        self.event_bytes.fetch_sub(bytes, Relaxed);
        if let Some(usage) = own {
            usage.event_bytes.fetch_sub(bytes, Relaxed);
        }
        self.notify_room();
    }
}

/// A request in flight, counted with its bytes until this is dropped.
pub(in crate::gateway) struct RequestSlot {
    load: Arc<LoadLimiter>,
    usage: Option<Arc<PrincipalUsage>>,
    bytes: usize,
    counted: bool,
}

impl RequestSlot {
    /// Returns the usage of the request's principal.
    pub(super) fn usage(&self) -> Option<Arc<PrincipalUsage>> {
        self.usage.clone()
    }

    /// Counts more bytes of the request's body if there is room.
    pub(in crate::gateway) fn reserve(&mut self, bytes: usize) -> Result<(), HttpRefusal> {
        let own = self.usage.as_ref().map(|usage| &usage.bytes);
        if let Err(full) = self.load.limits.bytes.take(&self.load.bytes, own, bytes) {
            self.load.shed_requests.fetch_add(1, Relaxed);
            return Err(match full {
                LimitReached::All => HttpRefusal::busy("too many bytes are in flight: try again later"),
                LimitReached::Own => {
                    HttpRefusal::over_share("too many bytes of this principal are in flight: try again later")
                }
            });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts the response instead of the request, even if it is larger.
    pub(super) fn replace(&mut self, bytes: usize) {
        for count in [&self.load.bytes].into_iter().chain(self.usage.as_ref().map(|usage| &usage.bytes)) {
            count.fetch_add(bytes, Relaxed);
            count.fetch_sub(self.bytes, Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.load.bytes.fetch_sub(self.bytes, Relaxed);
        self.load.requests.fetch_sub(usize::from(self.counted), Relaxed);
        if let Some(usage) = &self.usage {
            usage.bytes.fetch_sub(self.bytes, Relaxed);
            usage.requests.fetch_sub(usize::from(self.counted), Relaxed);
        }
    }
}

/// The slot of a session, or of a listener without a session, until this is dropped.
pub(super) struct SessionSlot {
    load: Arc<LoadLimiter>,
    usage: Option<Arc<PrincipalUsage>>,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.load.session_slots.fetch_sub(1, Relaxed);
        if let Some(usage) = &self.usage {
            usage.session_slots.fetch_sub(1, Relaxed);
        }
    }
}

#[derive(Debug)]
struct LoadLimits {
    requests: SharedLimit,
    bytes: SharedLimit,
    session_slots: SharedLimit,
    event_bytes: SharedLimit,
}
