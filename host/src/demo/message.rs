//! JSON-RPC messages of the demo server.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A request, a notification or a response.
#[derive(Deserialize)]
pub(super) struct DemoMessage {
    pub(super) id: Option<Box<RawValue>>,
    pub(super) method: Option<String>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) result: Option<IgnoredAny>,
    pub(super) error: Option<IgnoredAny>,
}

/// The parameters of all methods together; numbers stay text, so that they keep every digit.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DemoParams {
    #[serde(rename = "_meta")]
    pub(super) meta: BTreeMap<String, Box<RawValue>>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<BTreeMap<String, Box<RawValue>>>,
    pub(super) uri: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) protocol_version: Option<String>,
    pub(super) request_id: Option<Box<RawValue>>,
}

impl DemoParams {
    pub(super) fn read(params: Option<&RawValue>) -> Result<DemoParams, DemoError> {
        let Some(params) = params else { return Ok(DemoParams::default()) };
        serde_json::from_str(params.get())
            .map_err(|error| DemoError::invalid_params(format!("invalid params: {error}")))
    }
}

/// A JSON-RPC error.
#[derive(Debug, Serialize)]
pub(super) struct DemoError {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl DemoError {
    pub(super) fn parse_error(message: String) -> DemoError {
        DemoError { code: -32700, message, data: None }
    }

    pub(super) fn invalid_request(message: String) -> DemoError {
        DemoError { code: -32600, message, data: None }
    }

    pub(super) fn method_not_found(method: &str) -> DemoError {
        DemoError { code: -32601, message: format!("method not found: {method}"), data: None }
    }

    pub(super) fn invalid_params(message: String) -> DemoError {
        DemoError { code: -32602, message, data: None }
    }

    /// Creates an error with additional data.
    pub(super) fn with_data(code: i32, message: String, data: Value) -> DemoError {
        DemoError { code, message, data: Some(data) }
    }
}

/// A result or an error, ready to be sent.
pub(super) type DemoResult = Result<Box<RawValue>, DemoError>;

/// Returns the line that answers the request with this id; an unreadable id becomes null.
pub(super) fn response_line(id: Option<&RawValue>, answer: &DemoResult) -> String {
    #[derive(Serialize)]
    struct ResponseJson<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a DemoError>,
    }
    let result = answer.as_deref().ok();
    json(&ResponseJson { jsonrpc: "2.0", id, result, error: answer.as_ref().err() }).get().to_owned()
}

/// Serializes a value to JSON text on one line.
pub(super) fn json(shape: &impl Serialize) -> Box<RawValue> {
    to_raw_value(shape).expect("shapes have string keys and finite numbers only, so they are always JSON")
}
