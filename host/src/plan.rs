//! What a call would do, found out without doing it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decide::{Answer, Decide, GateId};
use crate::logic::types::{ToolRef, execution};

/// A call that would be made.
#[derive(Debug)]
pub struct Plan {
    /// The tool that would be called.
    pub tool: ToolRef,
    /// With these arguments, as JSON.
    pub arguments: String,
    /// The rule that wants a person's approval first, if one does.
    pub approval: Option<String>,
    /// Servers that would have to be connected before more can be said.
    pub connect: Vec<String>,
    /// How this was decided.
    pub trace: Vec<String>,
}

/// Begins a call in order to see what it would do, and drops it. A call that would fail at once is its result.
pub fn plan(
    logic: &mut impl Decide,
    gate: GateId,
    call: execution::ToolCall,
) -> Answer<Result<Plan, execution::ToolResult>> {
    let (execution, directive) = logic.begin(gate, call)?;
    let mut plan = Plan {
        tool: ToolRef { server: String::new(), tool: String::new() },
        arguments: String::new(),
        approval: None,
        connect: Vec::new(),
        trace: Vec::new(),
    };
    match directive {
        execution::Directive::Done(result) => return Ok(Err(result)),
        execution::Directive::Request(request) => {
            let Params { name, arguments } = serde_json::from_str(&request.params).unwrap_or_default();
            plan.tool = ToolRef { server: request.server, tool: name };
            plan.arguments = arguments.map_or_else(String::new, |arguments| arguments.get().to_owned());
        }
        execution::Directive::Ask(question) => {
            plan.tool = question.tool;
            plan.arguments = question.arguments;
            plan.approval = Some(question.reason);
        }
        execution::Directive::Connect(servers) => plan.connect = servers,
        // Nothing has been sent yet, so there is nothing to wait for or to open anew.
        execution::Directive::Wait(_)
        | execution::Directive::Reconnect(_)
        | execution::Directive::Reauthenticate(_) => {}
    }
    plan.trace = logic.trace(execution)?;
    logic.end(execution)?;
    Ok(Ok(plan))
}

#[derive(Default, Deserialize)]
struct Params {
    name: String,
    arguments: Option<Box<RawValue>>,
}
