//! What a call would do, found out without doing it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decide::{Decide, ExecutionId, GateId, LogicResult};
use crate::logic::LogicError;
use crate::logic::types::{ToolRef, execution};

/// A call that would be made.
#[derive(Debug)]
pub struct CallPlan {
    /// The tool that would be called.
    pub tool: ToolRef,
    /// With these arguments, as JSON.
    pub arguments: String,
    /// The rule that wants a person's approval first, if one does.
    pub approval: Option<String>,
    /// How this was decided.
    pub trace: Vec<String>,
}

/// Begins a call on a gate whose servers have all made their offers, to see what it would do, and drops it. A call that would fail at once is its result.
pub fn plan(
    logic: &mut impl Decide,
    gate: GateId,
    call: execution::ToolCall,
) -> LogicResult<Result<CallPlan, execution::ToolResult>> {
    let (execution, directive) = logic.begin(gate, call)?;
    plan_from(logic, execution, directive)
}

/// What a call would do that has begun and needs no server to be connected any more; the call is dropped.
pub fn plan_from(
    logic: &mut impl Decide,
    execution: ExecutionId,
    directive: execution::Directive,
) -> LogicResult<Result<CallPlan, execution::ToolResult>> {
    let (tool, arguments, approval) = match directive {
        execution::Directive::Done(result) => return Ok(Err(result)),
        execution::Directive::Request(request) => {
            let Params { name, arguments } =
                serde_json::from_str(&request.params).map_err(|_| unexpected_directive())?;
            (ToolRef { server: request.server, tool: name }, arguments.get().to_owned(), None)
        }
        execution::Directive::Ask(question) => (question.tool, question.arguments, Some(question.reason)),
        // All tools have been offered and nothing has been sent: there is nobody to connect and nothing to wait for.
        execution::Directive::Connect(_)
        | execution::Directive::Wait(_)
        | execution::Directive::Reconnect(_)
        | execution::Directive::Reauthenticate(_)
        | execution::Directive::Condense(_) => return Err(unexpected_directive()),
    };
    let trace = logic.trace(execution)?;
    logic.end(execution)?;
    Ok(Ok(CallPlan { tool, arguments, approval, trace }))
}

/// A component of somebody's own may answer anything.
fn unexpected_directive() -> LogicError {
    LogicError::Trap { reason: "it answered the beginning of a call with what cannot begin one".to_owned() }
}

#[derive(Deserialize)]
struct Params {
    name: String,
    arguments: Box<RawValue>,
}
