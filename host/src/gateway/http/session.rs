//! One session of the initialize era: its client, its streams, and the calls that go on without a connection.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::channel::EventChannel;
use super::load::{LoadLimiter, RequestSlot, SessionSlot};
use super::options::GatewayLimits;
use super::pending_response::ResponseFuture;
use super::usage::PrincipalUsage;
use crate::gateway::client::{ClientHandler, Principal};

/// The id of a session: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId(u128);

impl SessionId {
    /// Draws an id that nobody can guess.
    pub(super) fn draw() -> Option<Self> {
        let mut bytes = [0; 16];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
        Some(SessionId(u128::from_be_bytes(bytes)))
    }

    /// Reads what `Display` wrote.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; 32] = text.try_into().ok()?;
        let id = text.iter().try_fold(0, |id, byte| {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            Some(id << 4 | u128::from(digit))
        });
        id.map(SessionId)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One session.
pub(super) struct HttpSession {
    pub(super) id: SessionId,
    pub(super) principal: Arc<Principal>,
    pub(super) client: Arc<dyn ClientHandler>,
    /// What the gateway sends unasked: stream 0.
    pub(super) standalone_stream: Arc<EventChannel>,
    load: Arc<LoadLimiter>,
    kept_events: usize,
    last_stream: AtomicU64,
    state: Mutex<State>,
    /// Calls without a connection; none once the session has ended. Apart from the state, which a call that cannot be
    /// started any more touches when it is dropped.
    calls: Mutex<Option<JoinSet<()>>>,
}

impl HttpSession {
    pub(super) fn new(
        id: SessionId,
        principal: Arc<Principal>,
        client: Arc<dyn ClientHandler>,
        standalone_stream: Arc<EventChannel>,
        seat: SessionSlot,
        limiter: Arc<LoadLimiter>,
        limits: &GatewayLimits,
    ) -> Arc<Self> {
        let state = State { users: 0, used: Instant::now(), slot: Some(seat), streams: VecDeque::new() };
        let (kept_events, last_stream) = (limits.kept_events, AtomicU64::new(0));
        let (state, calls) = (Mutex::new(state), Mutex::new(Some(JoinSet::new())));
        Arc::new(HttpSession {
            id,
            principal,
            client,
            standalone_stream,
            load: limiter,
            kept_events,
            last_stream,
            state,
            calls,
        })
    }

    /// Somebody uses the session; none where it has ended.
    pub(super) fn enter(self: &Arc<Self>) -> Option<SessionGuard> {
        let mut state = self.state();
        if state.has_ended() {
            return None;
        }
        state.users += 1;
        Some(SessionGuard(self.clone()))
    }

    /// A stream for the answer to a request of the principal that has this tab.
    pub(super) fn stream(&self, usage: Option<Arc<PrincipalUsage>>) -> Arc<EventChannel> {
        let number = self.last_stream.fetch_add(1, Relaxed) + 1;
        EventChannel::resumable(number, self.kept_events, self.load.clone(), usage)
    }

    /// Keeps a stream for a client that comes back, in place of the oldest that is over.
    pub(super) fn keep(&self, channel: Arc<EventChannel>) {
        let mut state = self.state();
        if state.has_ended() {
            return;
        }
        if state.streams.len() >= KEPT_STREAMS {
            let oldest = state.streams.iter().position(|kept| kept.channel.is_over()).unwrap_or(0);
            state.streams.remove(oldest);
        }
        state.streams.push_back(KeptStream { channel, over: None });
    }

    /// All streams that are kept.
    pub(super) fn streams(&self) -> Vec<Arc<EventChannel>> {
        let state = self.state();
        state.streams.iter().map(|kept| &kept.channel).chain([&self.standalone_stream]).cloned().collect()
    }

    /// The stream of this number, where it is kept.
    pub(super) fn find(&self, number: u64) -> Option<Arc<EventChannel>> {
        if number == 0 {
            return Some(self.standalone_stream.clone());
        }
        let state = self.state();
        state.streams.iter().map(|kept| &kept.channel).find(|channel| channel.number() == Some(number)).cloned()
    }

    /// Forgets what is over for so long, and says whether the session itself was not used for `idle`.
    pub(super) fn sweep(&self, now: Instant, kept_for: Duration, idle: Duration) -> bool {
        if let Some(calls) = &mut *self.calls() {
            while calls.try_join_next().is_some() {}
        }
        let mut state = self.state();
        state.streams.retain_mut(|kept| {
            if kept.over.is_none() && kept.channel.is_over() {
                kept.over = Some(now);
            }
            kept.over.is_none_or(|over| now.saturating_duration_since(over) < kept_for)
        });
        state.is_idle(now, idle)
    }

    pub(super) fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        self.state().is_idle(now, idle)
    }

    /// Ends the session; true the first time. The client is then to be closed.
    pub(super) fn end(&self) -> bool {
        let streams = {
            let mut state = self.state();
            if state.slot.take().is_none() {
                return false;
            }
            mem::take(&mut state.streams)
        };
        let calls = self.calls().take();
        self.standalone_stream.close();
        streams.iter().for_each(|kept| kept.channel.close());
        drop(calls);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody uses a session, which is not idle until this is dropped.
pub(super) struct SessionGuard(Arc<HttpSession>);

impl SessionGuard {
    pub(super) fn session(&self) -> &Arc<HttpSession> {
        &self.0
    }

    /// Goes on with a call whose connection is gone; its answer is kept with its stream.
    pub(super) fn continue_call(self, work: ResponseFuture, channel: Arc<EventChannel>, slot: Option<RequestSlot>) {
        // Without a runtime the program ends.
        let Ok(runtime) = Handle::try_current() else { return };
        let session = self.0.clone();
        let mut calls = session.calls();
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
        let mut state = self.0.state();
        state.users -= 1;
        state.used = Instant::now();
    }
}

struct State {
    users: usize,
    used: Instant,
    /// Its place among the sessions, until it ends.
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
    /// When it was seen to be over.
    over: Option<Instant>,
}

/// Streams of one session that are kept at the same time.
const KEPT_STREAMS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_32_small_hexadecimal_digits() {
        let id = SessionId::draw().unwrap();
        let text = id.to_string();
        assert_eq!(text.len(), 32);
        assert!(SessionId::parse(text.as_bytes()) == Some(id));
        assert!(SessionId::draw().unwrap() != id);
        for wrong in ["", "1", &text[1..], &format!("{text}0"), &"F".repeat(32), &format!("+{}", &text[1..])] {
            assert!(SessionId::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
