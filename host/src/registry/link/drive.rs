//! The lifecycle of a server, driven: the component says what to do after each event, and this does it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::{Instrument, debug, error, info, warn};

use super::super::RegistryLifetime;
use super::super::owned_task::OwnedTask;
use super::super::status::LastError;
use super::connection::{ActiveConnection, ConnectionPermit};
use super::{Link, State, Unavailable};
use crate::config::model::Problem;
use crate::failure::{Failure, RequestError};
use crate::logic::types::{WaitRange, lifecycle};
use crate::session::{ListKind, Session};

impl Link {
    /// Tells the machine what happened, and does what it says.
    pub(super) fn handle_event(&self, event: &lifecycle::Event) {
        let mut state = self.state();
        self.step(&mut state, event);
    }

    pub(super) fn step(&self, state: &mut State, event: &lifecycle::Event) {
        if state.closed {
            return;
        }
        let context = &self.opener.context;
        let stepped = context.step(state.machine, event, &self.policy);
        let lifecycle::Transition { server, commands } = match stepped {
            Ok(transition) => transition,
            // The component has been replaced by now; the server stands where it stood.
            Err(error) => return self.span().in_scope(|| error!("the lifecycle broke off: {error}")),
        };
        if server.state != state.machine.state {
            let (from, to) = (state.machine.state, server.state);
            self.span().in_scope(|| info!(?from, ?to, "the server's state"));
            state.since = SystemTime::now();
            context.state_changed();
        }
        // Its own count begins anew with each server that has held for a while.
        let lost = server.state == lifecycle::State::Restarting && state.machine.state != server.state;
        if lost || server.restarts > state.machine.restarts {
            state.restarts += 1;
        }
        let anew = server.state == lifecycle::State::Connecting && state.machine.state != server.state;
        state.start_failed &= !anew;
        state.machine = server;
        if server.state != lifecycle::State::Disabled {
            state.config_problem = None;
        }
        state.was_connected = match server.state {
            lifecycle::State::Restarting => true,
            lifecycle::State::Failed => state.was_connected,
            _ => false,
        };
        let mut timer = None;
        for command in commands {
            match command {
                // Who has come for one piece of work has heard that it fails, and is about to go.
                lifecycle::Command::Connect
                    if context.lifetime == RegistryLifetime::OneShot
                        && matches!(event, lifecycle::Event::Failed(_)) => {}
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
        state.timer = timer;
        self.watch_for_authorization(state);
        self.changed.send_replace(());
    }

    fn start(&self, state: &mut State) {
        state.attempts += 1;
        let number = state.attempts;
        let timeouts = &self.server().timeouts;
        let limit = match state.machine.state {
            lifecycle::State::Connecting => timeouts.initialize,
            _ => timeouts.reinitialize,
        };
        let (opener, place, link) =
            (Arc::clone(&self.opener), Arc::clone(&self.connection_slot), self.weak_self.clone());
        let work = async move {
            // Two processes of a server may want the same file, port or profile.
            let place = place.acquire_owned().await.expect("nobody closes the semaphore");
            let begun = Instant::now();
            let opened = opener.open(limit).await;
            if let Some(link) = link.upgrade() {
                link.finish_attempt(number, opened.map(|session| (session, place)), begun.elapsed());
            }
        };
        state.attempt = Some(OwnedTask::spawn(work.instrument(self.span())));
    }

    fn finish_attempt(
        &self,
        number: u64,
        opened: Result<(Arc<Session>, ConnectionPermit), Unavailable>,
        took: Duration,
    ) {
        let mut state = self.state();
        if state.attempt.is_none() || state.attempts != number {
            // It was stopped meanwhile; whoever drops the session ends it.
            return;
        }
        state.attempt = None;
        match opened {
            Ok((session, place)) => {
                state.last_failure = None;
                state.started_in = Some(took);
                state.connection =
                    Some(ActiveConnection::new(session, place, number, self.weak_self.clone(), self.span()));
                let late = std::mem::take(&mut state.start_failed);
                self.step(&mut state, &lifecycle::Event::Connected);
                drop(state);
                if late {
                    // Whoever wanted its lists meanwhile was shown others without them; of its tools they hear anyway.
                    self.announce_list(ListKind::Prompts);
                    self.announce_list(ListKind::Resources);
                }
            }
            Err(Unavailable::Problem(problem)) => self.report_config_problem(&mut state, problem),
            Err(why) => {
                let failure = (&why.to_failed().failure).into();
                let first = !std::mem::replace(&mut state.start_failed, true);
                self.log_problem(first, "it does not start", &why);
                state.note_error(why.to_string());
                state.last_failure = Some(why);
                self.step(&mut state, &lifecycle::Event::Failed(failure));
            }
        }
    }

    /// Something is wrong with the configuration of the server: that no further attempt would mend it, and until somebody
    /// wants it again nothing is tried.
    pub(super) fn report_config_problem(&self, state: &mut State, problem: Problem) {
        let text = problem.to_string();
        let known = state.last_error.as_ref().is_some_and(|error| error.text == text);
        self.log_problem(!known, "it cannot be used", &problem);
        state.note_error(text);
        self.step(state, &lifecycle::Event::Disabled);
        state.config_problem = Some((problem, Instant::now()));
        self.changed.send_replace(());
    }

    /// Lets whoever runs all this know why a server is not there: loudly at first, and then no more. Who has come for one
    /// piece of work is told in another way.
    pub(super) fn log_problem(&self, first: bool, what: &str, why: &dyn std::fmt::Display) {
        let loud = first && self.opener.context.lifetime == RegistryLifetime::LongRunning;
        self.span().in_scope(|| if loud { warn!("{what}: {why}") } else { debug!("{what}: {why}") });
    }

    /// The connection of this number is over.
    pub(super) fn connection_ended(&self, number: u64) {
        self.drop_connection(&mut self.state(), number);
    }

    /// Takes a connection that is no longer good out of service.
    pub(super) fn drop_connection(&self, state: &mut State, number: u64) {
        let Some(connection) = state.connection.take_if(|connection| connection.number == number) else { return };
        state.probe = None;
        match connection.session.close_reason() {
            Some(why) => {
                self.log_problem(state.machine.restarts == 0, "it was lost", &why);
                state.note_error(why.to_string());
                state.last_failure = Some(Unavailable::Failed(why));
            }
            // It stands and is of no use to who comes; those who wait for their answers may still get them.
            None => self.opener.context.close_after_use(connection.session, self.server().timeouts.total),
        }
        self.step(state, &lifecycle::Event::Exited);
    }

    fn stop(&self, state: &mut State) {
        (state.attempt, state.probe) = (None, None);
        if let Some(connection) = state.connection.take() {
            let ActiveConnection { session, permit, .. } = connection;
            self.opener.context.spawn_cleanup(async move {
                // A transport has a limit of its own; one that does not keep it must not keep the place.
                let _ = tokio::time::timeout(ENDING, session.close()).await;
                drop(permit);
            });
        }
    }

    fn wait_until(&self, range: WaitRange) -> OwnedTask {
        let at = fastrand::u64(range.min_ms..=range.max_ms.max(range.min_ms));
        // A component that names a moment in the past, again and again, must not keep a processor busy.
        let at = self.opener.context.instant(at).max(Instant::now() + SHORTEST_WAIT);
        let link = self.weak_self.clone();
        OwnedTask::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(link) = link.upgrade() {
                link.handle_event(&lifecycle::Event::Tick);
            }
        })
    }

    /// Looks from time to time whether anybody has used the server, and lets the machine know when nobody has.
    pub(super) fn watch_usage(&self) -> OwnedTask {
        let linger = (self.server().lifecycle.idle_timeout / 4).clamp(SHORTEST_LINGER, LINGER);
        let link = self.weak_self.clone();
        let mut before = self.leases.load(Ordering::Relaxed);
        OwnedTask::spawn(async move {
            loop {
                tokio::time::sleep(linger).await;
                let Some(link) = link.upgrade() else { return };
                let now = link.leases.load(Ordering::Relaxed);
                let quiet = std::mem::replace(&mut before, now) == now;
                if quiet && link.users.load(Ordering::SeqCst) == 0 && link.release() {
                    return;
                }
            }
        })
    }

    /// Lets the machine know that nobody uses the server; false where somebody has just come.
    fn release(&self) -> bool {
        let mut state = self.state();
        self.wanted.store(false, Ordering::SeqCst);
        if self.users.load(Ordering::SeqCst) > 0 {
            self.wanted.store(true, Ordering::SeqCst);
            return false;
        }
        self.step(&mut state, &lifecycle::Event::Released);
        true
    }

    /// A user has gone; who waits to close it wants to know. The machine hears of it from the janitor: calls come in rows,
    /// and each would be told of twice.
    pub(super) fn release_user(&self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
        if self.is_retired() {
            self.changed.send_replace(());
        }
    }

    /// The session, or none as long as it is worth waiting for one.
    pub(super) fn poll_session(&self) -> Result<Option<Arc<Session>>, Unavailable> {
        let mut state = self.state();
        // Another has taken the place of one that is retired, and whoever has no session waits for that one.
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
            // It has just ended, and its listener has yet to say so.
            let number = connection.number;
            self.drop_connection(&mut state, number);
        }
        if state.machine.state == lifecycle::State::NeedsAuth && self.restart_if_authorized(&mut state) {
            return Ok(None);
        }
        if self.retry_config_problem(&mut state) {
            return Ok(None);
        }
        let why = || state.last_failure.clone().unwrap_or(Unavailable::NotUp { after: Duration::ZERO });
        match state.machine.state {
            lifecycle::State::Disabled => Err(match &state.config_problem {
                Some((problem, _)) => Unavailable::Problem(problem.clone()),
                None => Unavailable::Disabled,
            }),
            // The machine tries again all the same, and somebody may have installed it by then.
            lifecycle::State::Connecting if state.start_failed && state.lacks_program() => Err(why()),
            lifecycle::State::NeedsAuth => Err(match why() {
                Unavailable::Failed(failed) => Unavailable::NeedsAuth(failed),
                other => other,
            }),
            lifecycle::State::Failed => Err(match why() {
                Unavailable::Failed(failed) if state.was_connected => Unavailable::RestartFailed(failed),
                other => other,
            }),
            _ => Ok(None),
        }
    }

    /// The same, and none is worth waiting for once the server has failed to start.
    pub(super) fn poll_unless_failed(&self) -> Result<Option<Arc<Session>>, Unavailable> {
        let session = self.poll_session()?;
        let state = self.state();
        match (&state.last_failure, session) {
            (Some(why), None) if state.start_failed => Err(why.clone()),
            (_, session) => Ok(session),
        }
    }

    /// Begins anew where what was wrong with the configuration may have been mended: a file may be there by now.
    fn retry_config_problem(&self, state: &mut State) -> bool {
        let due = state.config_problem.as_ref().is_some_and(|(_, seen)| seen.elapsed() >= MENDED);
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
        // Of its own, wherever it is begun: the end of one connection begins the next, and calls begin the first.
        tracing::error_span!(parent: None, "server", server = self.id(), remote = format_args!("mcp:{}", self.id()))
    }
}

impl State {
    pub(super) fn note_error(&mut self, text: String) {
        self.last_error = Some(LastError { text, at: SystemTime::now() });
    }

    /// Whether there is no program to start.
    fn lacks_program(&self) -> bool {
        matches!(&self.last_failure, Some(Unavailable::Failed(RequestError { failure: Failure::NoProgram(_), .. })))
    }
}

/// How long an old connection may take to end before the next one is made.
const ENDING: Duration = Duration::from_secs(30);
/// How long what is wrong with a configuration is taken to be so still.
const MENDED: Duration = Duration::from_secs(5);
/// How long after its last use a server counts as used: calls come in rows.
const LINGER: Duration = Duration::from_secs(1);
/// The same where servers are not kept at all; to look without a pause would be to do nothing else.
const SHORTEST_LINGER: Duration = Duration::from_millis(10);
/// The lifecycle is never asked again sooner than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
