//! Which era a request is of, and how results look in it.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{self, DemoError, DemoParams};

/// The versions with a handshake, newest first.
pub(super) const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", WITH_BATCHES, "2024-11-05"];
/// The only version that has batches.
pub(super) const WITH_BATCHES: &str = "2025-03-26";
/// The version without a handshake.
const STATELESS: &str = "2026-07-28";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// How a request wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DemoEra {
    /// As the handshake said, or before it.
    Handshake,
    /// By what the request itself carries.
    Stateless,
}

/// Whether a client may keep a result.
#[derive(Clone, Copy)]
pub(super) enum CacheHint {
    /// It is the same for everyone, for ever.
    Public,
    /// It belongs to this request alone.
    Never,
}

impl DemoEra {
    /// The era of a request, if it carries what that era asks for.
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

    /// The result in the clothes of this era.
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

/// All versions, newest first.
pub(super) fn supported() -> Vec<&'static str> {
    [STATELESS].into_iter().chain(HANDSHAKE).collect()
}

/// What the server says it is.
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
