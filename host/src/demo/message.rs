//! JSON-RPC as the demo server reads and writes it.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A request, a notification or an answer.
#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) id: Option<Box<RawValue>>,
    pub(super) method: Option<String>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) result: Option<IgnoredAny>,
    pub(super) error: Option<IgnoredAny>,
}

/// The parameters of all methods together. Numbers stay text, so that they keep every digit.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Params {
    #[serde(rename = "_meta")]
    pub(super) meta: BTreeMap<String, Box<RawValue>>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<BTreeMap<String, Box<RawValue>>>,
    pub(super) uri: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) protocol_version: Option<String>,
    pub(super) request_id: Option<Box<RawValue>>,
}

impl Params {
    pub(super) fn read(params: Option<&RawValue>) -> Result<Params, Refusal> {
        let Some(params) = params else { return Ok(Params::default()) };
        serde_json::from_str(params.get()).map_err(|error| Refusal::params(format!("invalid params: {error}")))
    }
}

/// A JSON-RPC error.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl Refusal {
    pub(super) fn parse(message: String) -> Refusal {
        Refusal { code: -32700, message, data: None }
    }

    pub(super) fn request(message: String) -> Refusal {
        Refusal { code: -32600, message, data: None }
    }

    pub(super) fn method(method: &str) -> Refusal {
        Refusal { code: -32601, message: format!("method not found: {method}"), data: None }
    }

    pub(super) fn params(message: String) -> Refusal {
        Refusal { code: -32602, message, data: None }
    }

    /// An error of MCP itself, whose data says more.
    pub(super) fn with_data(code: i32, message: String, data: Value) -> Refusal {
        Refusal { code, message, data: Some(data) }
    }
}

/// A result as it goes out.
pub(super) type Answer = Result<Box<RawValue>, Refusal>;

/// The line that answers the request with this id; an id that could not be read is null.
pub(super) fn reply(id: Option<&RawValue>, answer: &Answer) -> String {
    #[derive(Serialize)]
    struct Reply<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Refusal>,
    }
    let result = answer.as_deref().ok();
    json(&Reply { jsonrpc: "2.0", id, result, error: answer.as_ref().err() }).get().to_owned()
}

/// Any shape of ours as JSON text on one line.
pub(super) fn json(shape: &impl Serialize) -> Box<RawValue> {
    to_raw_value(shape).expect("shapes have string keys and finite numbers only, so they are always JSON")
}
