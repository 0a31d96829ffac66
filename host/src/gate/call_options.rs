//! What a caller says about a call, and what it gets back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::OnEvent;
use super::forwarded::ResultParts;
use crate::failure::RequestError;
use crate::json::JsonObject;
use crate::logic::types::execution::{Question, ToolResult};
use crate::session::{Caller, Reply};
use crate::transport::BoxFuture;

/// Asks a person whether a call may be made.
pub trait Approve: Send + Sync {
    /// Shows a person the whole question, as [`super::ApprovalText`] formats it, and returns the answer, which applies
    /// to this call alone.
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent>;
}

/// The outcome of an approval question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// The person approved this call.
    Yes,
    /// The person declined.
    No,
    /// An admin decided, who is not the caller.
    Admin(AdminDecision),
    /// Nobody can be asked.
    NoApprover,
    /// The answer cannot be used; the text says why.
    Failed(String),
    /// The answer comes with a repeated call: this one ends as [`GateError::Pending`], as if it had not been made.
    Pending,
}

/// What an admin decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminDecision {
    /// The name of the admin.
    pub admin: Arc<str>,
    /// Whether the call may be made.
    pub approved: bool,
}

impl AdminDecision {
    /// Says who decided what, for the trace of the call.
    pub fn note(&self) -> String {
        format!("the admin {:?} {} the call", self.admin, if self.approved { "approved" } else { "declined" })
    }
}

/// Options of one call.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// How long to wait for a result, instead of the server's setting.
    pub timeout: Option<Duration>,
    /// How long the whole call may take, including connecting, queueing and a retry.
    pub deadline: Option<Duration>,
    /// Receives events while the call runs.
    pub events: Option<OnEvent>,
    /// Whether to leave servers' log messages out of the events.
    pub without_logs: bool,
    /// Asks a person where a rule requires approval.
    pub approve: Option<Arc<dyn Approve>>,
    /// The principal of the call, for the record.
    pub principal: Option<Arc<str>>,
    /// The name of the client program, for rules.
    pub client: Option<Arc<str>>,
    /// The caller: its trace context and log level go to servers, and it answers their questions.
    pub caller: Caller,
}

/// The outcome of a call.
#[derive(Debug)]
pub struct CallOutcome {
    /// The result for the model.
    pub result: ToolResult,
    /// How long the call took.
    pub latency: Duration,
    /// The last failure, with details that the result does not have.
    pub failure: Option<RequestError>,
    /// The server's own result if it did not pass through the component; its content blocks are then only here.
    pub answer: Option<Reply>,
}

impl CallOutcome {
    /// Returns the content blocks of the result, as JSON.
    pub fn content(&self) -> Vec<&str> {
        match &self.answer {
            Some(_) => self.parts().content.into_iter().map(RawValue::get).collect(),
            None => self.result.content.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the structured content of the result, as JSON.
    pub fn structured(&self) -> Option<&str> {
        match &self.answer {
            Some(_) => self.parts().structured_content.map(RawValue::get),
            None => self.result.structured.as_deref(),
        }
    }

    /// Returns all other members of the result, including `_meta`.
    pub fn more(&self) -> JsonObject {
        match &self.answer {
            Some(reply) => {
                let mut more = JsonObject::read(reply.json()).unwrap_or_default();
                more.retain(|name| !matches!(name, "content" | "structuredContent" | "isError" | "resultType"));
                more
            }
            None => self.result.more.as_deref().and_then(JsonObject::read).unwrap_or_default(),
        }
    }

    /// Returns the complete result, including content that did not pass through the component.
    pub fn into_result(self) -> ToolResult {
        if self.answer.is_none() {
            return self.result;
        }
        let content = self.content().into_iter().map(str::to_owned).collect();
        let structured = self.structured().map(str::to_owned);
        let more = Some(self.more()).filter(|more| !more.is_empty()).map(|more| more.to_text());
        ToolResult { content, structured, more, ..self.result }
    }

    fn parts(&self) -> ResultParts<'_> {
        self.answer.as_ref().and_then(|reply| serde_json::from_str(reply.json()).ok()).unwrap_or_default()
    }
}
