//! A gateway's answer to a call: the MCP result, and how the call was decided.

use crate::decide::Decide;
use crate::gateway::OUTCOME;
use crate::json::{JsonObject, to_raw};
use crate::logic::Supervisor;
use crate::logic::types::execution::Code;
use crate::words::{ErrorText, NamedCase};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cli::error::CliError;

/// A gateway's answer to a call.
pub(super) struct GatewayResult {
    /// How the call ended.
    pub code: Code,
    /// The text of the answer or of the error.
    pub text: String,
    content: Vec<Box<RawValue>>,
    structured: Option<Box<RawValue>>,
    /// The gateway's report on the call, from the `_meta` of the result.
    outcome: JsonObject,
}

impl GatewayResult {
    /// Reads the result; the component extracts its text.
    pub(super) fn read(json: &str, logic: &mut Supervisor) -> Result<Self, CliError> {
        let extracted = logic.extract(&json.to_owned())?;
        let extracted =
            extracted.map_err(|why| CliError::ServerError(format!("the gateway's answer: {}", why.error_text())))?;
        let meta = JsonObject::read(json).and_then(|result| JsonObject::read(result.get("_meta")?.get()));
        let outcome = meta.and_then(|meta| JsonObject::read(meta.get(OUTCOME)?.get())).unwrap_or_default();
        let text_of = |name: &str| member::<String>(&outcome, name);
        let code = text_of("code").and_then(|code| Code::parse(&code).ok());
        let code = code.unwrap_or(if extracted.is_error { Code::ToolError } else { Code::Ok });
        // If the server answered, its text is in the result; otherwise the gateway's report has the text.
        let text = match code {
            Code::Ok | Code::ToolError => extracted.text,
            _ => text_of("text").unwrap_or(extracted.text),
        };
        let part = |json: String| RawValue::from_string(json).ok();
        // Other results carry content only for clients that expect some; it is not the server's.
        let is_answer = matches!(code, Code::Ok | Code::ToolError);
        let content = extracted.blocks.into_iter().filter(|_| is_answer).filter_map(part).collect();
        Ok(GatewayResult { code, text, content, structured: extracted.structured.and_then(part), outcome })
    }

    /// Cuts the text to this many bytes.
    pub(super) fn cut(&mut self, logic: &mut Supervisor, most: u64) -> Result<(), CliError> {
        let cut = logic.truncate(&self.text, most, "the answer is larger than the limit")?;
        if cut != self.text {
            self.text = cut;
            self.outcome.set("truncated", &true);
        }
        Ok(())
    }

    /// Returns the last lines that the server's process wrote to its standard error before it exited.
    pub(super) fn stderr(&self) -> Option<String> {
        member(&self.outcome, "stderr")
    }

    /// Returns the additional data of the server's error.
    pub(super) fn error_data(&self) -> Option<Box<RawValue>> {
        member::<JsonObject>(&self.outcome, "error")?.remove("data")
    }

    /// Returns the JSON that `call --json` prints without a gateway.
    pub(super) fn to_json(&self) -> JsonObject {
        let null = to_raw(&());
        let or_null = |name: &str| self.outcome.get(name).unwrap_or(&null);
        let mut out = JsonObject::default();
        for name in ["call_id", "name", "server", "tool"] {
            out.set(name, or_null(name));
        }
        out.set("text", &self.text);
        out.set("content", &self.content);
        out.set("structured", &self.structured);
        if let Some(more) = self.outcome.get("more") {
            out.set("more", more);
        }
        out.set("is_error", &(self.code != Code::Ok));
        out.set("code", self.code.name());
        for name in ["attempts", "truncated", "latency_ms"] {
            out.set(name, or_null(name));
        }
        for name in ["error", "stderr"] {
            if let Some(value) = self.outcome.get(name) {
                out.set(name, value);
            }
        }
        out.set("trace", or_null("trace"));
        out
    }
}

fn member<T: for<'a> Deserialize<'a>>(object: &JsonObject, name: &str) -> Option<T> {
    serde_json::from_str(object.get(name)?.get()).ok()
}
