//! A finished call as JSON for programs.

use serde::Serialize;
use serde_json::value::RawValue;

use super::CallOutcome;
use crate::calendar::millis;
use crate::failure::{Failure, RequestError, RpcError};
use crate::json::JsonObject;
use crate::logic::types::execution::Code;
use crate::words::NamedCase;

/// A finished call, as `call --json` and the gateway's API show it.
#[derive(Serialize)]
pub struct CallJson<'a> {
    call_id: &'a str,
    name: &'a str,
    server: Option<&'a str>,
    tool: Option<&'a str>,
    text: &'a str,
    content: Vec<Box<RawValue>>,
    structured: Option<Box<RawValue>>,
    /// Other members of the server's result, such as `_meta`.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    more: JsonObject,
    is_error: bool,
    code: &'static str,
    attempts: u32,
    truncated: bool,
    latency_ms: f64,
    /// The whole error from the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CallJsonError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<&'a str>,
    trace: &'a [String],
}

#[derive(Serialize)]
struct CallJsonError<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

impl CallOutcome {
    /// Returns the JSON-RPC error that the call ended with.
    pub fn rpc_error(&self) -> Option<&RpcError> {
        match &self.failure.as_ref()?.failure {
            Failure::Rpc(error) if self.result.code == Code::RpcError => Some(error),
            _ => None,
        }
    }

    /// Returns the call as JSON; the caller must redact secrets.
    pub fn as_json(&self) -> CallJson<'_> {
        let result = &self.result;
        let raw = |json: &str| RawValue::from_string(json.to_owned()).ok();
        CallJson {
            call_id: &result.call_id,
            name: &result.name,
            server: result.tool.as_ref().map(|tool| tool.server.as_str()),
            tool: result.tool.as_ref().map(|tool| tool.tool.as_str()),
            text: &result.text,
            content: self.content().into_iter().filter_map(raw).collect(),
            structured: self.structured().and_then(raw),
            more: self.more(),
            is_error: result.is_error,
            code: result.code.name(),
            attempts: result.attempts,
            truncated: result.truncated,
            latency_ms: millis(self.latency),
            error: self.rpc_error().map(|error| {
                let RpcError { code, message, data } = error;
                CallJsonError { code: *code, message, data: data.as_deref() }
            }),
            stderr: self.failure.as_ref().map(RequestError::stderr_tail).filter(|words| !words.is_empty()),
            trace: &result.trace,
        }
    }
}
