//! The lifecycle of a server, driven: the component says what to do after each event, and this does it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::{Instrument, debug, error, info, warn};

use super::super::Stay;
use super::super::status::LastError;
use super::super::task::Task;
use super::connection::{Connection, Place};
use super::{Link, State, Unavailable};
use crate::config::model::Problem;
use crate::failure::{Failed, Failure};
use crate::logic::types::{WaitRange, lifecycle};
use crate::session::{Kind, Session};

impl Link {
    /// Tells the machine what happened, and does what it says.
    pub(super) fn tell(&self, event: &lifecycle::Event) {
        let mut state = self.state();
        self.step(&mut state, event);
    }

    pub(super) fn step(&self, state: &mut State, event: &lifecycle::Event) {
        if state.closed {
            return;
        }
        let surroundings = &self.opener.surroundings;
        let stepped = surroundings.step(state.machine, event, &self.policy);
        let lifecycle::Transition { server, commands } = match stepped {
            Ok(transition) => transition,
            // The component has been replaced by now; the server stands where it stood.
            Err(error) => return self.span().in_scope(|| error!("the lifecycle broke off: {error}")),
        };
        if server.state != state.machine.state {
            let (from, to) = (state.machine.state, server.state);
            self.span().in_scope(|| info!(?from, ?to, "the server's state"));
            state.since = SystemTime::now();
            surroundings.state_changed();
        }
        // Its own count begins anew with each server that has held for a while.
        let lost = server.state == lifecycle::State::Restarting && state.machine.state != server.state;
        if lost || server.restarts > state.machine.restarts {
            state.restarts += 1;
        }
        let anew = server.state == lifecycle::State::Connecting && state.machine.state != server.state;
        state.failing &= !anew;
        state.machine = server;
        if server.state != lifecycle::State::Disabled {
            state.fault = None;
        }
        state.lost = match server.state {
            lifecycle::State::Restarting => true,
            lifecycle::State::Failed => state.lost,
            _ => false,
        };
        let mut timer = None;
        for command in commands {
            match command {
                // Who has come for one piece of work has heard that it fails, and is about to go.
                lifecycle::Command::Connect
                    if surroundings.stay == Stay::Once && matches!(event, lifecycle::Event::Failed(_)) => {}
                lifecycle::Command::Connect => self.start(state),
                lifecycle::Command::Probe => self.probe(state),
                lifecycle::Command::Stop => {
                    if matches!(event, lifecycle::Event::ProbeFailed) {
                        self.tell_of_silence(state);
                    }
                    self.stop(state);
                }
                lifecycle::Command::WaitUntil(range) => timer = Some(self.wait_until(range)),
            }
        }
        state.timer = timer;
        self.look_for_login(state);
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
        let (opener, place, link) = (Arc::clone(&self.opener), Arc::clone(&self.place), self.me.clone());
        let work = async move {
            // Two processes of a server may want the same file, port or profile.
            let place = place.acquire_owned().await.expect("nobody closes the semaphore");
            let begun = Instant::now();
            let opened = opener.open(limit).await;
            if let Some(link) = link.upgrade() {
                link.attempted(number, opened.map(|session| (session, place)), begun.elapsed());
            }
        };
        state.attempt = Some(Task::spawn(work.instrument(self.span())));
    }

    fn attempted(&self, number: u64, opened: Result<(Arc<Session>, Place), Unavailable>, took: Duration) {
        let mut state = self.state();
        if state.attempt.is_none() || state.attempts != number {
            // It was stopped meanwhile; whoever drops the session ends it.
            return;
        }
        state.attempt = None;
        match opened {
            Ok((session, place)) => {
                state.why = None;
                state.started_in = Some(took);
                state.connection = Some(Connection::new(session, place, number, self.me.clone(), self.span()));
                let late = std::mem::take(&mut state.failing);
                self.step(&mut state, &lifecycle::Event::Connected);
                drop(state);
                if late {
                    // Whoever wanted its lists meanwhile was shown others without them; of its tools they hear anyway.
                    self.tell_of(Kind::Prompts);
                    self.tell_of(Kind::Resources);
                }
            }
            Err(Unavailable::Problem(problem)) => self.found(&mut state, problem),
            Err(why) => {
                let failure = (&why.to_failed().failure).into();
                let first = !std::mem::replace(&mut state.failing, true);
                self.complain(first, "it does not start", &why);
                state.note_error(why.to_string());
                state.why = Some(why);
                self.step(&mut state, &lifecycle::Event::Failed(failure));
            }
        }
    }

    /// Something is wrong with the configuration of the server: that no further attempt would mend it, and until somebody
    /// wants it again nothing is tried.
    pub(super) fn found(&self, state: &mut State, problem: Problem) {
        let text = problem.to_string();
        let known = state.last_error.as_ref().is_some_and(|error| error.text == text);
        self.complain(!known, "it cannot be used", &problem);
        state.note_error(text);
        self.step(state, &lifecycle::Event::Disabled);
        state.fault = Some((problem, Instant::now()));
        self.changed.send_replace(());
    }

    /// Lets whoever runs all this know why a server is not there: loudly at first, and then no more. Who has come for one
    /// piece of work is told in another way.
    pub(super) fn complain(&self, first: bool, what: &str, why: &dyn std::fmt::Display) {
        let loud = first && self.opener.surroundings.stay == Stay::Long;
        self.span().in_scope(|| if loud { warn!("{what}: {why}") } else { debug!("{what}: {why}") });
    }

    /// The connection of this number is over.
    pub(super) fn ended(&self, number: u64) {
        self.lost(&mut self.state(), number);
    }

    /// Takes a connection that is no longer good out of service.
    pub(super) fn lost(&self, state: &mut State, number: u64) {
        let Some(connection) = state.connection.take_if(|connection| connection.number == number) else { return };
        state.probe = None;
        match connection.session.over() {
            Some(why) => {
                self.complain(state.machine.restarts == 0, "it was lost", &why);
                state.note_error(why.to_string());
                state.why = Some(Unavailable::Failed(why));
            }
            // It stands and is of no use to who comes; those who wait for their answers may still get them.
            None => self.opener.surroundings.close_after_use(connection.session, self.server().timeouts.total),
        }
        self.step(state, &lifecycle::Event::Exited);
    }

    fn stop(&self, state: &mut State) {
        (state.attempt, state.probe) = (None, None);
        if let Some(connection) = state.connection.take() {
            let Connection { session, place, .. } = connection;
            self.opener.surroundings.finish_later(async move {
                // A transport has a limit of its own; one that does not keep it must not keep the place.
                let _ = tokio::time::timeout(ENDING, session.close()).await;
                drop(place);
            });
        }
    }

    fn wait_until(&self, range: WaitRange) -> Task {
        let at = fastrand::u64(range.min_ms..=range.max_ms.max(range.min_ms));
        let at = self.opener.surroundings.instant(at);
        let link = self.me.clone();
        Task::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(link) = link.upgrade() {
                link.tell(&lifecycle::Event::Tick);
            }
        })
    }

    /// Looks from time to time whether anybody has used the server, and lets the machine know when nobody has.
    pub(super) fn look_after(&self) -> Task {
        let linger = (self.server().lifecycle.idle_timeout / 4).clamp(SHORTEST_LINGER, LINGER);
        let link = self.me.clone();
        let mut before = self.leases.load(Ordering::Relaxed);
        Task::spawn(async move {
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
    pub(super) fn left(&self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
        if self.is_retired() {
            self.changed.send_replace(());
        }
    }

    /// The session, or none as long as it is worth waiting for one.
    pub(super) fn look(&self) -> Result<Option<Arc<Session>>, Unavailable> {
        let mut state = self.state();
        // Another has taken the place of one that is retired, and whoever has no session waits for that one.
        if state.closed || self.is_retired() && state.connection.is_none() {
            return Err(Unavailable::Closed);
        }
        if let Some(problem) = &self.server().problem {
            return Err(Unavailable::Problem(problem.clone()));
        }
        if let Some(connection) = &state.connection {
            if connection.session.over().is_none() {
                return Ok(Some(Arc::clone(&connection.session)));
            }
            // It has just ended, and its listener has yet to say so.
            let number = connection.number;
            self.lost(&mut state, number);
        }
        if state.machine.state == lifecycle::State::NeedsAuth && self.begin_if_renewed(&mut state) {
            return Ok(None);
        }
        if self.begin_if_mended(&mut state) {
            return Ok(None);
        }
        let why = || state.why.clone().unwrap_or(Unavailable::NotUp { after: Duration::ZERO });
        match state.machine.state {
            lifecycle::State::Disabled => Err(match &state.fault {
                Some((problem, _)) => Unavailable::Problem(problem.clone()),
                None => Unavailable::Disabled,
            }),
            // The machine tries again all the same, and somebody may have installed it by then.
            lifecycle::State::Connecting if state.failing && state.lacks_program() => Err(why()),
            lifecycle::State::NeedsAuth => Err(match why() {
                Unavailable::Failed(failed) => Unavailable::NeedsAuth(failed),
                other => other,
            }),
            lifecycle::State::Failed => Err(match why() {
                Unavailable::Failed(failed) if state.lost => Unavailable::RestartFailed(failed),
                other => other,
            }),
            _ => Ok(None),
        }
    }

    /// The same, and none is worth waiting for once the server has failed to start.
    pub(super) fn look_once(&self) -> Result<Option<Arc<Session>>, Unavailable> {
        let session = self.look()?;
        let state = self.state();
        match (&state.why, session) {
            (Some(why), None) if state.failing => Err(why.clone()),
            (_, session) => Ok(session),
        }
    }

    /// Begins anew where what was wrong with the configuration may have been mended: a file may be there by now.
    fn begin_if_mended(&self, state: &mut State) -> bool {
        let due = state.fault.as_ref().is_some_and(|(_, seen)| seen.elapsed() >= MENDED);
        if due {
            self.step(state, &lifecycle::Event::Enabled);
        }
        due
    }

    pub(super) fn not_in_time(&self, limit: Duration) -> Unavailable {
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
        matches!(&self.why, Some(Unavailable::Failed(Failed { failure: Failure::NoProgram(_), .. })))
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
