//! The sessions of a server: opened by `initialize`, found by an id that says all about them, ended by DELETE, by age or
//! with the server.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::channel::EventChannel;
use super::ended_sessions::EndedSessions;
use super::event_id::StreamId;
use super::peers;
use super::rules::CurrentRules;
use super::session::{HttpSession, SessionGuard};
use super::session_id::{SealError, SealedSession};
use crate::gate::GateError;
use crate::gateway::client::{ClientFactory, ClientHandler, Principal, draw_session_name};
use crate::gateway::load::{KeepEvents, LoadLimiter, PrincipalUsage, RefusalReason, SessionSlot};
use crate::gateway::refusal::{LimitReached, RequestRefusal};
use crate::gateway::replica::Replica;
use crate::lock::lock;
use crate::rpc::code::{INVALID_PARAMS, NO_SESSION};

/// The sessions of an HTTP server that are in memory: those that are in use, were used just now, or hold something.
pub(super) struct HttpSessions {
    rules: Arc<CurrentRules>,
    load: Arc<LoadLimiter>,
    /// The sessions by id.
    table: Mutex<HashMap<HeaderValue, Arc<HttpSession>>>,
    ended: EndedSessions,
    /// The number of the last stream; streams of sessions that were in memory before have other numbers.
    last_stream: AtomicU64,
    /// The clients that are being closed; `None` once the server is closed.
    closing: Mutex<Option<JoinSet<()>>>,
}

impl HttpSessions {
    pub(super) fn new(rules: Arc<CurrentRules>, limiter: Arc<LoadLimiter>) -> Arc<Self> {
        let closing = Mutex::new(Some(JoinSet::new()));
        let (table, ended, last_stream) = Default::default();
        let sessions = Arc::new(HttpSessions { rules, load: limiter, table, ended, last_stream, closing });
        let keeper: Arc<dyn KeepEvents> = sessions.clone();
        sessions.load.events.set_keeper(Arc::downgrade(&keeper));
        sessions
    }

    /// Opens a client with a session that has no id until it is registered.
    pub(super) fn open(
        self: &Arc<Self>,
        factory: &dyn ClientFactory,
        principal: &Arc<Principal>,
    ) -> Result<PendingSession, RequestRefusal> {
        let name = draw_session_name().ok_or_else(no_random)?;
        let open = |sink: Arc<EventChannel>| factory.open_client(principal, &name, sink);
        let session = self.create(factory, principal, &name, open)?;
        session.mark_synced();
        Ok(PendingSession { sessions: self.clone(), session: Some(session) })
    }

    /// Returns the session that a request names, which may have been opened by another replica.
    pub(super) async fn find(
        self: &Arc<Self>,
        factory: &dyn ClientFactory,
        headers: &HeaderMap,
        principal: &Arc<Principal>,
    ) -> Result<SessionGuard, RequestRefusal> {
        let Some(id) = headers.get(&SESSION_ID) else {
            let message = "a session is needed: send initialize first, then the Mcp-Session-Id from its response";
            return Err(RequestRefusal::new(StatusCode::BAD_REQUEST, message));
        };
        let known = lock(&self.table).get(id).cloned();
        // Another principal's session gets the same refusal as one that does not exist.
        let known = known.filter(|session| *session.principal == **principal);
        // It may leave memory just now.
        let entered = match known.as_ref().and_then(|session| session.enter()) {
            Some(entered) => entered,
            None => self.take_up(factory, id, principal)?.enter().ok_or_else(unknown)?,
        };
        let session = &entered.0;
        let is_void = |sealed: &SealedSession| sealed.is_over() || !factory.replica().keys().has(sealed.key);
        if session.sealed().is_some_and(is_void) {
            self.end(session);
            return Err(unknown());
        }
        session.sync().await;
        Ok(entered)
    }

    /// Takes up a session that is not in memory, by what its id says.
    fn take_up(
        self: &Arc<Self>,
        factory: &dyn ClientFactory,
        id: &HeaderValue,
        principal: &Arc<Principal>,
    ) -> Result<Arc<HttpSession>, RequestRefusal> {
        let sealed = SealedSession::open(&factory.replica().keys(), id).ok_or_else(unknown)?;
        if sealed.principal != **principal || sealed.is_over() || self.ended.has(&sealed.name) {
            return Err(unknown());
        }
        let resume = |sink: Arc<EventChannel>| factory.resume_client(principal, &sealed.name, &sealed.terms, sink);
        let session = self.create(factory, principal, &sealed.name, resume)?;
        session.set_sealed(sealed);
        match lock(&self.table).entry(id.clone()) {
            Entry::Vacant(place) => {
                place.insert(session.clone());
                self.load.sessions.fetch_add(1, Relaxed);
                return Ok(session);
            }
            // Another request has just taken it up.
            Entry::Occupied(mut place) => match place.get().has_ended() {
                true => drop(place.insert(session.clone())),
                false => {
                    let known = place.get().clone();
                    self.close(&session);
                    return Ok(known);
                }
            },
        }
        Ok(session)
    }

    fn create(
        self: &Arc<Self>,
        factory: &dyn ClientFactory,
        principal: &Arc<Principal>,
        name: &str,
        open: impl FnOnce(Arc<EventChannel>) -> Result<Arc<dyn ClientHandler>, GateError>,
    ) -> Result<Arc<HttpSession>, RequestRefusal> {
        let slot = self.session_slot(principal)?;
        let kept_events = self.rules.get().limits.streams.kept_events;
        let stream = self.next_stream(factory, None);
        let unasked = EventChannel::new(Some(stream), kept_events, self.load.clone(), self.load.usage.of(principal));
        let client = open(unasked.clone()).map_err(|why| RequestRefusal::from_gate_error(principal, &why))?;
        Ok(HttpSession::new(name.to_owned(), principal.clone(), client, unasked, slot))
    }

    /// Returns the id of a new stream, which responds to this request if there is one.
    pub(super) fn next_stream(&self, factory: &dyn ClientFactory, request: Option<&str>) -> StreamId {
        StreamId::new(factory.replica().id, self.last_stream.fetch_add(1, Relaxed) + 1, request)
    }

    /// Ends a session for all replicas, because its client wants that.
    pub(super) async fn delete(&self, factory: &dyn ClientFactory, session: &Arc<HttpSession>) {
        self.end_for_good(session);
        if let Some(sealed) = session.sealed() {
            peers::announce_end(factory.replica(), &sealed.name, sealed.rest()).await;
        }
    }

    /// Remembers that a session has ended, as another replica says, and ends it here too.
    pub(super) fn note_end(&self, name: &str, rest: Duration) {
        self.ended.add(name, rest);
        self.all().iter().filter(|session| session.name == name).for_each(|session| self.end(session));
    }

    /// Returns the session with this name, if it is in memory.
    pub(super) fn named(&self, name: &str) -> Option<Arc<HttpSession>> {
        self.all().into_iter().find(|session| session.name == name)
    }

    /// Ends a session whose id is void from now on.
    fn end_for_good(&self, session: &Arc<HttpSession>) {
        if let Some(sealed) = session.sealed() {
            self.ended.add(&sealed.name, sealed.rest());
        }
        self.end(session);
    }

    /// Ends a session in this process.
    fn end(&self, session: &Arc<HttpSession>) {
        self.forget(session);
        if session.end() {
            self.close(session);
        }
    }

    /// Removes a session from the table.
    fn forget(&self, session: &Arc<HttpSession>) {
        let Some(sealed) = session.sealed() else { return };
        let mut table = lock(&self.table);
        if table.get(&sealed.header).is_some_and(|known| Arc::ptr_eq(known, session)) {
            table.remove(&sealed.header);
            self.load.sessions.fetch_sub(1, Relaxed);
        }
    }

    /// Lets sessions that rest leave memory, ends idle ones that hold something, and forgets streams that were kept long
    /// enough.
    pub(super) fn sweep(&self) {
        let (now, rules) = (Instant::now(), self.rules.get());
        for session in self.all() {
            session.sweep(now, rules.limits.streams.kept_for);
            if !self.let_leave(&session, now, REST) && session.is_idle(now, rules.limits.session_idle) {
                debug!(principal = session.principal.name, "ending an idle session");
                self.end_for_good(&session);
            }
        }
    }

    /// Lets a session leave memory if it has been unused for `rest` and holds nothing; reports whether it has left.
    fn let_leave(&self, session: &Arc<HttpSession>, now: Instant, rest: Duration) -> bool {
        let leaves = session.leave(now, rest);
        if leaves {
            self.forget(session);
            self.close(session);
        }
        leaves
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
            let now = Instant::now();
            for session in self.all() {
                self.let_leave(&session, now, Duration::ZERO);
            }
            self.load.session_slot(principal)
        });
        slot.map_err(|reached| {
            self.load.count_refusal(RefusalReason::Sessions);
            let all = "there are too many sessions: end one with DELETE, or try again later";
            let own = "this principal has too many sessions: end one with DELETE, or try again later";
            RequestRefusal::limit(reached, all, own).retry_after(LATER)
        })
    }

    /// Closes the client of a session that has just ended, or was never used.
    fn close(&self, session: &Arc<HttpSession>) {
        // Without a runtime, the program is ending.
        let Ok(runtime) = Handle::try_current() else { return };
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

    /// Seals what `initialize` fixed into the id of the session, so that requests can find it, and returns the id.
    pub(super) fn register(mut self, replica: &Replica) -> Result<HeaderValue, RequestRefusal> {
        let terms = self.session().client.terms().unwrap_or_default();
        let session = self.session();
        let sealed = SealedSession::seal(&replica.keys(), &session.name, &session.principal, terms);
        let sealed = sealed.map_err(|error| match error {
            SealError::TooLong => RequestRefusal::new(StatusCode::BAD_REQUEST, TOO_LONG).code(INVALID_PARAMS),
            SealError::NoRandom => no_random(),
        })?;
        let id = sealed.header.clone();
        session.set_sealed(sealed);
        let session = self.session.take().expect("it is registered once");
        lock(&self.sessions.table).insert(id.clone(), session);
        self.sessions.load.sessions.fetch_add(1, Relaxed);
        Ok(id)
    }
}

impl Drop for PendingSession {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && session.end()
        {
            self.sessions.close(&session);
        }
    }
}

fn no_random() -> RequestRefusal {
    RequestRefusal::busy("no random numbers are available for a session id")
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
/// How long a session that holds nothing stays in memory after its last use.
const REST: Duration = Duration::from_secs(30);
/// The error for a client whose choice does not fit into the id of its session.
const TOO_LONG: &str =
    "the selection is too long for a session of this protocol version: choose fewer tools, or use globs";
