//! The rules that every simulated run must obey.

use std::time::Duration;

use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;
use toolgate::registry::ServerStatus;

use super::ledger::{Attempt, Ledger, Seen};
use super::states::{Move, Moves, is_legal};

/// A rule that was broken, in words.
pub type Broken = String;

/// A call, as it was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub marker: String,
    pub server: &'static str,
    pub tool: String,
    pub at: Duration,
    /// When it must be over.
    pub limit: Duration,
    pub queued: bool,
    /// Somebody may have cancelled it.
    pub cancelled: bool,
}

/// What it came to.
#[derive(Clone, Debug)]
pub struct Told {
    pub at: Duration,
    pub code: Code,
    pub text: String,
    pub attempts: u32,
}

impl Asked {
    /// Whether it may run twice.
    fn is_safe(&self) -> bool {
        matches!(self.tool.as_str(), "read" | "set")
    }
}

/// No tool runs more often than it may, whatever its caller was told.
pub fn runs(asked: &Asked, seen: &Seen) -> Result<(), Broken> {
    let most = if asked.is_safe() { 2 } else { 1 };
    ensure(seen.runs.len() <= most, || format!("{} ran {} times: {seen:?}", asked.tool, seen.runs.len()))
}

/// What a caller is told is true; `stayed` says that its server was configured all the while.
pub fn told(asked: &Asked, told: &Told, seen: &Seen, stayed: bool) -> Result<(), Broken> {
    let Told { at, code, text, attempts } = told;
    let safe = asked.is_safe();
    let took = at.saturating_sub(asked.at);
    let what = || format!("{asked:?} came to {told:?}; its server saw {seen:?}");
    let sure = |holds: bool, rule: &str| ensure(holds, || format!("{rule}: {}", what()));
    sure(took <= asked.limit, "a call ends in time")?;
    sure(*attempts <= 2, "there is one retry")?;
    sure(asked.tool != FORBIDDEN || seen.handed == 0, "what is forbidden is not sent")?;
    match code {
        Code::NotAllowed => sure(asked.tool == FORBIDDEN && seen.handed == 0, "only what is forbidden is not allowed"),
        Code::Ok | Code::ToolError => sure(seen.runs.contains(text), "an answer is that of a run"),
        Code::OutcomeUnknown => {
            sure(!safe, "the outcome of a safe tool is told")?;
            sure(seen.handed > seen.refused, "what was never sent has an outcome: it did not run")
        }
        // The server's own word, or the caller's.
        Code::RpcError => sure(seen.handed > 0, "an error of the server follows a request"),
        Code::Cancelled => sure(asked.cancelled, "only callers cancel"),
        Code::QueueFull if !asked.queued => sure(false, "only queues are full"),
        Code::QueueFull
        | Code::Timeout
        | Code::ServerUnavailable
        | Code::RestartInProgress
        | Code::RestartFailed
        | Code::NeedsAuth => sure(safe || seen.runs.is_empty(), "what may have run is not said to have failed"),
        Code::UnknownTool if asked.tool.starts_with("extra") => Ok(()),
        Code::UnknownServer | Code::UnknownTool if !stayed => Ok(()),
        _ => sure(false, "this code has no place here"),
    }
}

/// What a status says of a server fits together.
pub fn status(status: &ServerStatus) -> Result<(), Broken> {
    let up = matches!(status.state, State::Ready | State::Degraded);
    ensure(status.era.is_some() == up, || format!("a server is up and connected, or neither: {status:?}"))?;
    let ready = up || status.state == State::Dormant;
    ensure(ready || !status.ready, || format!("a server that is not up is not ready: {status:?}"))?;
    let calls = &status.calls;
    let ended = calls.ok + calls.tool_errors + calls.failures + calls.unknown + calls.cancelled + calls.denied;
    ensure(calls.calls == ended + calls.in_flight, || format!("each call is counted once: {status:?}"))
}

/// Nobody uses the server any more.
pub fn at_rest(status: &ServerStatus) -> Result<(), Broken> {
    ensure(status.users == 0 && status.calls.in_flight == 0, || format!("somebody still uses it: {status:?}"))?;
    let queues = status.queues.iter().all(|queue| queue.running == 0 && queue.waiting == 0);
    ensure(queues, || format!("somebody still waits for it: {status:?}"))
}

/// Servers move from state to state as the design has it; each from where it stood, where there is one of this id.
pub fn moves(moves: &Moves, alone: &[&str]) -> Result<(), Broken> {
    for step in moves.all() {
        ensure(is_legal(&step.from, &step.to), || format!("there is no such way: {step:?}"))?;
    }
    for server in alone {
        let steps = moves.of(server);
        for pair in steps.windows(2) {
            ensure(pair[0].to == pair[1].from, || format!("a move from elsewhere: {pair:?}"))?;
        }
    }
    Ok(())
}

/// While a server does not come up, the attempts to connect it keep the delays of the schedule, one after the other.
/// Holds for a server of which there is one, and whose era is said.
pub fn delays(server: &str, ledger: &Ledger, moves: &Moves, exact: bool) -> Result<(), Broken> {
    let (attempts, moves) = (ledger.attempts(server), moves.of(server));
    let mut run: Vec<Duration> = Vec::new();
    for pair in attempts.windows(2) {
        match pause(&pair[0], &pair[1], &moves) {
            Some(pause) => run.push(pause),
            None => run.clear(),
        }
        let fits = |start: usize| {
            let due = (start..).map(|at| SCHEDULE[at.min(SCHEDULE.len() - 1)]);
            run.iter().zip(due).all(|(pause, due)| {
                let due = Duration::from_secs(due);
                *pause >= due && (!exact || *pause <= due + due / 5 + Duration::from_millis(5))
            })
        };
        ensure((0..SCHEDULE.len()).any(fits), || format!("{server} was tried with pauses of {run:?}, until {pair:?}"))?;
    }
    Ok(())
}

/// The time between two attempts of one row; none where something else lay between them.
fn pause(before: &Attempt, after: &Attempt, moves: &[Move]) -> Option<Duration> {
    let gone = before.gone.filter(|_| !before.settled)?;
    let began = |step: &&Move| step.at == before.at && matches!(step.to.as_str(), "Connecting" | "Restarting");
    let between = moves.iter().filter(|step| step.at >= before.at && step.at <= after.at);
    let mut interrupted = between.filter(|step| step.to != "Failed" && !began(step));
    interrupted.next().is_none().then(|| after.at.saturating_sub(gone))
}

/// The tool that every server has and no gate may use.
pub const FORBIDDEN: &str = "forbidden";

const SCHEDULE: [u64; 7] = [0, 1, 2, 5, 10, 30, 60];

pub fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(why()) }
}
