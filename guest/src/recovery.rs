//! Whether a failed operation may be tried again, so that no tool is ever silently executed twice.

use crate::types::{Failure, HttpFailure, Phase, Trace};

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell the caller.
    Surface,
    /// Send it again on the same session.
    RetrySameSession,
    /// Open a new session and send it again.
    RetryNewSession,
    /// Get a new authorization and send it again.
    Reauthenticate,
    /// Tell the caller that nobody knows whether it ran.
    OutcomeUnknown,
}

/// Which operations may be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Those that cannot have run, and those that are safe to repeat.
    #[default]
    Safe,
    /// All.
    Always,
    /// None.
    Never,
}

/// What is known of the operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// How far it came.
    pub phase: Phase,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// The tool declares that it changes nothing.
    pub read_only: bool,
    /// The tool declares that repeating it does no harm.
    pub idempotent: bool,
    /// Which operations may be repeated.
    pub retry: RetryPolicy,
}

/// An action and the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// Why.
    pub trace: Trace,
}

/// Decides on kinds and codes, never on texts.
///
/// Only this attempt is judged. Under [`RetryPolicy::Always`] the first attempt of an unsafe tool may have run although
/// the second one, refused say, did not: whoever made both asks [`may_have_run`] after each and reports the outcome as
/// unknown.
pub fn classify(failure: &Failure, context: &Context) -> Decision {
    let safe = context.read_only || context.idempotent;
    // There is one retry per operation, and reauthenticating is one.
    let may_retry = context.attempt < 2 && context.retry != RetryPolicy::Never;
    let meaning = examine(failure, context.phase);
    let action = match meaning {
        Meaning::Final => Action::Surface,
        Meaning::NotRun(retry) if may_retry => retry,
        Meaning::NotRun(_) => Action::Surface,
        Meaning::Lost if may_retry && (safe || context.retry == RetryPolicy::Always) => Action::RetryNewSession,
        Meaning::Lost | Meaning::Unanswered if safe => Action::Surface,
        Meaning::Lost | Meaning::Unanswered => Action::OutcomeUnknown,
    };
    let mut trace = vec![describe(failure), meaning.note(context.phase).to_string()];
    if meaning.may_have_run() {
        trace.push(safety_note(context).to_string());
    }
    trace.push(format!("attempt {}, retry: {}: {}", context.attempt, context.retry.name(), action.name()));
    Decision { action, trace }
}

/// Whether a tool whose request failed so may have run all the same.
pub fn may_have_run(failure: &Failure, phase: Phase) -> bool {
    examine(failure, phase).may_have_run()
}

/// Whether the failure says that an authorization is missing or no longer good.
pub fn wants_authorization(failure: &Failure) -> bool {
    match failure {
        Failure::NeedsAuth(_) => true,
        Failure::Http(http) => is_challenge(http),
        _ => false,
    }
}

/// What a failure says about the tool.
#[derive(Clone, Copy)]
enum Meaning {
    /// There is nothing to repeat: the server answered, or nobody waits, or nothing was asked.
    Final,
    /// The tool did not run, and this may help.
    NotRun(Action),
    /// The connection was lost on the way: the tool may have run, and a new connection may help.
    Lost,
    /// No answer, or none that can be read: the tool may have run, and asking again would not help.
    Unanswered,
}

fn examine(failure: &Failure, phase: Phase) -> Meaning {
    let sent = phase == Phase::Sent;
    match failure {
        Failure::Cancelled | Failure::Rpc(_) => Meaning::Final,
        // These end an operation before anything is sent, and the host has already tried what could be tried.
        Failure::QueueFull(_) | Failure::NeedsAuth(_) | Failure::RestartInProgress | Failure::RestartFailed(_) => {
            Meaning::Final
        }
        // Without a connection nothing can have been sent, whatever the phase says.
        Failure::Connect(_) => Meaning::NotRun(Action::RetryNewSession),
        Failure::Timeout | Failure::Protocol(_) => unanswered(sent),
        Failure::Closed | Failure::Exited(_) => lost(sent),
        Failure::Http(http) if is_challenge(http) => Meaning::NotRun(Action::Reauthenticate),
        Failure::Http(http) => match http.status {
            // The server does not know the session, so it turned the request away unread.
            400 | 404 if http.session => Meaning::NotRun(Action::RetryNewSession),
            429 => Meaning::NotRun(Action::RetrySameSession),
            400..=499 => Meaning::Final,
            // A gateway's 5xx says nothing about the server behind it. If the request was not sent, the answer was to
            // something before it (the initialization), and the connection broke before the request was written.
            500..=599 => lost(sent),
            // No HTTP error at all, and yet no MCP answer: the server broke the protocol.
            _ => unanswered(sent),
        },
    }
}

fn lost(sent: bool) -> Meaning {
    if sent { Meaning::Lost } else { Meaning::NotRun(Action::RetryNewSession) }
}

fn unanswered(sent: bool) -> Meaning {
    if sent { Meaning::Unanswered } else { Meaning::Final }
}

fn is_challenge(http: &HttpFailure) -> bool {
    http.status == 401 || (http.status == 403 && http.challenge)
}

/// What failed, without the texts of others: they may hold secrets, and nothing is decided on them.
fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Cancelled => "the caller gave up".into(),
        Failure::Timeout => "no answer in time".into(),
        Failure::Connect(_) => "no connection".into(),
        Failure::Closed => "the connection ended".into(),
        Failure::Exited(Some(code)) => format!("the process ended with exit code {code}"),
        Failure::Exited(None) => "the process was killed".into(),
        Failure::Http(http) => {
            let session = if http.session { " to a request with a session" } else { "" };
            let challenge = if http.challenge { " with a challenge" } else { "" };
            format!("HTTP {}{challenge}{session}", http.status)
        }
        Failure::Rpc(rpc) => format!("JSON-RPC error {}", rpc.code),
        Failure::Protocol(_) => "the server broke the protocol".into(),
        Failure::QueueFull(_) => "the server's queue is full".into(),
        Failure::NeedsAuth(_) => "the server wants an authorization that the host does not have".into(),
        Failure::RestartInProgress => "the server is being restarted".into(),
        Failure::RestartFailed(_) => "the server could not be restarted".into(),
    }
}

fn safety_note(context: &Context) -> &'static str {
    match (context.read_only, context.idempotent) {
        (true, _) => "the tool is read-only: safe to repeat",
        (false, true) => "the tool is idempotent: safe to repeat",
        (false, false) => "the tool is neither read-only nor idempotent: not safe to repeat",
    }
}

impl Meaning {
    fn may_have_run(self) -> bool {
        matches!(self, Meaning::Lost | Meaning::Unanswered)
    }

    fn note(self, phase: Phase) -> &'static str {
        match (self, phase) {
            (Meaning::Final, Phase::NotSent) => "nothing was sent, and trying again would not help",
            (Meaning::Final, Phase::Sent) => "this is final: trying again would not help",
            (Meaning::NotRun(_), Phase::NotSent) => "nothing was sent: the tool did not run",
            (Meaning::NotRun(_), Phase::Sent) => "the request was not accepted: the tool did not run",
            (Meaning::Lost, _) => "the request was sent and the answer was lost: the tool may have run",
            (Meaning::Unanswered, _) => "the request was sent and not answered: the tool may have run",
        }
    }
}

impl Action {
    /// The name of the case in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Action::Surface => "surface",
            Action::RetrySameSession => "retry-same-session",
            Action::RetryNewSession => "retry-new-session",
            Action::Reauthenticate => "reauthenticate",
            Action::OutcomeUnknown => "outcome-unknown",
        }
    }
}

impl RetryPolicy {
    /// The name of the case in the contract.
    pub fn name(self) -> &'static str {
        match self {
            RetryPolicy::Safe => "safe",
            RetryPolicy::Always => "always",
            RetryPolicy::Never => "never",
        }
    }
}

#[cfg(test)]
mod tests;
