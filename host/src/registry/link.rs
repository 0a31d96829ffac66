//! One configured server and its connection, kept alive for its users.

mod authorize;
mod connection;
mod drive;
mod lease;
mod listing;
mod opener;
mod other_clients;
mod probing;
mod unavailable;
mod usage;
mod watching;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub use lease::Lease;
pub use unavailable::Unavailable;
pub use watching::ResourceWatcher;

use super::owned_task::OwnedTask;
use super::status::{ConnectionScope, LastError, ServerStatus};
use super::{LinkEvent, RegistryContext, RegistryLifetime};
use crate::config::model::{Config, Problem, ServerConfig};
use crate::decide::LogicResult;
use crate::logic::types::lifecycle;
use crate::queue::Queue;
use crate::session::{LogLevel, Peer, ServerEvent, Session};
use crate::stats::CallStats;
use connection::ActiveConnection;
use listing::ServerLists;
use opener::SessionOpener;
use usage::LinkUsage;
use watching::WatchedResources;

/// One configured server. Gates that share the server share its connection.
pub struct Link {
    weak_self: Weak<Link>,
    opener: Arc<SessionOpener>,
    policy: lifecycle::Policy,
    state: Mutex<State>,
    /// Notified after each lifecycle step.
    changed: watch::Sender<()>,
    usage: LinkUsage,
    watched: Mutex<WatchedResources>,
    /// Whether a newer link has replaced this one; current users may keep it, and new ones are rejected.
    retired: AtomicBool,
    lists: ServerLists,
    /// Allows one connection at a time; the next waits until the last has ended completely.
    connection_slot: Arc<Semaphore>,
    /// Statistics of calls to this server, over all its connections.
    stats: CallStats,
    queues: Vec<(String, Arc<Queue>)>,
    /// Whether the server receives the id of the session that uses it.
    uses_session: bool,
}

/// The state of a server and its connection.
struct State {
    machine: lifecycle::Server,
    connection: Option<ActiveConnection>,
    /// Counts connection attempts, to ignore reports of older ones.
    attempts: u64,
    tasks: LinkTasks,
    /// The edition of the authorization that the server rejected.
    refused_edition: u64,
    /// Whether the link is closed; nothing is opened any more.
    closed: bool,
    /// Why there is no connection.
    last_failure: Option<Unavailable>,
    /// A configuration problem that only resolving could show, and when it was seen.
    config_problem: Option<(Problem, Instant)>,
    history: LinkHistory,
}

/// The tasks of a link; a task ends when it is dropped.
#[derive(Default)]
struct LinkTasks {
    attempt: Option<OwnedTask>,
    probe: Option<OwnedTask>,
    timer: Option<OwnedTask>,
    /// Checks whether anybody still uses the server.
    usage_watch: Option<OwnedTask>,
    /// Checks whether there is an authorization by now.
    auth_watch: Option<OwnedTask>,
}

/// What the status of a server tells about its past.
struct LinkHistory {
    /// When it entered its current state.
    since: SystemTime,
    /// The server as it described itself when it was last connected.
    last_peer: Option<Peer>,
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
        let (uses_session, closed) = (server.uses_session(), context.cleanup.is_shutting_down());
        let link = Arc::new_cyclic(|weak_self| Link {
            weak_self: weak_self.clone(),
            opener: Arc::new(SessionOpener::new(context, config, place, session)),
            policy,
            state: Mutex::new(State {
                machine,
                connection: None,
                attempts: 0,
                tasks: LinkTasks::default(),
                refused_edition: 0,
                closed,
                last_failure: None,
                config_problem: None,
                history: LinkHistory {
                    since: SystemTime::now(),
                    last_peer: None,
                    last_error: None,
                    last_check: None,
                    started_in: None,
                    restarts: 0,
                },
            }),
            changed: watch::Sender::new(()),
            usage: LinkUsage::default(),
            watched: Mutex::default(),
            retired: AtomicBool::new(false),
            lists: ServerLists::default(),
            connection_slot: Arc::new(Semaphore::new(1)),
            stats,
            queues,
            uses_session,
        });
        link.note_state(machine.state);
        Ok(link)
    }

    /// Returns the id of the server.
    pub fn id(&self) -> &str {
        &self.server().id
    }

    /// Returns the number that distinguishes this link's connection from all others.
    pub(crate) fn number(&self) -> u64 {
        self.opener.number
    }

    /// Returns the configuration of the server.
    pub fn server(&self) -> &ServerConfig {
        self.opener.server()
    }

    /// Reports whether gates of this session can use the shared connection.
    pub(super) fn is_shared_for(&self, session: Option<&str>) -> bool {
        self.server().lifecycle.shared && (session.is_none() || !self.uses_session)
    }

    /// Returns who shares a connection to the server.
    fn scope(&self) -> ConnectionScope {
        match (self.server().lifecycle.shared, self.uses_session) {
            (false, _) => ConnectionScope::Gate,
            (true, true) => ConnectionScope::Session,
            (true, false) => ConnectionScope::Shared,
        }
    }

    /// Reports whether the server receives the id of the session that uses it.
    pub(super) fn uses_session(&self) -> bool {
        self.uses_session
    }

    /// Sends an event of the server to all listeners.
    fn broadcast(&self, event: ServerEvent) {
        // A server that logs without end must not displace events of others.
        if let ServerEvent::Log { level, .. } = &event
            && self.wanted_level().is_none_or(|wanted| LogLevel::of(level).is_some_and(|level| level < wanted))
        {
            return;
        }
        // An error only means that nobody listens.
        let _ = self.opener.context.notices.events.send(LinkEvent { link: Some(Weak::clone(&self.weak_self)), event });
    }

    /// Returns the lowest log level that anybody wants.
    fn wanted_level(&self) -> Option<LogLevel> {
        self.opener.context.notices.wanted_level()
    }

    /// Sends the wanted log level to the server, if it is connected.
    pub(super) async fn send_log_level(&self) {
        if let (Some(session), Some(level)) = (self.current(), self.wanted_level()) {
            session.set_level(level).await;
        }
    }

    /// Reports whether tools are listed as soon as there is a connection.
    fn lists_on_connect(&self) -> bool {
        self.opener.context.lifetime == RegistryLifetime::LongRunning
    }

    /// Returns the statistics of calls to this server.
    pub fn stats(&self) -> &CallStats {
        &self.stats
    }

    /// Reports whether calls may have to wait in a queue.
    pub(crate) fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Returns the queues that a call of this tool passes, in order.
    pub(crate) fn queues(&self, tool: &str) -> impl Iterator<Item = &Arc<Queue>> {
        let context = &self.opener.context;
        let of_tool = self.server().tool_queues.iter().find(|(pattern, _)| context.matches(pattern, tool));
        let name = of_tool.map(|(_, queue)| queue).or(self.server().queue.as_ref());
        let own = self.queues.iter().filter(|(name, _)| name.is_empty());
        let named = self.queues.iter().filter(move |(known, _)| Some(known) == name && !known.is_empty());
        own.chain(named).map(|(_, queue)| queue)
    }

    /// Returns the session, if there is one.
    pub fn current(&self) -> Option<Arc<Session>> {
        self.state().connection.as_ref().map(|connection| Arc::clone(&connection.session))
    }

    /// Discards a broken session; the next caller gets a new one.
    pub fn discard_session(&self, broken: &Arc<Session>) {
        let mut state = self.state();
        let current = state.connection.as_ref().filter(|connection| Arc::ptr_eq(&connection.session, broken));
        if let Some(number) = current.map(|connection| connection.number) {
            self.drop_connection(&mut state, number);
        }
    }

    /// Reports a call timeout on this session, so that the lifecycle probes the server.
    pub fn report_timeout(&self, session: &Arc<Session>) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|connection| Arc::ptr_eq(&connection.session, session)) {
            self.step(&mut state, &lifecycle::Event::CallTimedOut);
        }
    }

    /// Returns the status of the server.
    pub fn status(&self) -> ServerStatus {
        let state = self.state();
        let session = state.connection.as_ref().map(|connection| &connection.session);
        let (cut_lists, tools, peer) = (self.cut_lists(), self.known_tools(), state.history.last_peer.as_ref());
        ServerStatus {
            server: self.id().to_owned(),
            kind: self.server().kind.name(),
            // The lifecycle receives no events after closing.
            state: if state.closed { lifecycle::State::Disabled } else { state.machine.state },
            ready: !state.closed && self.opener.context.counts_as_ready(state.machine),
            connections: usize::from(session.is_some()),
            since: state.history.since,
            era: session.map(|session| session.peer().era.name()),
            version: session.map(|session| session.peer().version.clone()),
            name: peer.and_then(|peer| peer.name.clone()),
            software_version: peer.and_then(|peer| peer.software_version.clone()),
            description: self.server().description.clone(),
            source: self.server().place.to_string(),
            tools: tools.as_ref().map(|tools| tools.definitions.len()),
            tool_names: tools.iter().flat_map(|tools| &tools.definitions).map(|tool| tool.name.clone()).collect(),
            cut_lists,
            users: self.usage.users(),
            calls: self.stats.snapshot(),
            last_error: state.history.last_error.clone(),
            last_check: state.history.last_check,
            started_in: state.history.started_in,
            restarts: state.history.restarts,
            pid: session.and_then(|session| session.pid()),
            problem: {
                let fault = state.config_problem.as_ref().map(|(problem, _)| problem);
                self.server().problem.as_ref().or(fault).map(ToString::to_string)
            },
            scope: self.scope(),
            queues: self.queues.iter().map(|(_, queue)| queue.stats()).collect(),
        }
    }

    /// Returns the instructions that the server gave when it was last connected.
    pub(crate) fn last_instructions(&self) -> Option<String> {
        self.state().history.last_peer.as_ref()?.instructions.clone()
    }

    /// Returns why the server cannot be used, as far as that is known.
    pub(crate) fn known_failure(&self) -> Option<Unavailable> {
        match self.poll_unless_failed() {
            Ok(_) | Err(Unavailable::Disabled | Unavailable::Closed) => None,
            Err(why) => Some(why),
        }
    }

    /// Enables or disables this connection.
    pub(super) fn set_enabled(&self, on: bool) {
        self.handle_event(if on { &lifecycle::Event::Enabled } else { &lifecycle::Event::Disabled });
    }

    /// Reports whether the server is disabled.
    pub fn is_disabled(&self) -> bool {
        self.state().machine.state == lifecycle::State::Disabled
    }

    /// Reports whether somebody disabled the server, as opposed to a configuration problem.
    pub(super) fn is_switched_off(&self) -> bool {
        let state = self.state();
        state.machine.state == lifecycle::State::Disabled && state.config_problem.is_none()
    }

    /// Closes the connection, if there is one, and opens a new one, even after the server has failed.
    pub(super) fn reconnect(&self) {
        let mut state = self.state();
        if state.machine.state == lifecycle::State::Disabled && state.config_problem.is_none() {
            return;
        }
        self.step(&mut state, &lifecycle::Event::Disabled);
        self.step(&mut state, &lifecycle::Event::Enabled);
    }

    /// Reconnects if the server has failed.
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

    /// Starts the server if it is to run without a caller, and reports problems of its configuration.
    pub(super) fn start_if_eager(&self) {
        if !self.server().enabled || self.server().problem.is_some() {
            return;
        }
        if let Some(problem) = self.opener.problem() {
            self.report_config_problem(&mut self.state(), problem);
        } else {
            self.check_start();
        }
    }

    /// Lets the lifecycle start the server if it is to run without a caller.
    pub(super) fn check_start(&self) {
        self.handle_event(&lifecycle::Event::Tick);
    }

    /// Ends the connection in an orderly way, and for good.
    pub async fn close(&self) {
        let (connection, attempt) = {
            let mut state = self.state();
            state.closed = true;
            let tasks = std::mem::take(&mut state.tasks);
            (state.connection.take(), tasks.attempt)
        };
        self.changed.send_replace(());
        self.opener.context.notices.state_changed();
        if let Some(attempt) = attempt {
            attempt.stop().await;
        }
        if let Some(connection) = connection {
            self.opener.log.add_event("the connection is closed");
            connection.session.close().await;
        }
    }

    /// Rejects new users and closes once nobody uses the link.
    pub(super) fn retire(self: Arc<Self>) -> impl Future<Output = ()> {
        let mut changed = self.changed.subscribe();
        self.retired.store(true, Ordering::SeqCst);
        self.changed.send_replace(());
        let longest = Instant::now() + self.server().timeouts.total;
        async move {
            while self.usage.has_callers() {
                if tokio::time::timeout_at(longest, changed.changed()).await.is_err() {
                    break;
                }
            }
            self.close().await;
        }
    }

    /// Reports whether the server would now be reached or run differently than when it was last connected.
    pub(super) async fn is_stale(&self) -> bool {
        self.opener.is_stale().await
    }

    /// Reports whether the link is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Reports whether a newer link has replaced this one.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Reports whether the connection was lost and the server is being restarted.
    pub(crate) fn is_restarting(&self) -> bool {
        self.state().machine.state == lifecycle::State::Restarting
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each step leaves the state consistent, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
