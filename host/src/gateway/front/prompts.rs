//! Prompts of all servers, under names that say whose they are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Deserialize;

use super::era::Context;
use super::lists::page;
use super::resources::{self, Asked, text};
use super::sources::{self, Gathered, Listed, Owner, gather, gather_from};
use super::{Front, INVALID_PARAMS, params_of};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::Incoming;
use crate::json::{Object, raw};
use crate::logic::types::naming::NamingStyle;
use crate::session::Kind;

/// Lists the prompts.
pub(super) async fn list(front: &Front, context: &Context, params: &str) -> Result<String, RpcError> {
    let mut items = Vec::new();
    let mut owners: HashMap<String, String> = HashMap::new();
    let Gathered { listed, keep } = gather(front, Kind::Prompts).await;
    for Listed { link, items: own } in listed {
        for mut item in own {
            let Some(name) = text(&item, "name").map(|name| shown(front, link.id(), &name)) else { continue };
            match owners.entry(name) {
                Entry::Occupied(owner) => front.inside.note_doubled(link.id(), owner.key(), owner.get()),
                Entry::Vacant(place) => {
                    item.set("name", place.key());
                    items.push(raw(&item));
                    place.insert(link.id().to_owned());
                }
            }
        }
    }
    Ok(context.dress_kept(page("prompts", &items, params)?, keep))
}

/// Gets a prompt.
pub(super) async fn get(
    front: &Front,
    context: &Context,
    params: &str,
    incoming: &Incoming,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Option<Object>,
    }
    let of = params;
    let Params { name, arguments } = params_of("prompts/get", params)?;
    let (owner, own) = owner(front, &name).await?;
    let mut params = Object::default();
    params.set("name", &own);
    if let Some(arguments) = arguments {
        params.set("arguments", &arguments);
    }
    let asked = Asked { method: "prompts/get", params: &params.to_text(), of };
    let result = resources::ask(front, context, &owner, asked, incoming).await?;
    front.linked.learn(owner.link.id(), &result);
    Ok(context.dress(result))
}

/// Completes an argument of a prompt or of a template.
pub(super) async fn complete(
    front: &Front,
    context: &Context,
    params: &str,
    incoming: &Incoming,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        r#ref: Reference,
        argument: Object,
        #[serde(default)]
        context: Option<Object>,
    }
    #[derive(Deserialize)]
    struct Reference {
        r#type: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        uri: String,
    }
    let of = params;
    let Params { r#ref: reference, argument, context: known } = params_of("completion/complete", params)?;
    let mut own = Object::default();
    own.set("type", &reference.r#type);
    let owner = match reference.r#type.as_str() {
        "ref/prompt" => {
            let (owner, name) = owner(front, &reference.name).await?;
            own.set("name", &name);
            owner
        }
        _ => {
            bounds::uri(&reference.uri)?;
            own.set("uri", &reference.uri);
            let owner = match sources::owner_of_template(front, &reference.uri).await? {
                Some(owner) => Some(owner),
                None => sources::owner(front, &reference.uri).await?,
            };
            owner.ok_or_else(|| {
                RpcError::new(INVALID_PARAMS, format!("no server has the template {:?}", reference.uri))
            })?
        }
    };
    let mut params = Object::default();
    params.set("ref", &own);
    params.set("argument", &argument);
    if let Some(known) = known {
        params.set("context", &known);
    }
    let asked = Asked { method: "completion/complete", params: &params.to_text(), of };
    let result = resources::ask(front, context, &owner, asked, incoming).await?;
    Ok(context.dress(result))
}

/// The server of a prompt, and its own name for it. The name says whose it is, so that no other server is asked, unless it
/// can be read in several ways.
async fn owner(front: &Front, name: &str) -> Result<(Owner, String), RpcError> {
    bounds::prompt_name(name)?;
    let missing = || RpcError::new(INVALID_PARAMS, format!("no prompt {name:?}"));
    let own = |server: &str| name.strip_prefix(&prefix(front, server)).filter(|own| !own.is_empty());
    let mut named = front.gate.sources();
    named.retain(|link| own(link.id()).is_some());
    if named.len() > 1 {
        let mut listed = gather_from(front, named, Kind::Prompts).await.listed;
        listed.retain(|listed| {
            let own = own(listed.link.id());
            listed.items.iter().any(|item| text(item, "name").as_deref() == own)
        });
        named = listed.into_iter().map(|listed| listed.link).collect();
    }
    let link = named.first().ok_or_else(missing)?;
    let owner = sources::lease(front, link).await?;
    let own = own(link.id()).filter(|_| owner.lease.session().peer().offers.prompts).ok_or_else(missing)?.to_owned();
    Ok((owner, own))
}

/// The name that the client is shown.
fn shown(front: &Front, server: &str, prompt: &str) -> String {
    format!("{}{prompt}", prefix(front, server))
}

/// What stands before the server's own name in the one that the client is shown.
fn prefix(front: &Front, server: &str) -> String {
    match front.style() {
        _ if front.exposed().is_some() => String::new(),
        NamingStyle::Dot => format!("{server}."),
        NamingStyle::McpPrefix => format!("mcp__{server}__"),
        NamingStyle::DoubleUnderscore | NamingStyle::Fitted(_) => format!("{server}__"),
    }
}
