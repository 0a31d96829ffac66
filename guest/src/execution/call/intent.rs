//! What somebody who watches over a call may know of it before anything is sent, and how to stop it then.

use super::{Execution, ResolvedTool, State};
use crate::execution::{Code, Directive, Event};
use crate::types::{Annotations, ToolRef};

/// What a call is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent<'a> {
    /// The tool that is meant.
    pub tool: ToolRef,
    /// What is said of it: by the configuration, else by its server.
    pub annotations: Annotations,
    /// The arguments that it gets, as JSON.
    pub arguments: &'a str,
}

impl Execution {
    /// What the call is about to do, once its name and its arguments are read: from the first `Ask` or `Request` on.
    pub fn intent(&self) -> Option<Intent<'_>> {
        let (meant, plan) = (self.tool.as_ref()?, self.plan.as_ref()?);
        let tool = &meant.entry.tool;
        let annotations = self.gate.borrow().access.annotations(&meant.server, &tool.name, tool.annotations);
        Some(Intent { tool: meant.tool(), annotations, arguments: &plan.arguments })
    }

    /// Ends the call as `NotAllowed`, for a reason that the model and the trace are told. In place of a `Request` it means
    /// that the request is not sent.
    pub fn refuse(&mut self, why: &str) -> Directive {
        match self.state {
            State::Done(_) => return self.next(Event::Cancelled),
            State::Requesting => {
                self.attempts = self.attempts.saturating_sub(1);
                self.notes.pop();
            }
            _ => {}
        }
        if self.may_have_run && !self.is_safe() {
            return self.outcome_unknown(why);
        }
        // A reason may quote arguments, and a trace is logged.
        let note = self.gate.borrow().masker(&self.server()).mask(why).into_owned();
        self.note(note);
        let whom = self
            .tool
            .as_ref()
            .map_or_else(|| "the call".to_owned(), |meant: &ResolvedTool| super::describe_tool(meant));
        self.fail(Code::NotAllowed, &format!("MCP tool execution failed: {whom} is refused: {why}"))
    }
}
