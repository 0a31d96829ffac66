//! The MCP methods of the gateway, other than `tools/call`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tracing::warn;

use super::cancellation::cancellable;
use super::era::{CacheControl, finish_cacheable};
use super::request_context::{RequestContext, client_name, level_of};
use super::{ClientSession, choosing, notifications, prompts, resources, tool_list};
use crate::failure::RpcError;
use crate::gate::GateError;
use crate::gateway::session_terms::CapabilityFlags;
use crate::json::JsonObject;
use crate::lock::lock;
use crate::rpc::code::{INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::session::{Era, LEGACY_VERSIONS, MODERN_VERSION};

/// Handles any request but `tools/call`, and returns its result as text.
pub(super) async fn answer(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let method = context.request.method();
    match (method, context.era) {
        ("tools/list", _) => tool_list::tools(context).await,
        ("resources/list", _) => resources::list(context).await,
        ("resources/templates/list", _) => resources::templates(context).await,
        ("resources/read", _) => cancellable(context, resources::read(context)).await,
        ("prompts/list", _) => prompts::list(context).await,
        ("prompts/get", _) => cancellable(context, prompts::get(context)).await,
        ("completion/complete", _) => cancellable(context, prompts::complete(context)).await,
        ("subscriptions/listen", Era::Modern) => notifications::listen(context).await,
        ("resources/subscribe", Era::Legacy) => notifications::subscribe(context).await,
        ("resources/unsubscribe", Era::Legacy) => notifications::unsubscribe(context).await,
        ("server/discover", Era::Modern) => discover(context).await,
        ("initialize", Era::Legacy) => initialize(context).await,
        ("ping", Era::Legacy) => Ok("{}".to_owned()),
        ("logging/setLevel", Era::Legacy) => set_level(context).await,
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

async fn discover(context: &RequestContext<'_>) -> Result<String, RpcError> {
    choosing::apply(context)?;
    let client = context.client;
    let versions: Vec<_> = std::iter::once(MODERN_VERSION).chain(LEGACY_VERSIONS).collect();
    let meta = json!({"io.modelcontextprotocol/serverInfo": server_info()});
    let result = json!({"supportedVersions": versions, "capabilities": capabilities(), "_meta": meta});
    let result = with_instructions(client, result).await;
    Ok(finish_cacheable(Era::Modern, result.to_string(), CacheControl::of_parts([]).for_client(client)))
}

async fn initialize(context: &RequestContext<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
        #[serde(default)]
        capabilities: Option<Box<RawValue>>,
        #[serde(default)]
        client_info: Option<Box<RawValue>>,
    }
    let Params { protocol_version, capabilities: theirs, client_info } = context.params()?;
    let known = LEGACY_VERSIONS.into_iter().find(|version| *version == protocol_version);
    let version = known.unwrap_or(LEGACY_VERSIONS[0]);
    // Another replica knows them by the session's id, which has room for flags alone.
    let theirs = theirs.and_then(|theirs| JsonObject::read(theirs.get())).unwrap_or_default();
    let theirs = Some(CapabilityFlags::read(&theirs).to_json().into());
    choosing::apply(context)?;
    {
        let mut negotiated = lock(&context.client.negotiated);
        (negotiated.version, negotiated.capabilities) = (Some(version), theirs);
        negotiated.client_name = client_info.and_then(|info| client_name(&info));
    }
    let result = json!({"protocolVersion": version, "capabilities": capabilities(), "serverInfo": server_info()});
    Ok(with_instructions(context.client, result).await.to_string())
}

/// Adds the servers' instructions to a result, if there are any. Clients ask for them only once, so this waits a little
/// for servers that nobody has used yet.
async fn with_instructions(client: &ClientSession, mut result: serde_json::Value) -> serde_json::Value {
    client.gate.meet_servers(MEET).await;
    if let Some(text) = instructions(client) {
        result["instructions"] = text.into();
    }
    result
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
async fn set_level(context: &RequestContext<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        level: Box<RawValue>,
    }
    let (client, Params { level }) = (context.client, context.params()?);
    let level = level_of(level.get()).map_err(|text| RpcError::new(INVALID_PARAMS, text))?;
    client.load_changes().await;
    lock(&client.negotiated).log_level = Some(level);
    client.share_changes().await;
    client.gateway.registry.want_logs(client.gate.number(), Some(level)).await;
    Ok("{}".to_owned())
}

/// How long a client's first request waits for servers that nobody has used yet.
const MEET: Duration = Duration::from_secs(3);
