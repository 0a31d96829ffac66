//! One session of the initialize era: its client, its streams, and calls that continue without a connection.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::channel::EventChannel;
use crate::gateway::client::{ClientHandler, Principal, ResponseFuture};
use crate::gateway::load::{PrincipalUsage, RequestSlot, SessionSlot};
use crate::lock::lock;

/// One session of the initialize era.
pub(super) struct HttpSession {
    /// The id, as its header carries it.
    pub(super) id: HeaderValue,
    pub(super) principal: Arc<Principal>,
    pub(super) client: Arc<dyn ClientHandler>,
    /// Stream 0, for messages that belong to no request.
    pub(super) standalone_stream: Arc<EventChannel>,
    last_stream: AtomicU64,
    state: Mutex<State>,
    /// Calls without a connection; `None` once the session has ended. It has its own lock because dropping a call that
    /// cannot start locks the state.
    calls: Mutex<Option<JoinSet<()>>>,
}

impl HttpSession {
    pub(super) fn new(
        id: HeaderValue,
        principal: Arc<Principal>,
        client: Arc<dyn ClientHandler>,
        standalone_stream: Arc<EventChannel>,
        slot: SessionSlot,
    ) -> Arc<Self> {
        let state = State { users: 0, used: Instant::now(), slot: Some(slot), streams: VecDeque::new() };
        let (state, calls) = (Mutex::new(state), Mutex::new(Some(JoinSet::new())));
        let last_stream = AtomicU64::new(0);
        Arc::new(HttpSession { id, principal, client, standalone_stream, last_stream, state, calls })
    }

    /// Marks the session as in use, or returns `None` if it has ended.
    pub(super) fn enter(self: &Arc<Self>) -> Option<SessionGuard> {
        let mut state = lock(&self.state);
        if state.has_ended() {
            return None;
        }
        state.users += 1;
        Some(SessionGuard(self.clone()))
    }

    /// Creates a stream for the response to a request, counted against this usage.
    pub(super) fn stream(&self, usage: Option<Arc<PrincipalUsage>>) -> Arc<EventChannel> {
        self.standalone_stream.sibling(self.last_stream.fetch_add(1, Relaxed) + 1, usage)
    }

    /// Keeps a stream for a client that reconnects; if too many are kept, the oldest goes, finished ones first.
    pub(super) fn keep(&self, channel: Arc<EventChannel>) {
        let mut state = lock(&self.state);
        if state.has_ended() {
            return;
        }
        if state.streams.len() >= KEPT_STREAMS {
            let oldest = state.streams.iter().position(|kept| kept.channel.is_over()).unwrap_or(0);
            state.streams.remove(oldest);
        }
        state.streams.push_back(KeptStream { channel, over: None });
    }

    /// Returns all kept streams.
    pub(super) fn streams(&self) -> Vec<Arc<EventChannel>> {
        let state = lock(&self.state);
        state.streams.iter().map(|kept| &kept.channel).chain([&self.standalone_stream]).cloned().collect()
    }

    /// Returns the stream with this number, if it is kept.
    pub(super) fn find(&self, number: u64) -> Option<Arc<EventChannel>> {
        if number == 0 {
            return Some(self.standalone_stream.clone());
        }
        let state = lock(&self.state);
        state.streams.iter().map(|kept| &kept.channel).find(|channel| channel.number == Some(number)).cloned()
    }

    /// Forgets streams that ended `kept_for` ago, and returns whether the session has been unused for `idle`.
    pub(super) fn sweep(&self, now: Instant, kept_for: Duration, idle: Duration) -> bool {
        if let Some(calls) = &mut *lock(&self.calls) {
            while calls.try_join_next().is_some() {}
        }
        let mut state = lock(&self.state);
        state.streams.retain_mut(|kept| {
            if kept.over.is_none() && kept.channel.is_over() {
                kept.over = Some(now);
            }
            kept.over.is_none_or(|over| now.saturating_duration_since(over) < kept_for)
        });
        state.is_idle(now, idle)
    }

    pub(super) fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        lock(&self.state).is_idle(now, idle)
    }

    /// Ends the session and returns true the first time; the caller then closes the client.
    pub(super) fn end(&self) -> bool {
        let streams = {
            let mut state = lock(&self.state);
            if state.slot.take().is_none() {
                return false;
            }
            mem::take(&mut state.streams)
        };
        let calls = lock(&self.calls).take();
        self.standalone_stream.close();
        streams.iter().for_each(|kept| kept.channel.close());
        drop(calls);
        true
    }
}

/// A guard that keeps a session in use until it is dropped.
pub(super) struct SessionGuard(pub(super) Arc<HttpSession>);

impl SessionGuard {
    /// Continues a call whose connection is gone; its stream keeps the response.
    pub(super) fn continue_call(self, work: ResponseFuture, channel: Arc<EventChannel>, slot: Option<RequestSlot>) {
        // Without a runtime, the program is ending.
        let Ok(runtime) = Handle::try_current() else { return };
        let session = self.0.clone();
        let mut calls = lock(&session.calls);
        let Some(calls) = &mut *calls else { return };
        while calls.try_join_next().is_some() {}
        let call = async move {
            let answer = work.await;
            channel.finish(answer.map(|answer| answer.text));
            drop((self, slot));
        };
        calls.spawn_on(call, &runtime);
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.users -= 1;
        state.used = Instant::now();
    }
}

struct State {
    users: usize,
    used: Instant,
    /// The session's slot, until it ends.
    slot: Option<SessionSlot>,
    streams: VecDeque<KeptStream>,
}

impl State {
    fn has_ended(&self) -> bool {
        self.slot.is_none()
    }

    fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        self.users == 0 && now.saturating_duration_since(self.used) >= idle
    }
}

struct KeptStream {
    channel: Arc<EventChannel>,
    /// When a sweep found that the stream had ended.
    over: Option<Instant>,
}

/// The most streams that one session keeps.
const KEPT_STREAMS: usize = 32;
