//! The demo server's answers to everything but `tools/call`.

use serde_json::{Value, json};

use super::era::{CacheHint, DemoEra, DemoParams, HANDSHAKE, invalid_params, server_info, supported};
use super::tools;
use crate::failure::RpcError;
use crate::json::{string_value, to_raw};
use crate::rpc::code::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};

/// Answers a request.
pub(super) fn answer(method: &str, params: &DemoParams, era: DemoEra) -> Result<String, RpcError> {
    let public = |result: Value| Ok(era.format_result(&result, CacheHint::Public));
    let list = |result: Value| match &params.cursor {
        Some(cursor) => Err(invalid_params(format!("unknown cursor {cursor:?}: each list has one page"))),
        None => public(result),
    };
    match (method, era) {
        ("ping", DemoEra::Handshake) => Ok(era.format_result(&json!({}), CacheHint::Never)),
        ("server/discover", DemoEra::Stateless) => public(description("supportedVersions", json!(supported()))),
        ("tools/list", _) => list(json!({"tools": tools::list()})),
        ("resources/list", _) => list(json!({"resources": [{
            "uri": README_URI,
            "name": "readme",
            "description": "What the demo server offers.",
            "mimeType": "text/markdown",
        }]})),
        ("resources/templates/list", _) => list(json!({"resourceTemplates": [{
            "uriTemplate": format!("{SQUARE_URI}{{number}}"),
            "name": "square",
            "description": "The square of a whole number.",
            "mimeType": "text/plain",
        }]})),
        ("resources/read", _) => public(json!({"contents": [read(params, era)?]})),
        ("prompts/list", _) => list(json!({"prompts": [{
            "name": "greet",
            "description": "Asks for a greeting.",
            "arguments": [{"name": "name", "description": "Who is greeted", "required": true}],
        }]})),
        ("prompts/get", _) => Ok(era.format_result(&greeting(params)?, CacheHint::Never)),
        _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("method not found: {method}"))),
    }
}

/// Agrees on a version, and returns it with the answer to `initialize`.
pub(super) fn initialize(params: &DemoParams) -> Result<(&'static str, String), RpcError> {
    let asked = params.protocol_version.as_deref();
    let asked = asked.ok_or_else(|| invalid_params("initialize needs a protocolVersion"))?;
    let version = HANDSHAKE.into_iter().find(|version| *version == asked).unwrap_or(HANDSHAKE[0]);
    let mut result = description("protocolVersion", json!(version));
    result["serverInfo"] = server_info();
    Ok((version, DemoEra::Handshake.format_result(&result, CacheHint::Never)))
}

/// Describes the server, with its versions in this member.
fn description(versions_key: &str, versions: Value) -> Value {
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}});
    json!({versions_key: versions, "capabilities": capabilities, "instructions": INSTRUCTIONS})
}

fn read(params: &DemoParams, era: DemoEra) -> Result<Value, RpcError> {
    let uri = params.uri.as_deref().ok_or_else(|| invalid_params("resources/read needs a uri"))?;
    if uri == README_URI {
        return Ok(json!({"uri": uri, "mimeType": "text/markdown", "text": include_str!("readme.md")}));
    }
    let number = uri.strip_prefix(SQUARE_URI).and_then(|number| number.parse::<i64>().ok());
    let Some(number) = number.map(i128::from) else {
        // 2026-07-28 has no error code of its own for this.
        let code = if era == DemoEra::Stateless { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
        let data = Some(to_raw(&json!({"uri": uri})));
        return Err(RpcError { data, ..RpcError::new(code, format!("no such resource: {uri}")) });
    };
    Ok(json!({"uri": uri, "mimeType": "text/plain", "text": (number * number).to_string()}))
}

fn greeting(params: &DemoParams) -> Result<Value, RpcError> {
    match params.name.as_deref() {
        Some("greet") => {}
        Some(other) => return Err(invalid_params(format!("no such prompt: {other:?}; there is \"greet\""))),
        None => return Err(invalid_params("prompts/get needs a name")),
    }
    let name = params.arguments.as_ref().and_then(|arguments| string_value(arguments.get("name")?));
    let name = name.ok_or_else(|| invalid_params("prompt \"greet\": the argument \"name\" is missing or no string"))?;
    let content = json!({"type": "text", "text": format!("Greet {name} in one friendly sentence.")});
    Ok(json!({"description": "Asks for a greeting.", "messages": [{"role": "user", "content": content}]}))
}

/// The server's instructions for a model.
const INSTRUCTIONS: &str = "A server for trying things. Nothing it does has an effect, and its weather is invented: \
                            the same for the same city, whatever the day.";
const README_URI: &str = "demo://readme";
const SQUARE_URI: &str = "demo://square/";
