//! Finds the era of a request, and formats results for it.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{self, DemoError, DemoParams};

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
#[derive(Clone, Copy)]
pub(super) enum CacheHint {
    /// The result never changes and is the same for everyone.
    Public,
    /// The result belongs to this request alone.
    Never,
}

impl DemoEra {
    /// Returns the era of a request, if the request carries what that era requires.
    pub(super) fn of(method: &str, params: &DemoParams, shaken: bool) -> Result<DemoEra, DemoError> {
        let stateless = params.meta.contains_key(VERSION_KEY) || method == "server/discover";
        if !stateless && (shaken || method == "ping") {
            return Ok(DemoEra::Handshake);
        }
        let version = required::<String>(params, VERSION_KEY)?;
        if version != STATELESS {
            let message = format!("unsupported protocol version: {version}");
            return Err(DemoError::with_data(-32022, message, json!({"supported": supported(), "requested": version})));
        }
        required::<serde_json::Map<String, Value>>(params, CAPABILITIES_KEY)?;
        Ok(DemoEra::Stateless)
    }

    /// Adds the fields that this era requires to a result.
    pub(super) fn wrap_result(self, body: impl Serialize, keep: CacheHint) -> Box<RawValue> {
        #[derive(Serialize)]
        struct EraResult<T> {
            #[serde(flatten)]
            body: T,
            #[serde(flatten)]
            meta: Option<ResultMeta>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ResultMeta {
            result_type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            ttl_ms: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_scope: Option<&'static str>,
            #[serde(rename = "_meta")]
            meta: Value,
        }
        let clothes = (self == DemoEra::Stateless).then(|| {
            let (ttl_ms, cache_scope) = match keep {
                CacheHint::Public => (Some(AN_HOUR_MS), Some("public")),
                CacheHint::Never => (None, None),
            };
            let meta = json!({"io.modelcontextprotocol/serverInfo": server_info()});
            ResultMeta { result_type: "complete", ttl_ms, cache_scope, meta }
        });
        message::json(&EraResult { body, meta: clothes })
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

fn required<T: serde::de::DeserializeOwned>(params: &DemoParams, key: &str) -> Result<T, DemoError> {
    let found = params.meta.get(key).and_then(|value| serde_json::from_str(value.get()).ok());
    found.ok_or_else(|| {
        DemoError::invalid_params(format!(
            "_meta: {key:?} is missing or malformed; without it, a client begins with initialize"
        ))
    })
}

const AN_HOUR_MS: u32 = 3_600_000;
