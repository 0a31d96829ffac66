//! The connection to one server, as a state machine that the host drives: events in, commands out, no clock of its own.
//!
//! The host answers each `Connect` with one `Connected` or `Failed`, and each `Probe` with one `ProbeOk` or
//! `ProbeFailed`, unless a `Stop` came between. It reports `Exited` only for its newest connection.

use crate::backoff;
use crate::recovery::wants_authorization;
use crate::types::{Failure, WaitRange};

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Disabled by the configuration or by an operator.
    Disabled,
    /// Not started, because no caller needs it.
    #[default]
    Dormant,
    /// Starting for the first time; callers wait.
    Connecting,
    /// Up and answering.
    Ready,
    /// Possibly broken: a call timed out or a health check failed, and a probe is running.
    Degraded,
    /// Lost and being restarted; callers wait for the attempt.
    Restarting,
    /// Down: callers fail at once while attempts continue in the background.
    Failed,
    /// Waiting for authorization.
    NeedsAuth,
}

/// Everything that the state machine remembers about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// The current state.
    pub state: State,
    /// How many callers use the server.
    pub users: u32,
    /// How many restarts were scheduled since the server last proved stable.
    pub restarts: u32,
    /// Whether a connection attempt is running.
    pub attempting: bool,
    /// When the server came up or, while it is starting, when it was first needed, in milliseconds.
    pub since_ms: u64,
    /// When to try to connect again.
    pub retry_at_ms: Option<u64>,
    /// When to run the next health check; if a ready server has none, a check is running or checks are off.
    pub probe_at_ms: Option<u64>,
    /// When to stop the server because it is idle.
    pub idle_at_ms: Option<u64>,
    /// Whether the last start succeeded.
    pub proven: bool,
    /// Whether the server was lost while it was needed, and has not come up since.
    pub lost: bool,
}

/// What happened to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server was enabled.
    Enabled,
    /// The server was disabled.
    Disabled,
    /// A caller needs the server.
    Wanted,
    /// A caller no longer needs the server.
    Released,
    /// The connection attempt succeeded.
    Connected,
    /// The connection attempt failed.
    Failed(Failure),
    /// The connection or the process ended.
    Exited,
    /// A probe succeeded.
    ProbeOk,
    /// A probe failed.
    ProbeFailed,
    /// A call timed out.
    CallTimedOut,
    /// Authorization was granted.
    Authenticated,
    /// The time from `WaitUntil` has come.
    Tick,
}

/// What the host must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start a connection attempt and report how it ended.
    Connect,
    /// Probe the server and report the result.
    Probe,
    /// End the connection or the attempt, and the process.
    Stop,
    /// Report a tick at a time from this range; this replaces the previous timer.
    WaitUntil(WaitRange),
}

/// The settings of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether to start without a caller and never stop when idle.
    pub eager: bool,
    /// How long callers wait for the first start.
    pub acquire_limit_ms: u64,
    /// The delays before restarts; the last one repeats.
    pub restart_delays_ms: Vec<u64>,
    /// The time between two health checks; zero means none.
    pub health_interval_ms: u64,
    /// How long an unused server is kept running.
    pub idle_timeout_ms: u64,
    /// Whether a failed attempt is the last one, because the only caller gets the error.
    pub one_shot: bool,
    /// Whether to start without a caller until a start succeeds, so that the server can count as ready.
    pub prove: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            eager: false,
            acquire_limit_ms: 60_000,
            restart_delays_ms: backoff::SCHEDULE_MS.to_vec(),
            health_interval_ms: 15_000,
            idle_timeout_ms: 300_000,
            one_shot: false,
            prove: false,
        }
    }
}

/// The outcome of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The new state to remember.
    pub server: Server,
    /// What to do, in this order; without a `WaitUntil`, no timer is needed.
    pub commands: Vec<Command>,
}

impl Server {
    /// Returns a server before its first event: dormant or disabled.
    pub fn new(enabled: bool) -> Self {
        Server { state: if enabled { State::Dormant } else { State::Disabled }, ..Server::default() }
    }

    /// Reports whether there is a connection.
    fn is_up(&self) -> bool {
        matches!(self.state, State::Ready | State::Degraded)
    }

    /// Reports whether the server is being connected.
    fn is_coming_up(&self) -> bool {
        matches!(self.state, State::Connecting | State::Restarting | State::Failed)
    }
}

/// Reports whether the server counts as ready: it is up, or it is dormant and its last start succeeded.
pub fn counts_as_ready(server: &Server) -> bool {
    match server.state {
        // A degraded server still gets calls, and one slow call must not make a whole gateway unready.
        State::Ready | State::Degraded => true,
        State::Dormant => server.proven,
        _ => false,
    }
}

/// Takes one step; `now_ms` comes from any clock that never goes back.
///
/// An eager server starts at its first event of any kind, such as `Enabled`.
pub fn step(server: &Server, event: &Event, policy: &Policy, now_ms: u64) -> Transition {
    let mut step = Step { server: *server, commands: Vec::new(), policy, now: now_ms };
    step.take(event);
    step.finish()
}

/// A step in progress.
struct Step<'a> {
    server: Server,
    commands: Vec<Command>,
    policy: &'a Policy,
    now: u64,
}

impl Step<'_> {
    fn take(&mut self, event: &Event) {
        let state = self.server.state;
        match event {
            Event::Wanted => self.server.users = self.server.users.saturating_add(1),
            Event::Released => self.server.users = self.server.users.saturating_sub(1),
            Event::Enabled if state == State::Disabled => self.server.state = State::Dormant,
            Event::Disabled => self.rest(State::Disabled),
            Event::Connected => self.connected(),
            Event::Failed(failure) => self.failed(failure),
            // During an attempt, this is the end of an older process, or of the attempt itself, which will be reported
            // as failed: counting it here would count it twice.
            Event::Exited if self.server.is_up() => self.restart(),
            Event::ProbeOk if self.server.is_up() => {
                self.server.state = State::Ready;
                self.server.restarts = 0;
                self.plan_probe();
            }
            // Slow is not dead: probe again before a restart.
            Event::ProbeFailed | Event::CallTimedOut if state == State::Ready => {
                self.server.state = State::Degraded;
                self.commands.push(Command::Probe);
            }
            Event::ProbeFailed if state == State::Degraded => {
                self.stop();
                self.restart();
            }
            Event::Authenticated if state == State::NeedsAuth => self.start(),
            Event::Tick => self.tick(),
            _ => {}
        }
    }

    fn connected(&mut self) {
        match self.server.state {
            State::Ready | State::Degraded => {}
            // Too late: no caller needs it any more.
            State::Disabled | State::Dormant => self.commands.push(Command::Stop),
            state => {
                // If each start cleared the count, a server that dies right after its start would be restarted without
                // a pause. So a restart counts until a probe succeeds or the server has lasted `HOLDS_MS`.
                if state == State::Connecting {
                    self.server.restarts = 0;
                }
                self.server.state = State::Ready;
                self.server.since_ms = self.now;
                self.server.attempting = false;
                self.server.proven = true;
                self.plan_probe();
            }
        }
    }

    fn failed(&mut self, failure: &Failure) {
        let unauthorized = wants_authorization(failure);
        if self.server.is_up() && !unauthorized {
            self.restart();
        } else if self.server.is_up() {
            self.stop();
            self.server.proven = false;
            self.server.state = State::NeedsAuth;
        } else if self.server.attempting {
            self.server.attempting = false;
            self.server.proven = false;
            if unauthorized {
                // Further attempts would be refused as well.
                self.server.state = State::NeedsAuth;
                return;
            }
            if self.policy.one_shot {
                self.server.state = State::Failed;
                return;
            }
            if self.server.state != State::Connecting || self.now >= self.acquire_end() {
                self.server.state = State::Failed;
            }
            self.connect_after_delay();
        }
    }

    fn tick(&mut self) {
        let now = self.now;
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if due(self.server.idle_at_ms) && !self.is_wanted() {
            return self.rest(State::Dormant);
        }
        if self.waited_in_vain() {
            self.server.state = State::Failed;
        }
        if due(self.server.retry_at_ms) && self.server.is_coming_up() && !self.server.attempting {
            self.connect();
        }
        if due(self.server.probe_at_ms) && self.server.state == State::Ready && self.policy.health_interval_ms > 0 {
            self.server.probe_at_ms = None;
            self.commands.push(Command::Probe);
        }
    }

    /// Starts the server for the first time, or again after it was dormant or unauthorized.
    fn start(&mut self) {
        self.server.state = State::Connecting;
        self.server.restarts = 0;
        self.server.since_ms = self.now;
        self.connect();
    }

    /// Restarts the server after it lost its connection, if a caller needs it.
    fn restart(&mut self) {
        if !self.is_wanted() {
            self.server.state = State::Dormant;
            self.server.restarts = 0;
            return;
        }
        if self.now.saturating_sub(self.server.since_ms) >= HOLDS_MS {
            self.server.restarts = 0;
        }
        self.server.state = State::Restarting;
        self.server.lost = true;
        self.connect_after_delay();
    }

    fn connect_after_delay(&mut self) {
        let delay = backoff::restart_delay(self.server.restarts, Some(&self.policy.restart_delays_ms));
        self.server.restarts = self.server.restarts.saturating_add(1);
        match delay {
            0 => self.connect(),
            delay => self.server.retry_at_ms = Some(self.now.saturating_add(delay)),
        }
    }

    fn connect(&mut self) {
        self.server.attempting = true;
        self.commands.push(Command::Connect);
    }

    fn rest(&mut self, state: State) {
        self.stop();
        self.server.state = state;
        self.server.restarts = 0;
    }

    /// Stops the connection or the attempt, if there is one.
    fn stop(&mut self) {
        if self.server.attempting || self.server.is_up() {
            self.commands.push(Command::Stop);
        }
        self.server.attempting = false;
    }

    fn plan_probe(&mut self) {
        self.server.probe_at_ms = Some(self.now.saturating_add(self.policy.health_interval_ms));
    }

    fn is_wanted(&self) -> bool {
        self.server.users > 0 || self.policy.eager || self.policy.prove && !self.server.proven
    }

    fn acquire_end(&self) -> u64 {
        self.server.since_ms.saturating_add(self.policy.acquire_limit_ms)
    }

    /// Reports whether callers have waited long enough for the first start. An attempt that still runs goes on without
    /// them.
    fn waited_in_vain(&self) -> bool {
        self.server.state == State::Connecting && self.now >= self.acquire_end()
    }

    /// Restores what must hold after every event, so that no event handler has to.
    fn finish(mut self) -> Transition {
        let wanted = self.is_wanted();
        if self.server.state == State::Dormant && wanted {
            self.start();
        }
        let (up, coming_up) = (self.server.is_up(), self.server.is_coming_up());
        let server = &mut self.server;
        server.attempting &= coming_up;
        server.lost &= matches!(server.state, State::Restarting | State::Failed);
        // A starting server always has an attempt or a time for the next one, so it is never given up, unless the only
        // caller has got the error.
        let given_up = self.policy.one_shot && server.state == State::Failed;
        let retries = coming_up && !server.attempting && !given_up;
        server.retry_at_ms = retries.then(|| server.retry_at_ms.unwrap_or(self.now));
        if server.state != State::Ready || self.policy.health_interval_ms == 0 {
            server.probe_at_ms = None;
        }
        // Set once and cleared only by callers, so that no probe or attempt postpones it.
        server.idle_at_ms = ((up || coming_up) && !wanted)
            .then(|| server.idle_at_ms.unwrap_or(self.now.saturating_add(self.policy.idle_timeout_ms)));
        if let Some(range) = self.timer() {
            self.commands.push(Command::WaitUntil(range));
        }
        Transition { server: self.server, commands: self.commands }
    }

    /// Returns the one timer for everything that is pending.
    fn timer(&self) -> Option<WaitRange> {
        let server = &self.server;
        let acquire_end = (server.state == State::Connecting).then(|| self.acquire_end());
        let exact = [server.probe_at_ms, server.idle_at_ms, acquire_end].into_iter().flatten().min();
        match server.retry_at_ms {
            // Only attempts get jitter, so that gates that lost the same server do not reconnect all at once.
            Some(retry_at) if exact.is_none_or(|at| retry_at <= at) => {
                let delay = backoff::spread(retry_at.saturating_sub(self.now));
                let latest = retry_at.saturating_add(delay.max_ms - delay.min_ms);
                Some(WaitRange { min_ms: retry_at, max_ms: exact.map_or(latest, |at| latest.min(at)) })
            }
            _ => exact.map(|at| WaitRange { min_ms: at, max_ms: at }),
        }
    }
}

/// How long a restarted server must last before its restart count is cleared.
const HOLDS_MS: u64 = 10_000;

#[cfg(test)]
mod tests;
