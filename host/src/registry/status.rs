//! How servers are, as data.

use std::time::{Duration, SystemTime};

use crate::logic::types::lifecycle::State;
use crate::queue::QueueStats;
use crate::stats::StatsSnapshot;

/// How one server is.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The id of the server.
    pub server: String,
    /// How it is reached: `stdio`, `http`, `sse`, `websocket` or `custom`.
    pub kind: &'static str,
    /// Where it stands.
    pub state: State,
    /// It counts as ready: it answers, or it sleeps and its last start succeeded.
    pub ready: bool,
    /// Since when it stands there.
    pub since: SystemTime,
    /// The era that it speaks, while it is connected.
    pub era: Option<&'static str>,
    /// The version of MCP that it speaks, while it is connected.
    pub version: Option<String>,
    /// Its own name, while it is connected.
    pub name: Option<String>,
    /// How many tools it listed last.
    pub tools: Option<usize>,
    /// Which of its lists are longer than is taken, so that the rest is left out; in words.
    pub cut_lists: Vec<String>,
    /// How many connections there are to it; gates and sessions may have their own.
    pub connections: usize,
    /// How many use it at this moment.
    pub users: usize,
    /// How its calls went.
    pub calls: StatsSnapshot,
    /// What went wrong last, and when.
    pub last_error: Option<LastError>,
    /// When it was last looked after.
    pub last_check: Option<SystemTime>,
    /// How long its last start took.
    pub started_in: Option<Duration>,
    /// How often it was to be brought up again.
    pub restarts: u64,
    /// Its process, where it is one of ours.
    pub pid: Option<u32>,
    /// What is wrong with its configuration.
    pub problem: Option<String>,
    /// The queues that its calls pass.
    pub queues: Vec<QueueStats>,
}

/// What went wrong last, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// In words, without secrets.
    pub text: String,
    /// When.
    pub at: SystemTime,
}

/// Something that an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The id of the server.
    pub server: String,
    /// What is wrong, in words.
    pub text: String,
    /// Since when.
    pub since: SystemTime,
}

/// Whether the registry as a whole can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessReport {
    /// It can be used, by the configured measure.
    pub ready: bool,
    /// What does not work, whether it counts or not.
    pub warnings: Vec<Warning>,
}

impl ServerStatus {
    /// The same with another connection to the server counted in; where it stands is where the one stands that most
    /// wants to be looked at.
    pub(super) fn with(self, other: ServerStatus) -> Self {
        let connections = self.connections + other.connections;
        let (users, restarts) = (self.users + other.users, self.restarts + other.restarts);
        let (shown, hidden) = if rank(other.state) > rank(self.state) { (other, self) } else { (self, other) };
        let last_error = match (shown.last_error, hidden.last_error) {
            (Some(one), Some(other)) => Some(if other.at > one.at { other } else { one }),
            (one, other) => one.or(other),
        };
        let tools = shown.tools.or(hidden.tools);
        ServerStatus { connections, users, restarts, last_error, tools, ..shown }
    }

    /// What an operator should know, if anything is wrong.
    pub fn warning(&self) -> Option<Warning> {
        let last = || self.last_error.as_ref().map(|error| format!(": {}", error.text)).unwrap_or_default();
        let text = match (&self.problem, self.state) {
            (Some(problem), _) => problem.clone(),
            (None, State::Failed) => format!("it is down{}", last()),
            (None, State::Restarting) => format!("it is being restarted{}", last()),
            (None, State::Degraded) => format!("it is slow to answer{}", last()),
            (None, State::NeedsAuth) => format!("it wants an authorization{}", last()),
            (None, State::Disabled | State::Dormant | State::Connecting | State::Ready) => {
                match self.cut_lists.as_slice() {
                    [] => return None,
                    cut => format!("some of it is left out: {}", cut.join(", ")),
                }
            }
        };
        Some(Warning { server: self.server.clone(), text, since: self.since })
    }
}

/// The name of a state, as the contract spells it.
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

/// How much a state wants to be looked at.
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
