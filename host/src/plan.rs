//! Finds out what a call would do, without doing it.

use crate::decide::{Decide, ExecutionId, GateId, LogicResult};
use crate::logic::LogicError;
use crate::logic::types::{ToolRef, execution};
use crate::record::CallSurroundings;

/// A call that would be made.
#[derive(Debug)]
pub struct CallPlan {
    /// The tool that would be called.
    pub tool: ToolRef,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// The rule that asks for a person's approval, if one does.
    pub approval: Option<String>,
    /// The trace of the decision.
    pub trace: Vec<String>,
}

/// Begins a call to see what it would do, and drops it; all servers of the gate must have offered their tools. A call
/// that ends at once returns its result.
pub(crate) fn plan(
    logic: &mut impl Decide,
    gate: GateId,
    call: execution::ToolCall,
    around: &CallSurroundings<'_>,
) -> LogicResult<Result<CallPlan, execution::ToolResult>> {
    let (execution, mut directive) = logic.begin(gate, call)?;
    while let Some(event) = around.answer(&directive) {
        directive = logic.next(execution, event)?;
    }
    plan_from(logic, execution, directive)
}

/// Finds out what a call would do that has begun and needs no more connections, and drops it.
pub(crate) fn plan_from(
    logic: &mut impl Decide,
    execution: ExecutionId,
    directive: execution::Directive,
) -> LogicResult<Result<CallPlan, execution::ToolResult>> {
    let (tool, arguments, approval) = match directive {
        execution::Directive::Done(result) => return Ok(Err(result)),
        execution::Directive::Request(request) => (request.tool, request.arguments, None),
        execution::Directive::Ask(question) => (question.tool, question.arguments, Some(question.reason)),
        // All tools are offered and nothing was sent, so there is nothing to connect or to wait for.
        execution::Directive::Connect(_)
        | execution::Directive::Circumstances(_)
        | execution::Directive::Count(_)
        | execution::Directive::Wait(_)
        | execution::Directive::Reconnect(_)
        | execution::Directive::Reauthenticate(_)
        | execution::Directive::Condense(_) => return Err(unexpected_directive()),
    };
    let trace = logic.trace(execution)?;
    logic.end(execution)?;
    Ok(Ok(CallPlan { tool, arguments, approval, trace }))
}

/// Returns the error for an answer that only a custom component can give.
fn unexpected_directive() -> LogicError {
    LogicError::Trap { reason: "it began a call with an unexpected directive".to_owned() }
}
