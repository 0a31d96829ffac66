//! The messages of the demo server, and what each protocol era asks of them.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::failure::RpcError;
use crate::json::{JsonObject, to_raw};
use crate::rpc::code::{INVALID_PARAMS, UNSUPPORTED_VERSION};

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

/// The versions with a handshake, newest first.
pub(super) const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", WITH_BATCHES, "2024-11-05"];
/// The only version with batches.
pub(super) const WITH_BATCHES: &str = "2025-03-26";
/// The version without a handshake.
const STATELESS: &str = "2026-07-28";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The era of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DemoEra {
    /// The request belongs to a handshake, or comes before it.
    Handshake,
    /// The request carries its own protocol version.
    Stateless,
}

/// Whether a client may cache a result.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum CacheHint {
    /// The result never changes and is the same for everyone.
    Public,
    /// The result belongs to this request alone.
    Never,
}

impl DemoEra {
    /// Returns the era of a request, if the request carries what that era requires.
    pub(super) fn of(method: &str, params: &DemoParams, shaken: bool) -> Result<DemoEra, RpcError> {
        let stateless = params.meta.get(VERSION_KEY).is_some() || method == "server/discover";
        if !stateless && (shaken || method == "ping") {
            return Ok(DemoEra::Handshake);
        }
        let version = required::<String>(params, VERSION_KEY)?;
        if version != STATELESS {
            let message = format!("unsupported protocol version: {version}");
            let data = to_raw(&json!({"supported": supported(), "requested": version}));
            return Err(RpcError { data: Some(data), ..RpcError::new(UNSUPPORTED_VERSION, message) });
        }
        required::<JsonObject>(params, CAPABILITIES_KEY)?;
        Ok(DemoEra::Stateless)
    }

    /// Formats a result with the members that this era requires.
    pub(super) fn format_result(self, result: &impl Serialize, cache: CacheHint) -> String {
        let mut result = JsonObject::read(to_raw(result).get()).expect("every result is an object");
        if self == DemoEra::Stateless {
            result.set("resultType", "complete");
            if cache == CacheHint::Public {
                result.set("ttlMs", &AN_HOUR_MS);
                result.set("cacheScope", "public");
            }
            result.set("_meta", &json!({"io.modelcontextprotocol/serverInfo": server_info()}));
        }
        result.to_text()
    }
}

/// Returns all supported versions, newest first.
pub(super) fn supported() -> Vec<&'static str> {
    [STATELESS].into_iter().chain(HANDSHAKE).collect()
}

/// Returns the server's name and version.
pub(super) fn server_info() -> Value {
    json!({"name": "toolgate-demo", "version": env!("CARGO_PKG_VERSION")})
}

fn required<T: DeserializeOwned>(params: &DemoParams, key: &str) -> Result<T, RpcError> {
    let found = params.meta.get(key).and_then(|value| serde_json::from_str(value.get()).ok());
    found.ok_or_else(|| {
        invalid_params(format!("_meta: {key:?} is missing or malformed; without it, a client begins with initialize"))
    })
}

const AN_HOUR_MS: u32 = 3_600_000;
