//! Lets a wrapper see what a call is about to do, and stop it before anything is sent.

use super::refusal::Refusal;
use super::{Execution, ResolvedTool, State};
use crate::execution::{Code, Directive, Event};
use crate::types::{Annotations, ToolRef};

/// What a call is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent<'a> {
    /// The tool that the name means.
    pub tool: ToolRef,
    /// The tool's annotations, from the configuration or else from its server.
    pub annotations: Annotations,
    /// The arguments that the tool gets, as JSON.
    pub arguments: &'a str,
}

impl Execution {
    /// Returns what the call is about to do, once its name and arguments are read: from the first `Ask` or `Request`
    /// on.
    pub fn intent(&self) -> Option<Intent<'_>> {
        let (meant, plan) = (self.tool.as_ref()?, self.plan.as_ref()?);
        let tool = &meant.entry.tool;
        let annotations = self.gate.borrow().access.annotations(&meant.server, &tool.name, tool.annotations);
        Some(Intent { tool: meant.tool(), annotations, arguments: &plan.arguments })
    }

    /// Ends the call as `NotAllowed`, with a reason for the model and the trace; if a `Request` was about to be sent,
    /// it is not.
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
        self.refusal = Refusal::default();
        // The reason may quote arguments, and the trace is logged.
        let note = self.gate.borrow().results(&self.server()).masker.mask(why).into_owned();
        self.note(note);
        let whom = self
            .tool
            .as_ref()
            .map_or_else(|| "the call".to_owned(), |meant: &ResolvedTool| super::describe_tool(meant));
        self.fail(Code::NotAllowed, &format!("{whom} is refused: {why}"))
    }
}
