//! The sessions of a server: opened by `initialize`, found by id, ended by DELETE, by idle time or with the server.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::channel::EventChannel;
use super::rules::CurrentRules;
use super::session::{HttpSession, SessionGuard};
use crate::gateway::client::{ClientFactory, Principal};
use crate::gateway::load::{KeepEvents, LoadLimiter, PrincipalUsage, RefusalReason, SessionSlot};
use crate::gateway::refusal::{LimitReached, RequestRefusal};
use crate::lock::lock;
use crate::rpc::code::NO_SESSION;

/// All sessions of an HTTP server.
pub(super) struct HttpSessions {
    rules: Arc<CurrentRules>,
    load: Arc<LoadLimiter>,
    table: Mutex<HashMap<HeaderValue, Arc<HttpSession>>>,
    /// The clients that are being closed; `None` once the server is closed.
    closing: Mutex<Option<JoinSet<()>>>,
}

impl HttpSessions {
    pub(super) fn new(rules: Arc<CurrentRules>, limiter: Arc<LoadLimiter>) -> Arc<Self> {
        let closing = Mutex::new(Some(JoinSet::new()));
        let sessions = Arc::new(HttpSessions { rules, load: limiter, table: Mutex::default(), closing });
        let keeper: Arc<dyn KeepEvents> = sessions.clone();
        sessions.load.events.set_keeper(Arc::downgrade(&keeper));
        sessions
    }

    /// Opens a client with a session that nobody can find until it is registered.
    pub(super) fn open(
        self: &Arc<Self>,
        factory: &dyn ClientFactory,
        principal: &Arc<Principal>,
    ) -> Result<PendingSession, RequestRefusal> {
        let slot = self.session_slot(principal)?;
        let mut opening = PendingSession { sessions: self.clone(), session: None };
        let id = draw_id().ok_or_else(|| RequestRefusal::busy("no random numbers are available for a session id"))?;
        let kept_events = self.rules.get().limits.streams.kept_events;
        let unasked = EventChannel::new(Some(0), kept_events, self.load.clone(), self.load.usage.of(principal));
        let client = factory
            .open_client(principal, unasked.clone())
            .map_err(|why| RequestRefusal::from_gate_error(principal, &why))?;
        opening.session = Some(HttpSession::new(id, principal.clone(), client, unasked, slot));
        Ok(opening)
    }

    /// Returns the session that a request names.
    pub(super) fn find(&self, headers: &HeaderMap, principal: &Principal) -> Result<SessionGuard, RequestRefusal> {
        let Some(id) = headers.get(&SESSION_ID) else {
            let message = "a session is needed: send initialize first, then the Mcp-Session-Id from its response";
            return Err(RequestRefusal::new(StatusCode::BAD_REQUEST, message));
        };
        let session = lock(&self.table).get(id).cloned();
        // Another principal's session gets the same refusal as one that does not exist.
        let session = session.filter(|session| *session.principal == *principal).ok_or_else(unknown)?;
        if session.is_idle(Instant::now(), self.rules.get().limits.session_idle) {
            self.end(&session);
        }
        session.enter().ok_or_else(unknown)
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &Arc<HttpSession>) {
        if lock(&self.table).remove(&session.id).is_some() {
            self.load.sessions.fetch_sub(1, Relaxed);
        }
        self.close(session);
    }

    /// Ends idle sessions and forgets streams that were kept long enough.
    pub(super) fn sweep(&self) {
        let (now, rules) = (Instant::now(), self.rules.get());
        for session in self.all() {
            if session.sweep(now, rules.limits.streams.kept_for, rules.limits.session_idle) {
                debug!(principal = session.principal.name, "ending an idle session");
                self.end(&session);
            }
        }
    }

    /// Ends the sessions of the principals that `kind` selects, and returns how many there were.
    pub(super) fn end_those(&self, kind: impl Fn(&Principal) -> bool) -> usize {
        let mut all = self.all();
        all.retain(|session| kind(&session.principal));
        all.iter().for_each(|session| self.end(session));
        all.len()
    }

    /// Returns the time between two sweeps.
    pub(super) fn sweep_interval(&self) -> Duration {
        let rules = self.rules.get();
        let limits = &rules.limits;
        (limits.session_idle.min(limits.streams.kept_for) / 4).clamp(Duration::from_millis(100), SWEEP)
    }

    /// Cancels the requests of all sessions; each gets a response that says so.
    pub(super) fn cancel_all(&self) {
        self.all().iter().for_each(|session| session.client.cancel());
    }

    /// Ends all sessions and waits until their clients are closed; no session may be opened afterwards.
    pub(super) async fn end_all(&self) {
        self.end_those(|_| true);
        let closing = lock(&self.closing).take();
        if let Some(closing) = closing {
            // Each task has its own time limit.
            closing.join_all().await;
        }
    }

    /// Reserves a slot for one more session, or for a listener without a session.
    pub(super) fn session_slot(&self, principal: &Arc<Principal>) -> Result<SessionSlot, RequestRefusal> {
        let slot = self.load.session_slot(principal).or_else(|_| {
            self.sweep();
            self.load.session_slot(principal)
        });
        slot.map_err(|reached| {
            self.load.count_refusal(RefusalReason::Sessions);
            let all = "there are too many sessions: end one with DELETE, or try again later";
            let own = "this principal has too many sessions: end one with DELETE, or try again later";
            RequestRefusal::limit(reached, all, own).retry_after(LATER)
        })
    }

    /// Closes the client of a session that has just ended.
    fn close(&self, session: &Arc<HttpSession>) {
        // Without a runtime, the program is ending.
        let (true, Ok(runtime)) = (session.end(), Handle::try_current()) else { return };
        let (client, name) = (session.client.clone(), session.principal.name.clone());
        let close = async move {
            if timeout(CLOSE, client.close()).await.is_err() {
                warn!(principal = name, "a client was not closed within {CLOSE:?}");
            }
        };
        if let Some(closing) = &mut *lock(&self.closing) {
            while closing.try_join_next().is_some() {}
            closing.spawn_on(close, &runtime);
        }
    }

    fn all(&self) -> Vec<Arc<HttpSession>> {
        lock(&self.table).values().cloned().collect()
    }
}

impl KeepEvents for HttpSessions {
    /// Forgets the read events of ended streams before those of open ones.
    fn forget_read(&self, own: Option<&PrincipalUsage>, reached: LimitReached, enough: usize) -> usize {
        let mut streams: Vec<_> = self.all().iter().flat_map(|session| session.streams()).collect();
        streams.retain(|stream| stream.has_read_events() && (reached == LimitReached::All || stream.is_of(own)));
        streams.sort_by_cached_key(|stream| (!stream.is_of(own), !stream.is_over()));
        let mut forgotten = 0;
        for stream in streams {
            if forgotten >= enough {
                break;
            }
            forgotten += stream.forget_read(enough - forgotten);
        }
        forgotten
    }
}

/// A session that is not registered yet; dropping it closes its client.
pub(super) struct PendingSession {
    sessions: Arc<HttpSessions>,
    session: Option<Arc<HttpSession>>,
}

impl PendingSession {
    pub(super) fn session(&self) -> &Arc<HttpSession> {
        self.session.as_ref().expect("only `register` takes it")
    }

    /// Registers the session, so that requests can find it, and returns its id.
    pub(super) fn register(mut self) -> HeaderValue {
        let session = self.session.take().expect("it is registered once");
        let id = session.id.clone();
        let mut table = lock(&self.sessions.table);
        table.insert(id.clone(), session);
        self.sessions.load.sessions.fetch_add(1, Relaxed);
        drop(table);
        id
    }
}

impl Drop for PendingSession {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.close(&session);
        }
    }
}

/// Draws an id of 128 random bits, or returns `None` if no random numbers are available.
fn draw_id() -> Option<HeaderValue> {
    let mut bytes = [0; 16];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    HeaderValue::try_from(format!("{:032x}", u128::from_be_bytes(bytes))).ok()
}

fn unknown() -> RequestRefusal {
    let message = "the session does not exist or has ended: send initialize again, without Mcp-Session-Id";
    RequestRefusal::new(StatusCode::NOT_FOUND, message).code(NO_SESSION)
}

/// The name of the header that carries the session id.
pub(super) static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a client may take to be closed.
const CLOSE: Duration = Duration::from_secs(5);
/// How long a refused client is told to wait for a free session.
const LATER: Duration = Duration::from_secs(30);
/// The longest time between two sweeps.
const SWEEP: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_32_small_hexadecimal_digits() {
        let id = draw_id().unwrap();
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        assert!(id.len() == 32 && id.as_bytes().iter().all(is_digit), "{id:?}");
        assert_ne!(draw_id().unwrap(), id);
    }
}
