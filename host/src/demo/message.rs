//! What the demo server reads: JSON-RPC messages and the parameters of their methods.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::failure::RpcError;
use crate::json::JsonObject;
use crate::rpc::code::INVALID_PARAMS;

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
    pub(super) meta: JsonObject,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<JsonObject>,
    pub(super) uri: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) protocol_version: Option<String>,
    pub(super) request_id: Option<Box<RawValue>>,
}

impl DemoParams {
    pub(super) fn read(params: Option<&RawValue>) -> Result<DemoParams, RpcError> {
        let Some(params) = params else { return Ok(DemoParams::default()) };
        serde_json::from_str(params.get()).map_err(|error| invalid_params(format!("invalid params: {error}")))
    }
}

/// Returns the error for parameters that a method cannot use.
pub(super) fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS, message)
}
