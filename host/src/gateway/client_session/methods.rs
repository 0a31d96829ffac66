//! The methods that the gateway has.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tracing::warn;

use super::era::{CacheControl, Era, RequestContext, askable_capabilities, level_of};
use super::{ClientSession, INVALID_PARAMS, notifications, params_of, prompts, resources, tool_list};
use crate::failure::RpcError;
use crate::gate::GateError;
use crate::gateway::bounds;
use crate::gateway::client::ClientMessage;
use crate::session::{LEGACY_VERSIONS, METHOD_NOT_FOUND, MODERN_VERSION};

/// Answers a request, other than a call, with the text of its result.
pub(super) async fn answer(
    front: &ClientSession,
    context: &RequestContext,
    id: &RawValue,
    method: &str,
    params: &str,
    incoming: &ClientMessage,
) -> Result<String, RpcError> {
    match (method, context.era) {
        ("tools/list", _) => tool_list::tools(front, context, params).await,
        ("resources/list", _) => resources::list(front, context, params).await,
        ("resources/templates/list", _) => resources::templates(front, context, params).await,
        ("resources/read", _) => front.cancellable(id, resources::read(front, context, params, incoming)).await,
        ("prompts/list", _) => prompts::list(front, context, params).await,
        ("prompts/get", _) => front.cancellable(id, prompts::get(front, context, params, incoming)).await,
        ("completion/complete", _) => front.cancellable(id, prompts::complete(front, context, params, incoming)).await,
        ("subscriptions/listen", Era::Modern) => notifications::listen(front, context, id, params, incoming).await,
        ("resources/subscribe", Era::Legacy) => notifications::subscribe(front, params, true).await,
        ("resources/unsubscribe", Era::Legacy) => notifications::subscribe(front, params, false).await,
        ("server/discover", Era::Modern) => Ok(discover(front, context)),
        ("initialize", Era::Legacy) => initialize(front, params),
        ("ping", Era::Legacy) => Ok("{}".to_owned()),
        ("logging/setLevel", Era::Legacy) => set_level(front, params).await,
        _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("the gateway has no method {method:?}"))),
    }
}

/// What the gateway can do, whatever the servers behind it can.
fn capabilities() -> serde_json::Value {
    let listed = json!({"listChanged": true});
    let resources = json!({"listChanged": true, "subscribe": true});
    json!({"tools": listed, "resources": resources, "prompts": listed, "completions": {}, "logging": {}})
}

fn server_info() -> serde_json::Value {
    json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")})
}

fn discover(front: &ClientSession, context: &RequestContext) -> String {
    let versions: Vec<_> = std::iter::once(MODERN_VERSION).chain(LEGACY_VERSIONS).collect();
    let mut result = json!({
        "supportedVersions": versions,
        "capabilities": capabilities(),
        "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
    });
    if let Some(text) = instructions(front) {
        result["instructions"] = text.into();
    }
    context.finish_cacheable(result.to_string(), CacheControl::of_parts([]).for_client(front))
}

fn initialize(front: &ClientSession, params: &str) -> Result<String, RpcError> {
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
        let mut session = front.session();
        session.version = Some(version);
        session.capabilities = theirs;
    }
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server_info(),
    });
    if let Some(text) = instructions(front) {
        result["instructions"] = text.into();
    }
    Ok(result.to_string())
}

/// What servers want a model to know, as far as it is known without waiting for any; one that is exposed says it in its own
/// words.
fn instructions(front: &ClientSession) -> Option<String> {
    let known = match front.exposed() {
        Some(server) => {
            let link = front.gate.admitted_links().into_iter().find(|link| link.id() == server)?;
            front.gate.instructions_of(&link).map_err(GateError::Logic)
        }
        None => front.gate.known_instructions(&front.style()).map(Some),
    };
    let known = known.unwrap_or_else(|error| {
        warn!("no instructions for the client: {error}");
        None
    });
    known.filter(|text| !text.trim().is_empty())
}

/// Servers are told the least grave level that any client wants; a client is told no more than it wants itself.
async fn set_level(front: &ClientSession, params: &str) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        level: Box<RawValue>,
    }
    let Params { level } = params_of("logging/setLevel", params)?;
    let level = level_of(level.get()).map_err(|text| RpcError::new(INVALID_PARAMS, text))?;
    front.session().log_level = Some(level);
    front.gateway.registry.want_logs(front.gate.number(), Some(level)).await;
    Ok("{}".to_owned())
}
