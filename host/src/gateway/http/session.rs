//! One session of the initialize era: its client, its streams, and calls that continue without a connection.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::channel::EventChannel;
use super::event_id::StreamId;
use super::session_id::SealedSession;
use crate::gateway::client::{ClientHandler, Principal, ResponseFuture};
use crate::gateway::load::{PrincipalUsage, RequestSlot, SessionSlot};
use crate::lock::lock;

/// One session of the initialize era that is in memory.
pub(super) struct HttpSession {
    /// The name of the session, for the store, for rules and for servers.
    pub(super) name: String,
    pub(super) principal: Arc<Principal>,
    pub(super) client: Arc<dyn ClientHandler>,
    /// The stream for messages that belong to no request.
    pub(super) standalone_stream: Arc<EventChannel>,
    /// What its id says; set once `initialize` has succeeded.
    sealed: OnceLock<SealedSession>,
    /// Set once it has taken over what the client has changed through other replicas.
    synced: OnceCell<()>,
    state: Mutex<State>,
    /// Calls without a connection; `None` once the session has ended. It has its own lock because dropping a call that
    /// cannot start locks the state.
    calls: Mutex<Option<JoinSet<()>>>,
}

impl HttpSession {
    pub(super) fn new(
        name: String,
        principal: Arc<Principal>,
        client: Arc<dyn ClientHandler>,
        standalone_stream: Arc<EventChannel>,
        slot: SessionSlot,
    ) -> Arc<Self> {
        let state = State { users: 0, used: Instant::now(), slot: Some(slot), streams: VecDeque::new() };
        let (state, calls) = (Mutex::new(state), Mutex::new(Some(JoinSet::new())));
        let (sealed, synced) = (OnceLock::new(), OnceCell::new());
        Arc::new(HttpSession { name, principal, client, standalone_stream, sealed, synced, state, calls })
    }

    /// Sets what the id of the session says.
    pub(super) fn set_sealed(&self, sealed: SealedSession) {
        // A session has one id.
        let _ = self.sealed.set(sealed);
    }

    /// Returns what the id of the session says, once `initialize` has succeeded.
    pub(super) fn sealed(&self) -> Option<&SealedSession> {
        self.sealed.get()
    }

    /// Takes over, once, what the client has changed through other replicas.
    pub(super) async fn sync(&self) {
        self.synced.get_or_init(|| self.client.clone().sync_changes()).await;
    }

    /// Notes that the session has just begun, so there is nothing to take over.
    pub(super) fn mark_synced(&self) {
        // It is new, so nobody else has set it.
        let _ = self.synced.set(());
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
    pub(super) fn stream(&self, id: StreamId, usage: Option<Arc<PrincipalUsage>>) -> Arc<EventChannel> {
        self.standalone_stream.sibling(id, usage)
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

    /// Returns the stream with this id, if it is kept.
    pub(super) fn find(&self, id: &StreamId) -> Option<Arc<EventChannel>> {
        self.streams()
            .into_iter()
            .find(|channel| channel.id.as_ref().is_some_and(|own| (own.replica, own.number) == (id.replica, id.number)))
    }

    /// Forgets streams that ended `kept_for` ago, and calls that have ended.
    pub(super) fn sweep(&self, now: Instant, kept_for: Duration) {
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
    }

    /// Reports whether the session has ended in this process.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).has_ended()
    }

    pub(super) fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        lock(&self.state).is_idle(now, idle)
    }

    /// Ends the session and returns true the first time; the caller then closes the client.
    pub(super) fn end(&self) -> bool {
        self.end_if(|_| true)
    }

    /// Ends the session in this process if it has been unused for `rest` and nothing is lost by that, because its id says
    /// all that is to know; returns true the first time, as `end`.
    pub(super) fn leave(&self, now: Instant, rest: Duration) -> bool {
        let is_whole = self.sealed().is_some() && !self.client.holds_state();
        is_whole && self.end_if(|state| state.is_idle(now, rest) && state.streams.is_empty())
    }

    fn end_if(&self, condition: impl Fn(&State) -> bool) -> bool {
        let streams = {
            let mut state = lock(&self.state);
            if !condition(&state) || state.slot.take().is_none() {
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
