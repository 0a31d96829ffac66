//! The status of servers, as data.

use std::time::{Duration, SystemTime};

use crate::logic::types::lifecycle::State;
use crate::queue::QueueStats;
use crate::stats::StatsSnapshot;

/// The status of one server.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The id of the server.
    pub server: String,
    /// The transport: `stdio`, `http`, `sse`, `websocket` or `custom`.
    pub kind: &'static str,
    /// The state of its lifecycle.
    pub state: State,
    /// Whether it counts as ready: it answers, or it is dormant and its last start succeeded.
    pub ready: bool,
    /// When it entered this state.
    pub since: SystemTime,
    /// The protocol era, while it is connected.
    pub era: Option<&'static str>,
    /// The MCP version, while it is connected.
    pub version: Option<String>,
    /// Its own name, since its first connection.
    pub name: Option<String>,
    /// The version of its program, since its first connection.
    pub software_version: Option<String>,
    /// What it is for, in the words of the configuration.
    pub description: Option<String>,
    /// The position of its entry in the configuration.
    pub source: String,
    /// The number of tools in its last list.
    pub tools: Option<usize>,
    /// The names of the tools in its last list.
    pub tool_names: Vec<String>,
    /// Descriptions of lists that exceeded a limit and were cut.
    pub cut_lists: Vec<String>,
    /// The number of connections; gates and sessions may have their own.
    pub connections: usize,
    /// The number of current users.
    pub users: usize,
    /// Statistics of its calls.
    pub calls: StatsSnapshot,
    /// The last error.
    pub last_error: Option<LastError>,
    /// The time of the last health check.
    pub last_check: Option<SystemTime>,
    /// How long the last start took.
    pub started_in: Option<Duration>,
    /// How often it was restarted.
    pub restarts: u64,
    /// The process id, if it is a local process.
    pub pid: Option<u32>,
    /// The problem of its configuration.
    pub problem: Option<String>,
    /// Who shares a connection to it.
    pub scope: ConnectionScope,
    /// The queues that its calls pass.
    pub queues: Vec<QueueStats>,
}

/// Who shares a connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionScope {
    /// Everybody.
    Shared,
    /// The gates of one session, because the configuration passes its id to the server.
    Session,
    /// One gate.
    Gate,
}

impl ConnectionScope {
    /// Returns the name of the scope.
    pub fn name(self) -> &'static str {
        match self {
            ConnectionScope::Shared => "shared",
            ConnectionScope::Session => "session",
            ConnectionScope::Gate => "gate",
        }
    }
}

/// The last error of a server, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// The text of the error, without secrets.
    pub text: String,
    /// The time of the error.
    pub at: SystemTime,
}

/// A warning for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The id of the server.
    pub server: String,
    /// The text of the warning.
    pub text: String,
    /// Since when it applies.
    pub since: SystemTime,
}

/// The readiness of the whole registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessReport {
    /// Whether the registry is ready by the configured rule.
    pub ready: bool,
    /// The servers that it waits for, each with the reason.
    pub waits_for: Vec<Warning>,
    /// All warnings, whether they affect readiness or not.
    pub warnings: Vec<Warning>,
}

impl ServerStatus {
    /// Adds another connection to the server, and shows the state of the one that needs more attention.
    pub(super) fn with(self, other: ServerStatus) -> Self {
        let connections = self.connections + other.connections;
        let (users, restarts) = (self.users + other.users, self.restarts + other.restarts);
        let (shown, hidden) = if rank(other.state) > rank(self.state) { (other, self) } else { (self, other) };
        let last_error = match (shown.last_error, hidden.last_error) {
            (Some(one), Some(other)) => Some(if other.at > one.at { other } else { one }),
            (one, other) => one.or(other),
        };
        let (tools, tool_names) = match shown.tools {
            Some(_) => (shown.tools, shown.tool_names),
            None => (hidden.tools, hidden.tool_names),
        };
        let (name, software_version) = (shown.name.or(hidden.name), shown.software_version.or(hidden.software_version));
        ServerStatus { connections, users, restarts, last_error, tools, tool_names, name, software_version, ..shown }
    }

    /// Returns a warning for the operator, if anything is wrong.
    pub fn warning(&self) -> Option<Warning> {
        let last = || self.last_error.as_ref().map(|error| format!(": {}", error.text)).unwrap_or_default();
        let text = match (&self.problem, self.state) {
            (Some(problem), _) => problem.clone(),
            (None, State::Failed) => format!("it is down{}", last()),
            (None, State::Restarting) => format!("it is being restarted{}", last()),
            (None, State::Degraded) => format!("it is slow to answer{}", last()),
            (None, State::NeedsAuth) => format!("it needs authorization{}", last()),
            (None, State::Connecting) if self.start_failed() => format!("it does not start{}", last()),
            (None, State::Disabled | State::Dormant | State::Connecting | State::Ready) => {
                match self.cut_lists.as_slice() {
                    [] => return None,
                    cut => format!("lists were cut: {}", cut.join(", ")),
                }
            }
        };
        Some(Warning { server: self.server.clone(), text, since: self.since })
    }
}

impl ServerStatus {
    /// Says why the server does not count as ready; `None` if it does, or if nobody waits for it.
    pub(super) fn wait_reason(&self) -> Option<Warning> {
        let is_off = self.state == State::Disabled && self.problem.is_none();
        if self.ready || is_off || self.scope != ConnectionScope::Shared {
            return None;
        }
        let text = match self.state {
            State::Dormant => "it has not been started yet".to_owned(),
            State::Connecting if !self.start_failed() => "it is starting".to_owned(),
            _ => return self.warning(),
        };
        Some(Warning { server: self.server.clone(), text, since: self.since })
    }

    /// Reports whether an attempt has failed since the server began to start.
    fn start_failed(&self) -> bool {
        self.last_error.as_ref().is_some_and(|error| error.at >= self.since)
    }
}

/// Returns the name of a state, as in the WIT.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Disabled => "disabled",
        State::Dormant => "dormant",
        State::Connecting => "connecting",
        State::Ready => "ready",
        State::Degraded => "degraded",
        State::Restarting => "restarting",
        State::Failed => "failed",
        State::NeedsAuth => "needs-auth",
    }
}

/// Ranks states by how much attention they need.
fn rank(state: State) -> u8 {
    match state {
        State::Disabled => 0,
        State::Dormant => 1,
        State::Ready => 2,
        State::Connecting => 3,
        State::Degraded => 4,
        State::Restarting => 5,
        State::NeedsAuth => 6,
        State::Failed => 7,
    }
}
