//! Prompts of all servers, under names that say whose they are.

use serde::Deserialize;

use super::era::Context;
use super::lists::page;
use super::resources::{self, Asked, Listed, gather, text};
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
    for Listed { link, items: own, .. } in gather(front, Kind::Prompts).await {
        for mut item in own {
            if let Some(name) = text(&item, "name") {
                item.set("name", &shown(front, link.id(), &name));
                items.push(raw(&item));
            }
        }
    }
    Ok(context.dress_kept(page("prompts", &items, params)?, 0, front.is_private()))
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
            let templates = gather(front, Kind::Templates).await;
            let has = |listed: &Listed| {
                listed.items.iter().any(|item| text(item, "uriTemplate").as_deref() == Some(&reference.uri))
            };
            match templates.into_iter().find(has) {
                Some(listed) => listed,
                None => resources::owner(front, &reference.uri).await.ok_or_else(|| {
                    RpcError::new(INVALID_PARAMS, format!("no server has the template {:?}", reference.uri))
                })?,
            }
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

/// The server of a prompt, and its own name for it.
async fn owner(front: &Front, name: &str) -> Result<(Listed, String), RpcError> {
    bounds::prompt_name(name)?;
    for listed in gather(front, Kind::Prompts).await {
        let names = listed.items.iter().filter_map(|item| text(item, "name"));
        let found = names.into_iter().find(|own| shown(front, listed.link.id(), own) == name);
        if let Some(own) = found {
            return Ok((listed, own));
        }
    }
    Err(RpcError::new(INVALID_PARAMS, format!("no prompt {name:?}")))
}

/// The name that the client is shown.
fn shown(front: &Front, server: &str, prompt: &str) -> String {
    match front.style() {
        _ if front.exposed().is_some() => prompt.to_owned(),
        NamingStyle::Dot => format!("{server}.{prompt}"),
        NamingStyle::McpPrefix => format!("mcp__{server}__{prompt}"),
        NamingStyle::DoubleUnderscore | NamingStyle::Fitted(_) => format!("{server}__{prompt}"),
    }
}
