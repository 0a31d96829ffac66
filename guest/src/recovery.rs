//! Whether a failed operation may be retried, so that no tool is ever silently executed twice.

use crate::types::{Failure, HttpFailure, Phase, Trace};

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Report the failure to the caller.
    Surface,
    /// Send the request again on the same session.
    RetrySameSession,
    /// Open a new session and send the request again.
    RetryNewSession,
    /// Get a new authorization and send the request again.
    Reauthenticate,
    /// Tell the caller that it is unknown whether the tool ran.
    OutcomeUnknown,
}

/// Which operations may be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Operations that cannot have run, and operations that are safe to repeat.
    #[default]
    Safe,
    /// All operations.
    Always,
    /// No operations.
    Never,
}

/// What is known about the operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// How far the operation got.
    pub phase: Phase,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The tool declares that it changes nothing.
    pub read_only: bool,
    /// The tool declares that it is safe to repeat.
    pub idempotent: bool,
    /// Which operations may be repeated.
    pub retry: RetryPolicy,
}

/// An action and the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// The reasons.
    pub trace: Trace,
}

/// Decides what to do about a failure, by its kind and code and never by its text.
///
/// After [`Phase::Sent`], an operation that is not safe to repeat is never sent again, whatever failed: only
/// [`RetryPolicy::Always`] changes that. A transport that knows better says so with [`Phase::NotSent`].
///
/// It only looks at this attempt. With [`RetryPolicy::Always`], the first attempt of an unsafe tool may have run
/// although the second did not, for example because it was refused. So the caller checks [`may_have_run`] after each
/// attempt and reports the outcome as unknown.
pub fn classify(failure: &Failure, context: &Context) -> Decision {
    let safe = context.read_only || context.idempotent;
    // There is one retry per operation, and a new authorization counts as one.
    let may_retry = context.attempt < 2 && context.retry != RetryPolicy::Never;
    let meaning = examine(failure, context.phase);
    let action = match meaning {
        Meaning::Final => Action::Surface,
        Meaning::NotRun(retry) if may_retry => retry,
        Meaning::NotRun(_) => Action::Surface,
        Meaning::Lost(retry) | Meaning::TurnedAway(retry)
            if may_retry && (safe || context.retry == RetryPolicy::Always) =>
        {
            retry
        }
        Meaning::Lost(_) | Meaning::TurnedAway(_) | Meaning::Unanswered if safe => Action::Surface,
        Meaning::Lost(_) | Meaning::TurnedAway(_) | Meaning::Unanswered => Action::OutcomeUnknown,
    };
    let mut trace = vec![describe(failure), meaning.note(failure, context.phase).to_string()];
    if meaning.may_have_run() {
        trace.push(safety_note(context).to_string());
    }
    trace.push(format!("attempt {} with `retry: {}`: {}", context.attempt, context.retry.name(), action.name()));
    Decision { action, trace }
}

/// Reports whether the tool may have run although its request failed in this way.
pub fn may_have_run(failure: &Failure, phase: Phase) -> bool {
    examine(failure, phase).may_have_run()
}

/// Reports whether the failure means that an authorization is missing or no longer valid.
pub fn wants_authorization(failure: &Failure) -> bool {
    match failure {
        Failure::NeedsAuth(_) => true,
        Failure::Http(http) => is_challenge(http),
        _ => false,
    }
}

/// What a failure means for the tool.
#[derive(Clone, Copy)]
enum Meaning {
    /// A retry is pointless: the server answered, the caller is gone, or nothing was sent.
    Final,
    /// The tool did not run, and this action may help.
    NotRun(Action),
    /// The connection was lost: the tool may have run, and this action may help.
    Lost(Action),
    /// The server answered that it did not take the request, but the transport says that it may have acted on it.
    TurnedAway(Action),
    /// No response, or an unreadable one: the tool may have run, and a retry would not help.
    Unanswered,
}

fn examine(failure: &Failure, phase: Phase) -> Meaning {
    let sent = phase == Phase::Sent;
    match failure {
        Failure::Cancelled | Failure::Rpc(_) => Meaning::Final,
        // These end an operation before anything is sent, and the host has already tried everything.
        Failure::QueueFull(_)
        | Failure::NeedsAuth(_)
        | Failure::RestartInProgress
        | Failure::RestartFailed(_)
        | Failure::RulesUnavailable(_) => Meaning::Final,
        Failure::Timeout | Failure::Protocol(_) => unanswered(sent),
        // Some transports also say `connect` of a connection that was reset, so only the phase counts.
        Failure::Connect(_) | Failure::Closed | Failure::Exited(_) => lost(sent),
        Failure::Http(http) if is_challenge(http) => turned_away(sent, Action::Reauthenticate),
        Failure::Http(http) => match http.status {
            // The server does not know the session.
            400 | 404 if http.session => turned_away(sent, Action::RetryNewSession),
            429 => turned_away(sent, Action::RetrySameSession),
            400..=499 => Meaning::Final,
            // A gateway's 5xx says nothing about the server behind it. If the request was not sent, the response
            // belongs to an earlier step (the initialization), and the connection broke before the request was written.
            500..=599 => lost(sent),
            // Not an HTTP error, but not an MCP response either: the server violated the protocol.
            _ => unanswered(sent),
        },
    }
}

fn lost(sent: bool) -> Meaning {
    if sent { Meaning::Lost(Action::RetryNewSession) } else { Meaning::NotRun(Action::RetryNewSession) }
}

fn turned_away(sent: bool, retry: Action) -> Meaning {
    if sent { Meaning::TurnedAway(retry) } else { Meaning::NotRun(retry) }
}

fn unanswered(sent: bool) -> Meaning {
    if sent { Meaning::Unanswered } else { Meaning::Final }
}

fn is_challenge(http: &HttpFailure) -> bool {
    http.status == 401 || (http.status == 403 && http.challenge)
}

/// Describes the failure without quoting texts of others: they may contain secrets, and no decision depends on them.
fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Cancelled => "the caller cancelled".into(),
        Failure::Timeout => "no answer in time".into(),
        Failure::Connect(_) => "could not connect".into(),
        Failure::Closed => "the connection closed".into(),
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
        Failure::NeedsAuth(_) => "the server requires authorization".into(),
        Failure::RestartInProgress => "the server is being restarted".into(),
        Failure::RestartFailed(_) => "the server could not be restarted".into(),
        Failure::RulesUnavailable(_) => "the rules cannot be applied".into(),
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
        matches!(self, Meaning::Lost(_) | Meaning::TurnedAway(_) | Meaning::Unanswered)
    }

    fn note(self, failure: &Failure, phase: Phase) -> &'static str {
        let is_answer = matches!(failure, Failure::Http(http) if http.status < 500);
        match self {
            Meaning::Final if phase == Phase::Sent => "a retry would not help",
            Meaning::Final => "nothing was sent, and a retry would not help",
            Meaning::NotRun(_) if is_answer => "the server turned the request away: the tool did not run",
            Meaning::NotRun(_) => "nothing was sent: the tool did not run",
            Meaning::Lost(_) => "the request was sent and the response was lost: the tool may have run",
            Meaning::TurnedAway(_) => "the request was sent before the server turned it away: the tool may have run",
            Meaning::Unanswered => "the request was sent and got no response: the tool may have run",
        }
    }
}

impl Action {
    /// Returns the case's name in the WIT.
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
    /// Returns the case's name in the WIT.
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
