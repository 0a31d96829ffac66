//! One configured server and the connection to it, kept alive for whoever uses it.

mod authorize;
mod connection;
mod drive;
mod lease;
mod listing;
mod opener;
mod probing;
mod unavailable;
mod watching;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub use lease::Lease;
pub use unavailable::Unavailable;
pub use watching::ResourceWatcher;

use super::owned_task::OwnedTask;
use super::status::{LastError, ServerStatus};
use super::tools::ToolList;
use super::{LinkEvent, RegistryContext, RegistryLifetime};
use crate::config::model::{Config, Problem, ServerConfig};
use crate::decide::LogicResult;
use crate::logic::types::lifecycle;
use crate::queue::Queue;
use crate::session::{LogLevel, ServerEvent, Session};
use crate::stats::CallStats;
use connection::ActiveConnection;
use listing::{ListAttempts, OtherListings};
use opener::SessionOpener;
use watching::WatchedResources;

/// One configured server. All gates that share it share its connection.
pub struct Link {
    weak_self: Weak<Link>,
    opener: Arc<SessionOpener>,
    policy: lifecycle::Policy,
    state: Mutex<State>,
    /// Told after each step of the machine.
    changed: watch::Sender<()>,
    /// How many hold a lease, or watch a resource.
    users: AtomicUsize,
    /// How many of them watch a resource; what is replaced is not kept for them.
    watchers: AtomicUsize,
    watched: Mutex<WatchedResources>,
    /// How many leases there ever were.
    leases: AtomicU64,
    /// The machine has been told that somebody wants the server.
    wanted: AtomicBool,
    /// Another has taken its place: it is there for those who have it, and for nobody else.
    retired: AtomicBool,
    tools: Mutex<Option<Arc<ToolList>>>,
    /// One list is asked for at a time; who waits meanwhile takes what comes of it.
    listing: Arc<Semaphore>,
    lists: Mutex<ListAttempts>,
    /// What the server last listed beside its tools, by kind.
    other_lists: Mutex<OtherListings>,
    /// There is one connection at a time, and the next waits until nothing is left of the last.
    connection_slot: Arc<Semaphore>,
    /// How calls of this server went, over whichever connection.
    stats: CallStats,
    queues: Vec<(String, Arc<Queue>)>,
    /// The server is told which session it is used for.
    uses_session: bool,
}

/// Where the server stands.
struct State {
    machine: lifecycle::Server,
    connection: Option<ActiveConnection>,
    /// Counts the attempts, so that what an older one reports is not taken for news.
    attempts: u64,
    attempt: Option<OwnedTask>,
    probe: Option<OwnedTask>,
    timer: Option<OwnedTask>,
    /// Looks whether anybody still uses the server.
    janitor: Option<OwnedTask>,
    /// Looks whether there is an authorization by now.
    auth_watch: Option<OwnedTask>,
    /// The authorization that was refused.
    refused_edition: u64,
    /// Nothing is opened any more.
    closed: bool,
    /// Why there is no connection.
    last_failure: Option<Unavailable>,
    /// The last attempt to get one failed, and nothing has begun anew since.
    start_failed: bool,
    /// What is wrong with its configuration, as far as only filling it in could show, and when that was seen.
    config_problem: Option<(Problem, Instant)>,
    /// It was up before, and is to be so again.
    was_connected: bool,
    since: SystemTime,
    last_error: Option<LastError>,
    last_check: Option<SystemTime>,
    started_in: Option<Duration>,
    restarts: u64,
}

impl Link {
    pub(super) fn new(
        context: Arc<RegistryContext>,
        config: Arc<Config>,
        place: usize,
        session: Option<String>,
        stats: CallStats,
    ) -> LogicResult<Arc<Self>> {
        let server = &config.servers[place];
        let policy = context.policy(server);
        let enabled = server.enabled && server.problem.is_none();
        let queues = context.queues_of(server);
        let machine = context.initial(enabled)?;
        let (uses_session, closed) = (server.uses_session(), context.is_shutting_down());
        Ok(Arc::new_cyclic(|weak_self| Link {
            weak_self: weak_self.clone(),
            opener: Arc::new(SessionOpener::new(context, config, place, session)),
            policy,
            state: Mutex::new(State {
                machine,
                connection: None,
                attempts: 0,
                attempt: None,
                probe: None,
                timer: None,
                janitor: None,
                auth_watch: None,
                refused_edition: 0,
                closed,
                last_failure: None,
                start_failed: false,
                config_problem: None,
                was_connected: false,
                since: SystemTime::now(),
                last_error: None,
                last_check: None,
                started_in: None,
                restarts: 0,
            }),
            changed: watch::Sender::new(()),
            users: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
            watched: Mutex::default(),
            leases: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            tools: Mutex::default(),
            listing: Arc::new(Semaphore::new(1)),
            lists: Mutex::default(),
            other_lists: Mutex::default(),
            connection_slot: Arc::new(Semaphore::new(1)),
            stats,
            queues,
            uses_session,
        }))
    }

    /// The id of the server.
    pub fn id(&self) -> &str {
        &self.server().id
    }

    /// Tells its connection from those of all other links.
    pub(crate) fn number(&self) -> u64 {
        self.opener.number
    }

    /// What the configuration says of it.
    pub fn server(&self) -> &ServerConfig {
        self.opener.server()
    }

    /// Whether all gates of a session may use it, whichever session that is.
    pub(super) fn is_shared_for(&self, session: Option<&str>) -> bool {
        self.server().lifecycle.shared && (session.is_none() || !self.uses_session)
    }

    /// Whether the server is told which session it is used for.
    pub(super) fn uses_session(&self) -> bool {
        self.uses_session
    }

    /// Lets all who listen know what the server told.
    fn broadcast(&self, event: ServerEvent) {
        // A server that logs without end must not drown what others tell.
        if let ServerEvent::Log { level, .. } = &event
            && self.wanted_level().is_none_or(|wanted| LogLevel::of(level).is_some_and(|level| level < wanted))
        {
            return;
        }
        // That nobody listens is no fault.
        let _ = self.opener.context.events.send(LinkEvent { link: Some(Weak::clone(&self.weak_self)), event });
    }

    /// The least grave lines of its log that anybody wants.
    fn wanted_level(&self) -> Option<LogLevel> {
        self.opener.context.wanted_level()
    }

    /// Tells the server which lines of its log are wanted, if it is connected.
    pub(super) async fn send_log_level(&self) {
        if let (Some(session), Some(level)) = (self.current(), self.wanted_level()) {
            session.set_level(level).await;
        }
    }

    /// Whether tools are asked for as soon as there is a connection.
    fn lists_on_connect(&self) -> bool {
        self.opener.context.lifetime == RegistryLifetime::LongRunning
    }

    /// How its calls went so far.
    pub fn stats(&self) -> &CallStats {
        &self.stats
    }

    /// Whether calls may have to wait for their turn.
    pub(crate) fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// The queues that a call of this tool has to pass, in this order.
    pub(crate) fn queues(&self, tool: &str) -> impl Iterator<Item = &Arc<Queue>> {
        let context = &self.opener.context;
        let of_tool = self.server().tool_queues.iter().find(|(pattern, _)| context.matches(pattern, tool));
        let name = of_tool.map(|(_, queue)| queue).or(self.server().queue.as_ref());
        let own = self.queues.iter().filter(|(name, _)| name.is_empty());
        let named = self.queues.iter().filter(move |(known, _)| Some(known) == name && !known.is_empty());
        own.chain(named).map(|(_, queue)| queue)
    }

    /// The session, if there is one.
    pub fn current(&self) -> Option<Arc<Session>> {
        self.state().connection.as_ref().map(|connection| Arc::clone(&connection.session))
    }

    /// This session is no longer good: the next who asks gets another one.
    pub fn discard_session(&self, broken: &Arc<Session>) {
        let mut state = self.state();
        let current = state.connection.as_ref().filter(|connection| Arc::ptr_eq(&connection.session, broken));
        if let Some(number) = current.map(|connection| connection.number) {
            self.drop_connection(&mut state, number);
        }
    }

    /// A call over this session was not answered in time: the server is looked after.
    pub fn report_timeout(&self, session: &Arc<Session>) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|connection| Arc::ptr_eq(&connection.session, session)) {
            self.step(&mut state, &lifecycle::Event::CallTimedOut);
        }
    }

    /// Where the server stands.
    pub fn status(&self) -> ServerStatus {
        let state = self.state();
        let session = state.connection.as_ref().map(|connection| &connection.session);
        // Before the rest, which holds the lock of the tools until all of it is there.
        let cut_lists = self.cut_lists();
        ServerStatus {
            server: self.id().to_owned(),
            kind: self.server().kind.name(),
            // The machine hears of nothing any more once all is closed.
            state: if state.closed { lifecycle::State::Disabled } else { state.machine.state },
            ready: !state.closed && self.opener.context.counts_as_ready(state.machine),
            connections: usize::from(session.is_some()),
            since: state.since,
            era: session.map(|session| session.peer().era.name()),
            version: session.map(|session| session.peer().version.clone()),
            name: session.and_then(|session| session.peer().name.clone()),
            tools: self.cached().as_ref().map(|tools| tools.definitions.len()),
            cut_lists,
            users: self.users.load(Ordering::Relaxed),
            calls: self.stats.snapshot(),
            last_error: state.last_error.clone(),
            last_check: state.last_check,
            started_in: state.started_in,
            restarts: state.restarts,
            pid: session.and_then(|session| session.pid()),
            problem: {
                let fault = state.config_problem.as_ref().map(|(problem, _)| problem);
                self.server().problem.as_ref().or(fault).map(ToString::to_string)
            },
            queues: self.queues.iter().map(|(_, queue)| queue.stats()).collect(),
        }
    }

    /// Switches this connection on or off.
    pub(super) fn set_enabled(&self, on: bool) {
        self.handle_event(if on { &lifecycle::Event::Enabled } else { &lifecycle::Event::Disabled });
    }

    /// Whether the server is switched off.
    pub fn is_disabled(&self) -> bool {
        self.state().machine.state == lifecycle::State::Disabled
    }

    /// The same by the word of somebody, and not for a fault of its configuration.
    pub(super) fn is_switched_off(&self) -> bool {
        let state = self.state();
        state.machine.state == lifecycle::State::Disabled && state.config_problem.is_none()
    }

    /// Ends the connection, if there is one, and begins anew, also where it was given up.
    pub(super) fn reconnect(&self) {
        let mut state = self.state();
        if state.machine.state == lifecycle::State::Disabled && state.config_problem.is_none() {
            return;
        }
        self.step(&mut state, &lifecycle::Event::Disabled);
        self.step(&mut state, &lifecycle::Event::Enabled);
    }

    /// Begins anew where the server was given up.
    pub(super) fn retry_if_failed(&self) {
        let given_up = {
            let state = self.state();
            matches!(state.machine.state, lifecycle::State::Failed | lifecycle::State::NeedsAuth)
                || state.config_problem.is_some()
        };
        if given_up {
            self.reconnect();
        }
    }

    /// Starts the server now if it is to run whether anybody wants it or not; what is wrong with its configuration is told.
    pub(super) fn start_if_eager(&self) {
        if !self.server().enabled || self.server().problem.is_some() {
            return;
        }
        if let Some(problem) = self.opener.problem() {
            self.report_config_problem(&mut self.state(), problem);
        } else if self.policy.eager {
            self.handle_event(&lifecycle::Event::Enabled);
        }
    }

    /// Ends the connection in good manners, and for good.
    pub async fn close(&self) {
        let (connection, attempt) = {
            let mut state = self.state();
            state.closed = true;
            (state.probe, state.timer, state.janitor, state.auth_watch) = (None, None, None, None);
            (state.connection.take(), state.attempt.take())
        };
        self.changed.send_replace(());
        self.opener.context.state_changed();
        if let Some(attempt) = attempt {
            attempt.stop().await;
        }
        if let Some(connection) = connection {
            connection.session.close().await;
        }
    }

    /// Closes once nobody uses it any more; new users are turned away from now on.
    pub(super) fn retire(self: Arc<Self>) -> impl Future<Output = ()> {
        let mut changed = self.changed.subscribe();
        self.retired.store(true, Ordering::SeqCst);
        self.changed.send_replace(());
        let longest = Instant::now() + self.server().timeouts.total;
        async move {
            while self.users.load(Ordering::SeqCst) > self.watchers.load(Ordering::SeqCst) {
                if tokio::time::timeout_at(longest, changed.changed()).await.is_err() {
                    break;
                }
            }
            self.close().await;
        }
    }

    /// Whether it would be reached or run otherwise now than when it was last connected.
    pub(super) async fn is_stale(&self) -> bool {
        self.opener.is_stale().await
    }

    /// Whether nothing is opened any more.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Whether another has taken its place.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Whether it was lost, and is being brought up again.
    pub(crate) fn is_restarting(&self) -> bool {
        self.state().machine.state == lifecycle::State::Restarting
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each step leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
