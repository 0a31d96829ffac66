//! The prompts of all servers, under names that contain the server.

use serde::Deserialize;
use serde_json::json;

use super::ClientSession;
use super::era::finish_result;
use super::request_context::RequestContext;
use super::server_request::query_server;
use super::sources::{self, LeasedServer, ServerListing, gather, gather_from, merged_page, text_member};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::json::{JsonObject, Object, to_raw};
use crate::logic::types::execution::Code;
use crate::logic::types::naming::NamingStyle;
use crate::rpc::code::INVALID_PARAMS;
use crate::session::ListKind;
use crate::words::NamedCase;

/// Handles `prompts/list`.
pub(super) async fn list(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let mut listing = gather(context.client, ListKind::Prompts).await;
    for ServerListing { link, items } in &mut listing.servers {
        let prefix = prefix(context.client, link.id());
        // A prompt without a name cannot be used.
        items.retain_mut(|item| {
            let name = text_member(item, "name").map(|name| format!("{prefix}{name}"));
            name.inspect(|name| item.set("name", name)).is_some()
        });
    }
    merged_page(context, listing, "prompts", "name")
}

/// Handles `prompts/get`.
pub(super) async fn get(context: &RequestContext<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Option<JsonObject>,
    }
    let Params { name, arguments } = context.params()?;
    let (owner, own) = find_owner(context.client, &name).await?;
    let mut params = JsonObject::default();
    params.set("name", &own);
    if let Some(arguments) = arguments {
        params.set("arguments", &arguments);
    }
    let result = query_server(context, &owner, "prompts/get", &params).await?;
    context.client.sent.links.learn(owner.link.id(), &result);
    Ok(finish_result(context.era, result))
}

/// Handles `completion/complete`, for an argument of a prompt or resource template.
pub(super) async fn complete(context: &RequestContext<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        r#ref: Object<Reference>,
        argument: JsonObject,
        #[serde(default)]
        context: Option<JsonObject>,
    }
    #[derive(Deserialize)]
    struct Reference {
        r#type: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        uri: String,
    }
    let Params { r#ref: Object(Reference { r#type: kind, name, uri }), argument, context: known } = context.params()?;
    let mut own = JsonObject::default();
    own.set("type", &kind);
    let owner = if kind == "ref/prompt" {
        let (owner, name) = find_owner(context.client, &name).await?;
        own.set("name", &name);
        owner
    } else {
        bounds::check_uri(&uri)?;
        own.set("uri", &uri);
        let owner = match sources::find_template_owner(context.client, &uri).await? {
            Some(owner) => Some(owner),
            None => sources::find_owner(context.client, &uri).await?,
        };
        owner.ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("no server has the template {uri:?}")))?
    };
    let mut params = JsonObject::default();
    params.set("ref", &own);
    params.set("argument", &argument);
    if let Some(known) = known {
        params.set("context", &known);
    }
    let result = query_server(context, &owner, "completion/complete", &params).await?;
    Ok(finish_result(context.era, result))
}

/// Returns the server of a prompt and the prompt's own name. Servers are asked only if the name fits several of them.
async fn find_owner(client: &ClientSession, name: &str) -> Result<(LeasedServer, String), RpcError> {
    bounds::check_prompt_name(name)?;
    let missing = || RpcError::new(INVALID_PARAMS, format!("no prompt {name:?}"));
    let own = |server: &str| name.strip_prefix(&prefix(client, server)).filter(|own| !own.is_empty());
    let mut named = client.gate.links();
    named.retain(|link| own(link.id()).is_some() && client.gate.selects(link.id()));
    let of_single_tools = named.first().map(|link| link.id().to_owned());
    named.retain(|link| client.gate.admits(link.id()));
    if let Some(server) = of_single_tools.filter(|_| named.is_empty()) {
        return Err(not_allowed(name, &server));
    }
    if named.len() > 1 {
        let mut listed = gather_from(client, named, ListKind::Prompts).await.servers;
        listed.retain(|listed| {
            let own = own(listed.link.id());
            listed.items.iter().any(|item| text_member(item, "name").as_deref() == own)
        });
        named = listed.into_iter().map(|listed| listed.link).collect();
    }
    let link = named.first().ok_or_else(missing)?;
    let owner = sources::lease(client, link).await?;
    let own = own(link.id()).filter(|_| owner.lease.session().peer().features.prompts).ok_or_else(missing)?.to_owned();
    Ok((owner, own))
}

/// Returns the error for a prompt of a server of which the client may use only single tools, whether it exists or not.
fn not_allowed(name: &str, server: &str) -> RpcError {
    let text = format!(
        "prompt {name:?} is not allowed: prompts belong to the whole server, and only single tools of server {server:?} \
         may be used here"
    );
    let data = Some(to_raw(&json!({"code": Code::NotAllowed.name()})));
    RpcError { data, ..RpcError::new(INVALID_PARAMS, text) }
}

/// Returns the prefix of the names of a server's prompts.
fn prefix(client: &ClientSession, server: &str) -> String {
    match client.style() {
        _ if client.exposed().is_some() => String::new(),
        NamingStyle::Dot => format!("{server}."),
        NamingStyle::McpPrefix => format!("mcp__{server}__"),
        NamingStyle::McpUnderscore => format!("mcp_{server}_"),
        NamingStyle::DoubleUnderscore | NamingStyle::Fitted(_) => format!("{server}__"),
    }
}
