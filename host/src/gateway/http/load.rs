//! How much is in flight, and how much was turned away.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::options::Limits;
use super::refusal::Refusal;

/// What a door carries, and what it turned away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DoorStats {
    /// Open connections.
    pub connections: usize,
    /// Requests in flight.
    pub requests: usize,
    /// The content of requests and answers in flight, in bytes.
    pub bytes: usize,
    /// Events that wait or are kept, in bytes.
    pub event_bytes: usize,
    /// Sessions of the initialize era.
    pub sessions: usize,
    /// Requests to `/mcp` that were let in.
    pub accepted: u64,
    /// Connections that were turned away because there were too many.
    pub shed_connections: u64,
    /// Requests that were turned away because too much was in flight.
    pub shed_requests: u64,
    /// Requests that were turned away because the client asked too often.
    pub shed_rate: u64,
    /// Sessions that were not opened because there were too many.
    pub shed_sessions: u64,
    /// Requests without a good token.
    pub unauthorized: u64,
    /// Requests with a foreign host or origin.
    pub foreign: u64,
}

impl DoorStats {
    /// What was turned away, by why.
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

/// What a door carries, to be read at any time.
#[derive(Debug)]
pub struct Load {
    most: Most,
    connections: AtomicUsize,
    turned_away: AtomicUsize,
    requests: AtomicUsize,
    bytes: AtomicUsize,
    event_bytes: AtomicUsize,
    pub(super) sessions: AtomicUsize,
    accepted: AtomicU64,
    shed_connections: AtomicU64,
    shed_requests: AtomicU64,
    pub(super) shed_rate: AtomicU64,
    pub(super) shed_sessions: AtomicU64,
    pub(super) unauthorized: AtomicU64,
    pub(super) foreign: AtomicU64,
}

impl Load {
    pub(super) fn new(limits: &Limits) -> Self {
        Load {
            most: Most {
                connections: limits.max_connections.into(),
                requests: limits.max_requests.into(),
                bytes: limits.max_inflight_bytes.into(),
                event_bytes: limits.max_event_bytes.into(),
            },
            connections: AtomicUsize::default(),
            turned_away: AtomicUsize::default(),
            requests: AtomicUsize::default(),
            bytes: AtomicUsize::default(),
            event_bytes: AtomicUsize::default(),
            sessions: AtomicUsize::default(),
            accepted: AtomicU64::default(),
            shed_connections: AtomicU64::default(),
            shed_requests: AtomicU64::default(),
            shed_rate: AtomicU64::default(),
            shed_sessions: AtomicU64::default(),
            unauthorized: AtomicU64::default(),
            foreign: AtomicU64::default(),
        }
    }

    /// Takes other limits; what is over them now goes on.
    pub(super) fn set(&self, limits: &Limits) {
        self.most.connections.store(limits.max_connections, Relaxed);
        self.most.requests.store(limits.max_requests, Relaxed);
        self.most.bytes.store(limits.max_inflight_bytes, Relaxed);
        self.most.event_bytes.store(limits.max_event_bytes, Relaxed);
    }

    /// What it is now.
    pub fn stats(&self) -> DoorStats {
        DoorStats {
            connections: self.connections.load(Relaxed),
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            event_bytes: self.event_bytes.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            shed_connections: self.shed_connections.load(Relaxed),
            shed_requests: self.shed_requests.load(Relaxed),
            shed_rate: self.shed_rate.load(Relaxed),
            shed_sessions: self.shed_sessions.load(Relaxed),
            unauthorized: self.unauthorized.load(Relaxed),
            foreign: self.foreign.load(Relaxed),
        }
    }

    /// Lets a connection in; says too whether it is one too many, which is only told so. None where even that is too
    /// much.
    pub(super) fn connect(self: &Arc<Self>) -> Option<Connected> {
        if take(&self.connections, 1, self.most.connections.load(Relaxed)) {
            return Some(Connected { load: self.clone(), welcome: true });
        }
        self.shed_connections.fetch_add(1, Relaxed);
        take(&self.turned_away, 1, TURNED_AWAY).then(|| Connected { load: self.clone(), welcome: false })
    }

    /// Lets a request in.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Slot, Refusal> {
        if !take(&self.requests, 1, self.most.requests.load(Relaxed)) {
            self.shed_requests.fetch_add(1, Relaxed);
            return Err(Refusal::busy("too many requests are in flight: try again later"));
        }
        self.accepted.fetch_add(1, Relaxed);
        Ok(Slot { load: self.clone(), bytes: 0, counted: true })
    }

    /// A place for the content of a request that is not counted otherwise.
    pub(super) fn aside(self: &Arc<Self>) -> Slot {
        Slot { load: self.clone(), bytes: 0, counted: false }
    }

    /// Makes room for an event.
    pub(super) fn keep_event(&self, bytes: usize) -> bool {
        take(&self.event_bytes, bytes, self.most.event_bytes.load(Relaxed))
    }

    /// Takes an event though there may be no room for it.
    pub(super) fn force_event(&self, bytes: usize) {
        self.event_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn forget_events(&self, bytes: usize) {
        self.event_bytes.fetch_sub(bytes, Relaxed);
    }
}

/// A connection that is counted.
pub(super) struct Connected {
    load: Arc<Load>,
    /// Its requests are served; otherwise each is told that there are too many connections.
    pub(super) welcome: bool,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let count = if self.welcome { &self.load.connections } else { &self.load.turned_away };
        count.fetch_sub(1, Relaxed);
    }
}

/// A request that is counted, with its content.
pub(super) struct Slot {
    load: Arc<Load>,
    bytes: usize,
    counted: bool,
}

impl Slot {
    /// Makes room for more content of the request.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        if !take(&self.load.bytes, bytes, self.load.most.bytes.load(Relaxed)) {
            self.load.shed_requests.fetch_add(1, Relaxed);
            return Err(Refusal::busy("too many bytes are in flight: try again later"));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// The request has been answered: the answer takes its place, even where it is larger.
    pub(super) fn replace(&mut self, bytes: usize) {
        self.load.bytes.fetch_add(bytes, Relaxed);
        self.load.bytes.fetch_sub(self.bytes, Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.load.bytes.fetch_sub(self.bytes, Relaxed);
        if self.counted {
            self.load.requests.fetch_sub(1, Relaxed);
        }
    }
}

#[derive(Debug)]
struct Most {
    connections: AtomicUsize,
    requests: AtomicUsize,
    bytes: AtomicUsize,
    event_bytes: AtomicUsize,
}

fn take(count: &AtomicUsize, amount: usize, most: usize) -> bool {
    let before = count.fetch_add(amount, Relaxed);
    let fits = before.saturating_add(amount) <= most;
    if !fits {
        count.fetch_sub(amount, Relaxed);
    }
    fits
}

/// Connections over the limit that are told so at the same time; further ones are closed without a word.
const TURNED_AWAY: usize = 64;
