//! One simulated call: how it is made, how long it may take, and how it ends.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateError};
use toolgate::logic::types::execution::{Code, ToolCall};

use super::super::ledger::Ledger;
use super::super::plan::Entry;
use super::super::rules::{Asked, Broken, Told};

/// Something that was begun and is over.
#[derive(Debug)]
pub enum Ended {
    /// A call, and what its caller was told.
    Told(Asked, Told),
    /// A call whose caller went away or was turned away; the word says which.
    Left(Asked, &'static str),
    /// Anything else, and what was wrong with it.
    Deed(Result<(), Broken>),
}

/// How a caller loses its patience.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    Waits,
    Drops(Duration),
    Cancels(Duration),
}

/// Makes a call.
pub async fn make(gate: &Gate, asked: Asked, options: &CallOptions, patience: Patience, ledger: &Ledger) -> Ended {
    let call = tool_call(&format!("{}.{}", asked.server, asked.tool), &asked.marker);
    let mut call = pin!(gate.call(call, options));
    let most = asked.limit + Duration::from_millis(10);
    let outcome = match patience {
        Patience::Waits => timeout(most, call).await,
        Patience::Drops(after) => match timeout(after.min(most), call).await {
            Err(_) if after <= most => return Ended::Left(asked, "dropped"),
            other => other,
        },
        Patience::Cancels(after) => match timeout(after.min(most), &mut call).await {
            Err(_) if after <= most => {
                gate.cancel(&asked.marker);
                timeout(Duration::from_millis(1), call).await
            }
            other => other,
        },
    };
    match outcome {
        Ok(Ok(CallOutcome { result, .. })) => {
            let told = Told { at: ledger.now(), code: result.code, text: result.text, attempts: result.attempts };
            Ended::Told(asked, told)
        }
        Ok(Err(GateError::Closed)) => Ended::Left(asked, "turned away"),
        Ok(Err(error)) => Ended::Deed(Err(format!("{asked:?} was not decided: {error}"))),
        Err(_) => Ended::Deed(Err(format!("{asked:?} has no end at {:?}", ledger.now()))),
    }
}

/// A call in the words of the component.
pub fn tool_call(name: &str, marker: &str) -> ToolCall {
    ToolCall { id: marker.to_owned(), name: name.to_owned(), arguments: format!(r#"{{"marker":"{marker}"}}"#) }
}

/// How long a call may take, with all that may come before it and between its two attempts.
pub fn limit(entry: &Entry, options: &CallOptions) -> Duration {
    let call = options.timeout.unwrap_or(entry.call);
    // Waiting for the server, for a list that another asks for and for the list itself; then for a turn in two queues,
    // for the server again and for the answer; and after a pause the same once more.
    let connecting = ACQUIRES + 2 * LISTS;
    let once = 2 * call + ACQUIRES + call + Duration::from_secs(1);
    let retrying = Duration::from_secs(1) + ACQUIRES.max(call);
    options.deadline.unwrap_or(Duration::MAX).min(connecting + once + retrying + once) + Duration::from_millis(2)
}

/// The name of a code that calls of the world end with.
pub fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::ToolError => "tool-error",
        Code::RpcError => "rpc-error",
        Code::Timeout => "timeout",
        Code::Cancelled => "cancelled",
        Code::QueueFull => "queue-full",
        Code::OutcomeUnknown => "outcome-unknown",
        Code::ServerUnavailable => "server-unavailable",
        Code::RestartInProgress => "restart-in-progress",
        Code::RestartFailed => "restart-failed",
        Code::NeedsAuth => "needs-auth",
        Code::NotAllowed => "not-allowed",
        Code::UnknownServer => "unknown-server",
        Code::UnknownTool => "unknown-tool",
        _ => "other",
    }
}

/// How long a caller waits for a server to come up.
const ACQUIRES: Duration = Duration::from_secs(61);
/// How long a list of tools may take.
const LISTS: Duration = Duration::from_secs(10);
