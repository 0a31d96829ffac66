//! The prompts of all servers, under names that contain the server.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Deserialize;

use super::era::RequestContext;
use super::resources::{self, ServerQuery, text_member};
use super::sources::{self, LeasedServer, MergedListing, ServerListing, gather, gather_from};
use super::tool_list::page;
use super::{ClientSession, Envelope, params_of};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::json::{JsonObject, to_raw};
use crate::logic::types::naming::NamingStyle;
use crate::rpc::code::INVALID_PARAMS;
use crate::session::ListKind;

/// Handles `prompts/list`.
pub(super) async fn list(client: &ClientSession, context: &RequestContext, params: &str) -> Result<String, RpcError> {
    let mut items = Vec::new();
    let mut owners: HashMap<String, String> = HashMap::new();
    let MergedListing { servers, cache } = gather(client, ListKind::Prompts).await;
    for ServerListing { link, items: own } in servers {
        for mut item in own {
            let Some(name) = text_member(&item, "name").map(|name| exposed_name(client, link.id(), &name)) else {
                continue;
            };
            match owners.entry(name) {
                Entry::Occupied(owner) => client.gateway.warn_duplicate(link.id(), owner.key(), owner.get()),
                Entry::Vacant(place) => {
                    item.set("name", place.key());
                    items.push(to_raw(&item));
                    place.insert(link.id().to_owned());
                }
            }
        }
    }
    Ok(context.finish_cacheable(page("prompts", &items, params)?, cache))
}

/// Handles `prompts/get`.
pub(super) async fn get(
    client: &ClientSession,
    context: &RequestContext,
    params: &str,
    envelope: &Envelope,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Option<JsonObject>,
    }
    let client_params = params;
    let Params { name, arguments } = params_of("prompts/get", params)?;
    let (owner, own) = find_owner(client, &name).await?;
    let mut params = JsonObject::default();
    params.set("name", &own);
    if let Some(arguments) = arguments {
        params.set("arguments", &arguments);
    }
    let asked = ServerQuery { method: "prompts/get", params: &params.to_text(), client_params };
    let result = resources::query_server(client, context, &owner, asked, envelope).await?;
    client.resource_links.learn(owner.link.id(), &result);
    Ok(context.finish_result(result))
}

/// Handles `completion/complete`, for an argument of a prompt or resource template.
pub(super) async fn complete(
    client: &ClientSession,
    context: &RequestContext,
    params: &str,
    envelope: &Envelope,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        r#ref: Reference,
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
    let client_params = params;
    let Params { r#ref: reference, argument, context: known } = params_of("completion/complete", params)?;
    let mut own = JsonObject::default();
    own.set("type", &reference.r#type);
    let owner = match reference.r#type.as_str() {
        "ref/prompt" => {
            let (owner, name) = find_owner(client, &reference.name).await?;
            own.set("name", &name);
            owner
        }
        _ => {
            bounds::check_uri(&reference.uri)?;
            own.set("uri", &reference.uri);
            let owner = match sources::find_template_owner(client, &reference.uri).await? {
                Some(owner) => Some(owner),
                None => sources::find_owner(client, &reference.uri).await?,
            };
            owner.ok_or_else(|| {
                RpcError::new(INVALID_PARAMS, format!("no server has the template {:?}", reference.uri))
            })?
        }
    };
    let mut params = JsonObject::default();
    params.set("ref", &own);
    params.set("argument", &argument);
    if let Some(known) = known {
        params.set("context", &known);
    }
    let asked = ServerQuery { method: "completion/complete", params: &params.to_text(), client_params };
    let result = resources::query_server(client, context, &owner, asked, envelope).await?;
    Ok(context.finish_result(result))
}

/// Returns the server of a prompt and the prompt's own name. Servers are asked only if the name fits several of them.
async fn find_owner(client: &ClientSession, name: &str) -> Result<(LeasedServer, String), RpcError> {
    bounds::check_prompt_name(name)?;
    let missing = || RpcError::new(INVALID_PARAMS, format!("no prompt {name:?}"));
    let own = |server: &str| name.strip_prefix(&prefix(client, server)).filter(|own| !own.is_empty());
    let mut named = client.gate.admitted_links();
    named.retain(|link| own(link.id()).is_some());
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

/// Returns the name of a prompt that the client sees.
fn exposed_name(client: &ClientSession, server: &str, prompt: &str) -> String {
    format!("{}{prompt}", prefix(client, server))
}

/// Returns the prefix of the names of a server's prompts.
fn prefix(client: &ClientSession, server: &str) -> String {
    match client.style() {
        _ if client.exposed().is_some() => String::new(),
        NamingStyle::Dot => format!("{server}."),
        NamingStyle::McpPrefix => format!("mcp__{server}__"),
        NamingStyle::DoubleUnderscore | NamingStyle::Fitted(_) => format!("{server}__"),
    }
}
