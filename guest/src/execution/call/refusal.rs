//! What a program learns about a call that was refused, so that it need not read the text.

use super::Execution;
use crate::execution::Code;
use crate::json::{Object, Value};
use crate::rules::Rule;

/// Why a call was refused, beside its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The rule that denied the call, or that wants a person's approval.
    rule: Option<String>,
    /// When the rule's limit lets calls through again.
    retry_after_ms: Option<u64>,
}

impl Refusal {
    /// Returns the member `_meta` of the result of a refused call, in an object; `None` if the code is no refusal.
    pub(super) fn to_members(&self, code: Code) -> Option<String> {
        let mut refusal = Object::new();
        refusal.set("code", Value::string(refusal_name(code)?));
        if let Some(rule) = &self.rule {
            refusal.set("rule", Value::string(rule.as_str()));
        }
        if let Some(wait) = self.retry_after_ms {
            refusal.set("retryAfterMs", Value::Number(wait.to_string().into()));
        }
        let mut meta = Object::new();
        meta.set(REFUSAL, Value::Object(refusal));
        let mut members = Object::new();
        members.set("_meta", Value::Object(meta));
        Some(Value::Object(members).to_json())
    }
}

impl Execution {
    /// Notes the rule by which the call is refused, or by which it will be if nobody approves it.
    pub(super) fn blame(&mut self, rule: &Rule, retry_after_ms: Option<u64>) {
        // The text is masked as well.
        let name = self.gate.borrow().results(&self.server()).masker.mask(&rule.name).into_owned();
        self.refusal = Refusal { rule: Some(name), retry_after_ms };
    }
}

/// Returns the name of a code that says that the gate refused a call, and that no server saw it.
fn refusal_name(code: Code) -> Option<&'static str> {
    match code {
        Code::NotAllowed => Some("not-allowed"),
        Code::Declined => Some("declined"),
        Code::InvalidArguments => Some("invalid-arguments"),
        Code::QueueFull => Some("queue-full"),
        _ => None,
    }
}

/// The member of `_meta` that describes a refusal.
const REFUSAL: &str = "toolgate/refusal";
