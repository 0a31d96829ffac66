//! Drives a server's lifecycle: the component decides after each event, and this file carries it out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::{Instrument, debug, error, info, warn};

use super::super::RegistryLifetime;
use super::super::owned_task::OwnedTask;
use super::super::status::{ConnectionScope, LastError, state_name};
use super::connection::{ActiveConnection, ConnectionPermit};
use super::{Link, State, Unavailable};
use crate::config::model::{Problem, TransportKind};
use crate::failure::{Failure, RequestError};
use crate::logic::types::{WaitRange, lifecycle};
use crate::session::{ListKind, Session};

impl Link {
    /// Passes an event to the lifecycle and carries out its commands.
    pub(super) fn handle_event(&self, event: &lifecycle::Event) {
        let mut state = self.state();
        self.step(&mut state, event);
    }

    pub(super) fn step(&self, state: &mut State, event: &lifecycle::Event) {
        if state.closed {
            return;
        }
        let context = &self.opener.context;
        let prove = context.proves_servers() && self.scope() == ConnectionScope::Shared;
        let policy = lifecycle::Policy { prove, ..self.policy.clone() };
        let stepped = context.step(state.machine, event, &policy);
        let lifecycle::Transition { server, commands } = match stepped {
            Ok(transition) => transition,
            // The supervisor has replaced the component; the server keeps its state.
            Err(error) => return self.span().in_scope(|| error!("the lifecycle step failed: {error}")),
        };
        if server.state != state.machine.state {
            let (from, to) = (state.machine.state, server.state);
            self.span().in_scope(|| info!(?from, ?to, "server state changed"));
            self.opener.log.add_event(&format!("the server went from {} to {}", state_name(from), state_name(to)));
            state.history.since = SystemTime::now();
            self.note_state(server.state);
            context.notices.state_changed();
        }
        // The lifecycle resets its own count once a server has run for a while; this one only grows.
        let lost = server.state == lifecycle::State::Restarting && state.machine.state != server.state;
        if lost || server.restarts > state.machine.restarts {
            state.history.restarts += 1;
        }
        state.machine = server;
        if server.state != lifecycle::State::Disabled {
            state.config_problem = None;
        }
        let mut timer = None;
        for command in commands {
            match command {
                lifecycle::Command::Connect => self.start(state),
                lifecycle::Command::Probe => self.probe(state),
                lifecycle::Command::Stop => {
                    if matches!(event, lifecycle::Event::ProbeFailed) {
                        self.report_silence(state);
                    }
                    self.stop(state);
                }
                lifecycle::Command::WaitUntil(range) => timer = Some(self.wait_until(range)),
            }
        }
        state.tasks.timer = timer;
        self.watch_for_authorization(state);
        self.changed.send_replace(());
    }

    /// Notes the state of a server that all clients share.
    pub(super) fn note_state(&self, entered: lifecycle::State) {
        if self.scope() == ConnectionScope::Shared {
            self.opener.log.add_state(entered);
        }
    }

    fn start(&self, state: &mut State) {
        state.attempts += 1;
        let number = state.attempts;
        let timeouts = &self.server().timeouts;
        // A new process takes as long to start as the first one did.
        let limit = match (state.machine.state, self.server().kind) {
            (lifecycle::State::Connecting, _) | (_, TransportKind::Stdio) => timeouts.initialize,
            _ => timeouts.reinitialize,
        };
        let (opener, place, link) =
            (Arc::clone(&self.opener), Arc::clone(&self.connection_slot), self.weak_self.clone());
        let work = async move {
            // Two processes of one server may need the same file, port or profile.
            let place = place.acquire_owned().await.expect("nobody closes the semaphore");
            let begun = Instant::now();
            let opened = opener.open(limit).await;
            if let Some(link) = link.upgrade() {
                link.finish_attempt(number, opened.map(|session| (session, place)), begun.elapsed());
            }
        };
        state.tasks.attempt = Some(OwnedTask::spawn(work.instrument(self.span())));
    }

    fn finish_attempt(
        &self,
        number: u64,
        opened: Result<(Arc<Session>, ConnectionPermit), Unavailable>,
        took: Duration,
    ) {
        let mut state = self.state();
        if state.tasks.attempt.is_none() || state.attempts != number {
            // The attempt was stopped; dropping the session ends it.
            return;
        }
        state.tasks.attempt = None;
        let failed_before = state.start_failed();
        match opened {
            Ok((session, place)) => {
                debug!(took = format_args!("{took:.1?}"), "the server has started");
                let process = session.pid().map(|pid| format!(" as process {pid}")).unwrap_or_default();
                self.opener.log.add_event(&format!("the server has started in {took:.1?}{process}"));
                state.last_failure = None;
                state.history.started_in = Some(took);
                state.history.last_peer = Some(session.peer().clone());
                state.connection =
                    Some(ActiveConnection::new(session, place, number, self.weak_self.clone(), self.span()));
                self.step(&mut state, &lifecycle::Event::Connected);
                drop(state);
                if failed_before {
                    // Callers may have got lists without this server's; changes of its tools are announced anyway.
                    self.announce_list(ListKind::Prompts);
                    self.announce_list(ListKind::Resources);
                }
            }
            Err(Unavailable::Problem(problem)) => self.report_config_problem(&mut state, problem),
            Err(why) => {
                let failure = (&why.to_failed().failure).into();
                self.log_problem(!failed_before, "the server does not start", &why);
                state.note_error(why.to_string());
                state.last_failure = Some(why);
                self.step(&mut state, &lifecycle::Event::Failed(failure));
            }
        }
    }

    /// Disables the server because of a configuration problem, which another attempt would not solve;
    /// `retry_config_problem` tries again.
    pub(super) fn report_config_problem(&self, state: &mut State, problem: Problem) {
        let text = problem.to_string();
        let known = state.history.last_error.as_ref().is_some_and(|error| error.text == text);
        self.log_problem(!known, "it cannot be used", &problem);
        state.note_error(text);
        self.step(state, &lifecycle::Event::Disabled);
        state.config_problem = Some((problem, Instant::now()));
        self.changed.send_replace(());
    }

    /// Logs why a server is not available: the first time as a warning, then at debug level. A one-shot caller gets the
    /// error itself, so its log is quiet.
    pub(super) fn log_problem(&self, first: bool, what: &str, why: &dyn std::fmt::Display) {
        self.opener.log.add_event(&format!("{what}: {why}"));
        let loud = first && self.opener.context.lifetime == RegistryLifetime::LongRunning;
        self.span().in_scope(|| if loud { warn!("{what}: {why}") } else { debug!("{what}: {why}") });
    }

    /// Handles the end of the connection with this number.
    pub(super) fn connection_ended(&self, number: u64) {
        self.drop_connection(&mut self.state(), number);
    }

    /// Removes a connection that can no longer be used.
    pub(super) fn drop_connection(&self, state: &mut State, number: u64) {
        let Some(connection) = state.connection.take_if(|connection| connection.number == number) else { return };
        state.tasks.probe = None;
        match connection.session.close_reason() {
            Some(why) => {
                self.log_problem(state.machine.restarts == 0, "connection lost", &why);
                state.note_error(why.to_string());
                state.last_failure = Some(Unavailable::Failed(why));
            }
            // It is open but unusable for new calls; running calls may still get their results.
            None => self.opener.context.cleanup.close_after_use(connection.session, self.server().timeouts.total),
        }
        self.step(state, &lifecycle::Event::Exited);
    }

    fn stop(&self, state: &mut State) {
        (state.tasks.attempt, state.tasks.probe) = (None, None);
        if let Some(connection) = state.connection.take() {
            let ActiveConnection { session, permit, .. } = connection;
            self.opener.context.cleanup.spawn(async move {
                // A transport has its own limit; if that fails, the permit must not be held for ever.
                let _ = tokio::time::timeout(CLOSE_LIMIT, session.close()).await;
                drop(permit);
            });
        }
    }

    fn wait_until(&self, range: WaitRange) -> OwnedTask {
        let at = fastrand::u64(range.min_ms..=range.max_ms.max(range.min_ms));
        // A component that keeps naming times in the past must not keep a core busy.
        let at = self.opener.context.instant(at).max(Instant::now() + SHORTEST_WAIT);
        let link = self.weak_self.clone();
        OwnedTask::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(link) = link.upgrade() {
                link.handle_event(&lifecycle::Event::Tick);
            }
        })
    }

    /// Checks periodically whether the server was used, and tells the lifecycle when it was not.
    pub(super) fn watch_usage(&self) -> OwnedTask {
        let linger = (self.server().lifecycle.idle_timeout / 4).clamp(SHORTEST_LINGER, LINGER);
        let link = self.weak_self.clone();
        let mut before = self.usage.leases();
        OwnedTask::spawn(async move {
            loop {
                tokio::time::sleep(linger).await;
                let Some(link) = link.upgrade() else { return };
                let now = link.usage.leases();
                let quiet = std::mem::replace(&mut before, now) == now;
                if quiet && link.usage.users() == 0 && link.release() {
                    return;
                }
            }
        })
    }

    /// Tells the lifecycle that nobody uses the server; false if a user has just arrived.
    pub(super) fn release(&self) -> bool {
        let mut state = self.state();
        self.usage.wanted.store(false, Ordering::SeqCst);
        if self.usage.users() > 0 {
            self.usage.wanted.store(true, Ordering::SeqCst);
            return false;
        }
        self.step(&mut state, &lifecycle::Event::Released);
        true
    }

    /// Removes a user, and wakes a retired link that waits to close. `watch_usage` tells the lifecycle, because calls
    /// often follow each other and each would cost two events.
    pub(super) fn release_user(&self) {
        self.usage.end_use();
        if self.is_retired() {
            self.changed.send_replace(());
        }
    }

    /// Returns the session, or `None` while it is worth waiting for one.
    pub(super) fn poll_session(&self) -> Result<Option<Arc<Session>>, Unavailable> {
        let mut state = self.state();
        // A newer link has replaced a retired one; new sessions are opened there.
        if state.closed || self.is_retired() && state.connection.is_none() {
            return Err(Unavailable::Closed);
        }
        if let Some(problem) = &self.server().problem {
            return Err(Unavailable::Problem(problem.clone()));
        }
        if let Some(connection) = &state.connection {
            if connection.session.close_reason().is_none() {
                return Ok(Some(Arc::clone(&connection.session)));
            }
            // It has just ended, and its listener has not reported that yet.
            let number = connection.number;
            self.drop_connection(&mut state, number);
        }
        if state.machine.state == lifecycle::State::NeedsAuth && self.restart_if_authorized(&mut state) {
            return Ok(None);
        }
        if self.retry_config_problem(&mut state) {
            return Ok(None);
        }
        // Without a failure, the first attempt still runs, and callers have waited for it long enough.
        let not_up = Unavailable::NotUp { after: self.server().acquire_limit() };
        let why = || state.last_failure.clone().unwrap_or(not_up.clone());
        match state.machine.state {
            lifecycle::State::Disabled => Err(match &state.config_problem {
                Some((problem, _)) => Unavailable::Problem(problem.clone()),
                None => Unavailable::Disabled,
            }),
            // The lifecycle keeps trying, because somebody may install the program meanwhile.
            lifecycle::State::Connecting if state.start_failed() && state.lacks_program() => Err(why()),
            lifecycle::State::NeedsAuth => Err(match why() {
                Unavailable::Failed(failed) => Unavailable::NeedsAuth(failed),
                other => other,
            }),
            lifecycle::State::Failed => Err(match why() {
                Unavailable::Failed(failed) if state.machine.lost => Unavailable::RestartFailed(failed),
                other => other,
            }),
            _ => Ok(None),
        }
    }

    /// Returns the session, or `None` while it is worth waiting for one; an error once the server has failed to start.
    pub(super) fn poll_unless_failed(&self) -> Result<Option<Arc<Session>>, Unavailable> {
        let session = self.poll_session()?;
        let state = self.state();
        match (&state.last_failure, session) {
            (Some(why), None) if state.start_failed() => Err(why.clone()),
            (_, session) => Ok(session),
        }
    }

    /// Enables the server again some time after a configuration problem, because a missing file may exist by now.
    fn retry_config_problem(&self, state: &mut State) -> bool {
        let due = state.config_problem.as_ref().is_some_and(|(_, seen)| seen.elapsed() >= RETRY_PROBLEM);
        if due {
            self.step(state, &lifecycle::Event::Enabled);
        }
        due
    }

    pub(super) fn timeout_error(&self, limit: Duration) -> Unavailable {
        match self.state().machine.state {
            lifecycle::State::Restarting => Unavailable::Restarting,
            _ => Unavailable::NotUp { after: limit },
        }
    }

    pub(super) fn span(&self) -> tracing::Span {
        // A root span: a connection may be opened by a call or by the end of the previous one, and belongs to neither.
        tracing::error_span!(parent: None, "server", server = self.id(), remote = format_args!("mcp:{}", self.id()))
    }
}

impl State {
    pub(super) fn note_error(&mut self, text: String) {
        self.history.last_error = Some(LastError { text, at: SystemTime::now() });
    }

    /// Reports whether the last attempt to connect failed, and no new start followed.
    fn start_failed(&self) -> bool {
        match self.machine.state {
            lifecycle::State::Failed => true,
            lifecycle::State::Connecting => self.machine.restarts > 0,
            _ => false,
        }
    }

    /// Reports whether the last failure was a missing program.
    fn lacks_program(&self) -> bool {
        matches!(&self.last_failure, Some(Unavailable::Failed(RequestError { failure: Failure::NoProgram(_), .. })))
    }
}

/// How long an old connection may take to end before the next one is opened.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);
/// How long to wait before trying again after a configuration problem.
const RETRY_PROBLEM: Duration = Duration::from_secs(5);
/// How long after its last use a server counts as used, because calls often follow each other.
const LINGER: Duration = Duration::from_secs(1);
/// The lower bound of that time, if servers are not kept at all; it avoids a busy loop.
const SHORTEST_LINGER: Duration = Duration::from_millis(10);
/// The shortest time between two steps of the lifecycle.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
