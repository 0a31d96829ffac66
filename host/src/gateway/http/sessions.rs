//! The sessions of a server: opened by `initialize`, found by id, ended by DELETE, by idle time or with the server.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::channel::EventChannel;
use super::control::CurrentRules;
use super::load::{LoadLimiter, SessionSlot};
use super::refusal::HttpRefusal;
use super::session::{HttpSession, SessionGuard, SessionId};
use super::usage::{LimitReached, PrincipalUsage};
use crate::gateway::client::{ClientFactory, Principal};
use crate::rpc::code::NO_SESSION;

/// All sessions of an HTTP server.
pub(super) struct HttpSessions {
    rules: Arc<CurrentRules>,
    load: Arc<LoadLimiter>,
    state: Mutex<State>,
    /// The clients that are being closed; `None` once the server is closed.
    closing: Mutex<Option<JoinSet<()>>>,
}

impl HttpSessions {
    pub(super) fn new(rules: Arc<CurrentRules>, limiter: Arc<LoadLimiter>) -> Arc<Self> {
        let state = Mutex::new(State { table: HashMap::new() });
        let sessions =
            Arc::new(HttpSessions { rules, load: limiter, state, closing: Mutex::new(Some(JoinSet::new())) });
        sessions.load.set_sessions(Arc::downgrade(&sessions));
        sessions
    }

    /// Opens a client with a session that nobody can find until it is registered.
    pub(super) fn open(
        self: &Arc<Self>,
        factory: &dyn ClientFactory,
        principal: &Arc<Principal>,
    ) -> Result<PendingSession, HttpRefusal> {
        let slot = self.session_slot(principal)?;
        let mut opening = PendingSession { sessions: self.clone(), session: None };
        let id =
            SessionId::draw().ok_or_else(|| HttpRefusal::busy("no random numbers are available for a session id"))?;
        let rules = self.rules.get();
        let limits = &rules.limits;
        let unasked = EventChannel::resumable(0, limits.kept_events, self.load.clone(), self.load.usage(principal));
        let client = factory
            .open_client(principal, unasked.clone())
            .map_err(|why| HttpRefusal::from_gate_error(principal, &why))?;
        opening.session =
            Some(HttpSession::new(id, principal.clone(), client, unasked, slot, self.load.clone(), limits));
        Ok(opening)
    }

    /// Returns the session that a request names.
    pub(super) fn find(&self, headers: &HeaderMap, principal: &Principal) -> Result<SessionGuard, HttpRefusal> {
        let Some(id) = headers.get(&SESSION_ID) else {
            let message = "a session is needed: send initialize first, then the Mcp-Session-Id from its response";
            return Err(HttpRefusal::new(StatusCode::BAD_REQUEST, message));
        };
        let session = SessionId::parse(id.as_bytes()).and_then(|id| self.state().table.get(&id).cloned());
        // Another principal's session gets the same refusal as one that does not exist.
        let session = session.filter(|session| *session.principal == *principal).ok_or_else(unknown)?;
        if session.is_idle(Instant::now(), self.rules.get().limits.session_idle) {
            self.end(&session);
        }
        session.enter().ok_or_else(unknown)
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &Arc<HttpSession>) {
        if self.state().table.remove(&session.id).is_some() {
            self.load.sessions.fetch_sub(1, Relaxed);
        }
        self.close(session);
    }

    /// Ends idle sessions and forgets streams that were kept long enough.
    pub(super) fn sweep(&self) {
        let (now, rules) = (Instant::now(), self.rules.get());
        let all: Vec<_> = self.state().table.values().cloned().collect();
        for session in all {
            if session.sweep(now, rules.limits.kept_for, rules.limits.session_idle) {
                debug!(principal = session.principal.name, "ending an idle session");
                self.end(&session);
            }
        }
    }

    /// Ends the sessions of the principals that `kind` selects, and returns how many there were.
    pub(super) fn end_those(&self, kind: impl Fn(&Principal) -> bool) -> usize {
        let all: Vec<_> = self.state().table.values().filter(|session| kind(&session.principal)).cloned().collect();
        all.iter().for_each(|session| self.end(session));
        all.len()
    }

    /// Forgets read events until `enough` bytes are free, and returns the number of bytes freed.
    ///
    /// Streams of the principal with usage `own` come first, and ended streams before open ones. If only that principal
    /// has reached its limit, streams of other principals are left alone.
    pub(super) fn forget_read(&self, own: Option<&PrincipalUsage>, full: LimitReached, enough: usize) -> usize {
        let all: Vec<_> = self.state().table.values().cloned().collect();
        let mut streams: Vec<_> = all.iter().flat_map(|session| session.streams()).collect();
        streams.retain(|stream| stream.has_read_events() && (full == LimitReached::All || stream.is_of(own)));
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

    /// Returns the time between two sweeps.
    pub(super) fn sweep_interval(&self) -> Duration {
        let rules = self.rules.get();
        let limits = &rules.limits;
        (limits.session_idle.min(limits.kept_for) / 4).clamp(Duration::from_millis(100), SWEEP)
    }

    /// Cancels the requests of all sessions; each gets a response that says so.
    pub(super) fn cancel_all(&self) {
        let all: Vec<_> = self.state().table.values().cloned().collect();
        all.iter().for_each(|session| session.client.cancel());
    }

    /// Ends all sessions and waits until their clients are closed; no session may be opened afterwards.
    pub(super) async fn end_all(&self) {
        let all: Vec<_> = self.state().table.values().cloned().collect();
        all.iter().for_each(|session| self.end(session));
        let closing = self.closing().take();
        if let Some(closing) = closing {
            // Each task has its own time limit.
            closing.join_all().await;
        }
    }

    /// Reserves a slot for one more session, or for a listener without a session.
    pub(super) fn session_slot(&self, principal: &Arc<Principal>) -> Result<SessionSlot, HttpRefusal> {
        let slot = self.load.session_slot(principal).or_else(|_| {
            self.sweep();
            self.load.session_slot(principal)
        });
        slot.map_err(|full| {
            self.load.shed_sessions.fetch_add(1, Relaxed);
            let refusal = match full {
                LimitReached::All => {
                    HttpRefusal::busy("there are too many sessions: end one with DELETE, or try again later")
                }
                LimitReached::Own => HttpRefusal::over_share(
                    "this principal has too many sessions: end one with DELETE, or try again later",
                ),
            };
            refusal.retry_after(LATER)
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
        if let Some(closing) = &mut *self.closing() {
            while closing.try_join_next().is_some() {}
            closing.spawn_on(close, &runtime);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn register(mut self) -> SessionId {
        let session = self.session.take().expect("it is registered once");
        let id = session.id;
        let mut state = self.sessions.state();
        state.table.insert(id, session);
        self.sessions.load.sessions.fetch_add(1, Relaxed);
        drop(state);
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

struct State {
    table: HashMap<SessionId, Arc<HttpSession>>,
}

fn unknown() -> HttpRefusal {
    let message = "the session does not exist or has ended: send initialize again, without Mcp-Session-Id";
    HttpRefusal::new(StatusCode::NOT_FOUND, message).code(NO_SESSION)
}

/// The name of the header that carries the session id.
pub(super) static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a client may take to be closed.
const CLOSE: Duration = Duration::from_secs(5);
/// How long a refused client is told to wait for a free session.
const LATER: Duration = Duration::from_secs(30);
/// The longest time between two sweeps.
const SWEEP: Duration = Duration::from_secs(30);
