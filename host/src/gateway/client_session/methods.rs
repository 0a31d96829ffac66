//! The MCP methods of the gateway, other than `tools/call`.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tracing::warn;

use super::era::{CacheControl, Era, RequestContext, askable_capabilities, level_of};
use super::{ClientSession, Envelope, notifications, params_of, prompts, resources, tool_list};
use crate::failure::RpcError;
use crate::gate::GateError;
use crate::gateway::bounds;
use crate::rpc::Request;
use crate::rpc::code::{INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::session::{LEGACY_VERSIONS, MODERN_VERSION};

/// Handles any request but `tools/call`, and returns its result as text.
pub(super) async fn answer(
    client: &ClientSession,
    context: &RequestContext,
    request: &Request,
    envelope: &Envelope,
) -> Result<String, RpcError> {
    let (id, method, params) = (request.id(), request.method(), request.params());
    match (method, context.era) {
        ("tools/list", _) => tool_list::tools(client, context, params).await,
        ("resources/list", _) => resources::list(client, context, params).await,
        ("resources/templates/list", _) => resources::templates(client, context, params).await,
        ("resources/read", _) => client.cancellable(id, resources::read(client, context, params, envelope)).await,
        ("prompts/list", _) => prompts::list(client, context, params).await,
        ("prompts/get", _) => client.cancellable(id, prompts::get(client, context, params, envelope)).await,
        ("completion/complete", _) => {
            client.cancellable(id, prompts::complete(client, context, params, envelope)).await
        }
        ("subscriptions/listen", Era::Modern) => notifications::listen(client, context, id, params, envelope).await,
        ("resources/subscribe", Era::Legacy) => notifications::subscribe(client, params, true).await,
        ("resources/unsubscribe", Era::Legacy) => notifications::subscribe(client, params, false).await,
        ("server/discover", Era::Modern) => Ok(discover(client, context)),
        ("initialize", Era::Legacy) => initialize(client, params),
        ("ping", Era::Legacy) => Ok("{}".to_owned()),
        ("logging/setLevel", Era::Legacy) => set_level(client, params).await,
        _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("the gateway has no method {method:?}"))),
    }
}

/// Returns the gateway's capabilities, which do not depend on the servers behind it.
fn capabilities() -> serde_json::Value {
    let listed = json!({"listChanged": true});
    let resources = json!({"listChanged": true, "subscribe": true});
    json!({"tools": listed, "resources": resources, "prompts": listed, "completions": {}, "logging": {}})
}

fn server_info() -> serde_json::Value {
    json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")})
}

fn discover(client: &ClientSession, context: &RequestContext) -> String {
    let versions: Vec<_> = std::iter::once(MODERN_VERSION).chain(LEGACY_VERSIONS).collect();
    let mut result = json!({
        "supportedVersions": versions,
        "capabilities": capabilities(),
        "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
    });
    if let Some(text) = instructions(client) {
        result["instructions"] = text.into();
    }
    context.finish_cacheable(result.to_string(), CacheControl::of_parts([]).for_client(client))
}

fn initialize(client: &ClientSession, params: &str) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
        #[serde(default)]
        capabilities: Option<Box<RawValue>>,
    }
    let Params { protocol_version, capabilities: theirs } = params_of("initialize", params)?;
    let known = LEGACY_VERSIONS.into_iter().find(|version| *version == protocol_version);
    let version = known.unwrap_or(LEGACY_VERSIONS[0]);
    let theirs = theirs.map(|theirs| askable_capabilities(theirs.get()));
    bounds::check_capabilities(theirs.as_deref().unwrap_or_default())?;
    {
        let mut session = client.session();
        session.version = Some(version);
        session.capabilities = theirs;
    }
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server_info(),
    });
    if let Some(text) = instructions(client) {
        result["instructions"] = text.into();
    }
    Ok(result.to_string())
}

/// Returns the servers' instructions that are already known. An exposed server's instructions are passed on as they
/// are.
fn instructions(client: &ClientSession) -> Option<String> {
    let known = match client.exposed() {
        Some(server) => {
            let link = client.gate.admitted_links().into_iter().find(|link| link.id() == server)?;
            client.gate.instructions_of(&link).map_err(GateError::Logic)
        }
        None => client.gate.known_instructions(&client.style()).map(Some),
    };
    let known = known.unwrap_or_else(|error| {
        warn!("no instructions for the client: {error}");
        None
    });
    known.filter(|text| !text.trim().is_empty())
}

/// Sets the client's log level. Servers are set to the lowest level that any client wants.
async fn set_level(client: &ClientSession, params: &str) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        level: Box<RawValue>,
    }
    let Params { level } = params_of("logging/setLevel", params)?;
    let level = level_of(level.get()).map_err(|text| RpcError::new(INVALID_PARAMS, text))?;
    client.session().log_level = Some(level);
    client.gateway.registry.want_logs(client.gate.number(), Some(level)).await;
    Ok("{}".to_owned())
}
