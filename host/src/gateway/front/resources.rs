//! Resources of all servers. They keep their addresses; where two servers have the same, the first one's counts.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tracing::warn;

use super::era::{Context, Era};
use super::lists::page;
use super::{Asker, Front, INTERNAL_ERROR, INVALID_PARAMS, params_of};
use crate::failure::{Failed, Failure, RpcError};
use crate::gate::Refused;
use crate::gateway::bounds;
use crate::gateway::client::Incoming;
use crate::json::Object;
use crate::registry::{Lease, Link};
use crate::session::Kind;

/// What one server lists.
pub(super) struct Listed {
    pub(super) link: Arc<Link>,
    pub(super) lease: Lease,
    /// Its items, masked.
    pub(super) items: Vec<Object>,
}

/// Lists the resources.
pub(super) async fn list(front: &Front, context: &Context, params: &str) -> Result<String, RpcError> {
    merged(front, context, Kind::Resources, "resources", "uri", params).await
}

/// Lists the templates of resources.
pub(super) async fn templates(front: &Front, context: &Context, params: &str) -> Result<String, RpcError> {
    merged(front, context, Kind::Templates, "resourceTemplates", "uriTemplate", params).await
}

/// Reads a resource of the server that has it.
pub(super) async fn read(
    front: &Front,
    context: &Context,
    params: &str,
    incoming: &Incoming,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Params { uri } = params_of("resources/read", params)?;
    bounds::uri(&uri)?;
    let missing = || {
        let code = if context.era == Era::Modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
        let mut data = Object::default();
        data.set("uri", &uri);
        RpcError { data: Some(crate::json::raw(&data)), ..RpcError::new(code, format!("no server has {uri:?}")) }
    };
    let owner = owner(front, &uri).await.ok_or_else(missing)?;
    let asked = Asked { method: "resources/read", params: &json!({"uri": uri}).to_string(), of: params };
    let result = ask(front, context, &owner, asked, incoming).await;
    let result = result.map_err(|error| in_words_of(context.era, error))?;
    Ok(context.dress_kept(result, 0, front.is_private()))
}

/// What a server says where it has no such resource, with the code that the client's era has for it.
fn in_words_of(era: Era, error: RpcError) -> RpcError {
    match (era, error.code) {
        (Era::Modern, RESOURCE_NOT_FOUND) => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
}

/// The server that a resource is of: the one that lists it, the one whose template fits, or the only one there is.
pub(super) async fn owner(front: &Front, uri: &str) -> Option<Listed> {
    let mut listed = gather(front, Kind::Resources).await;
    let has = |listed: &Listed| listed.items.iter().any(|item| text(item, "uri").as_deref() == Some(uri));
    if let Some(place) = listed.iter().position(has) {
        return Some(listed.swap_remove(place));
    }
    let mut fitting = gather(front, Kind::Templates).await;
    let fits = |listed: &Listed| {
        let templates = listed.items.iter().filter_map(|item| text(item, "uriTemplate"));
        templates.into_iter().any(|template| fits(&template, uri))
    };
    if let Some(place) = fitting.iter().position(fits) {
        return Some(fitting.swap_remove(place));
    }
    // Servers may have more than they list.
    listed.retain(|listed| listed.lease.session().peer().offers.resources);
    if listed.len() == 1 { listed.pop() } else { None }
}

/// Asks all servers for a list, side by side; those that cannot be asked are left out, and in the log.
pub(super) async fn gather(front: &Front, kind: Kind) -> Vec<Listed> {
    let ask = front.gate.sources().into_iter().map(|link| async move {
        let lease = link.lease().await.map_err(|why| warn!(server = link.id(), "{why}")).ok()?;
        let listing = lease.session().list(kind).await.map_err(|why| warn!(server = link.id(), "{why}")).ok()?;
        let mask = |item: &RawValue| Object::read(&front.gate.mask(link.id(), item.get()).ok()?);
        let items = listing.items.iter().filter_map(|item| mask(item)).collect();
        Some(Listed { link, lease, items })
    });
    futures_util::future::join_all(ask).await.into_iter().flatten().collect()
}

async fn merged(
    front: &Front,
    context: &Context,
    kind: Kind,
    name: &str,
    key: &str,
    params: &str,
) -> Result<String, RpcError> {
    let mut seen = HashSet::new();
    let mut items = Vec::new();
    for Listed { link, items: own, .. } in gather(front, kind).await {
        for item in own {
            match text(&item, key) {
                Some(address) if !seen.insert(address.clone()) => {
                    warn!(server = link.id(), "{address:?} is of an earlier server too, and that one's counts");
                }
                _ => items.push(crate::json::raw(&item)),
            }
        }
    }
    Ok(context.dress_kept(page(name, &items, params)?, 0, front.is_private()))
}

/// What a server is asked, for a request of a client.
pub(super) struct Asked<'a> {
    pub(super) method: &'static str,
    /// What the server gets.
    pub(super) params: &'a str,
    /// What the client sent.
    pub(super) of: &'a str,
}

/// Asks a server, masks what it says, and passes its errors on with their codes.
pub(super) async fn ask(
    front: &Front,
    context: &Context,
    owner: &Listed,
    asked: Asked<'_>,
    incoming: &Incoming,
) -> Result<String, RpcError> {
    let asker = Asker::new(front, context, incoming);
    let caller = context.caller(&asker, asked.of);
    let server = owner.link.id();
    let working = asker.work(front, server);
    let fetched = front.gate.fetch(&owner.link, owner.lease.session(), asked.method, asked.params, &caller).await;
    drop(working);
    let outcome = fetched.map_err(|why| match why {
        Refused::Failed(failed) => refused(front, server, failed),
        Refused::Logic(error) => RpcError::new(INTERNAL_ERROR, error.to_string()),
    });
    asker.settle(outcome)
}

/// A failure as the client gets it: an error of the server with its code, masked.
pub(super) fn refused(front: &Front, server: &str, failed: Failed) -> RpcError {
    match failed.failure {
        Failure::Rpc(error) => front.gate.mask_error(server, error),
        other => RpcError::new(INTERNAL_ERROR, format!("server {server:?}: {other}")),
    }
}

/// A member that is text.
pub(super) fn text(item: &Object, name: &str) -> Option<String> {
    serde_json::from_str(item.get(name)?.get()).ok()
}

/// Whether an address can be made from a template: its fixed parts, in their order, with something between them.
fn fits(template: &str, uri: &str) -> bool {
    let mut fixed = template.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after));
    let Some(mut rest) = fixed.next().and_then(|first| uri.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in fixed {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => last.is_empty() || uri.ends_with(last),
    }
}

const RESOURCE_NOT_FOUND: i64 = -32002;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_is_not_there_has_the_code_of_the_clients_era() {
        let code = |era, code| in_words_of(era, RpcError::new(code, "no such resource")).code;
        assert_eq!((code(Era::Modern, -32002), code(Era::Legacy, -32002)), (-32602, -32002));
        assert_eq!((code(Era::Modern, -32000), code(Era::Legacy, -32602)), (-32000, -32602));
    }

    #[test]
    fn an_address_fits_a_template_with_something_in_each_gap() {
        let rows = [
            ("demo://a", "demo://a", true),
            ("demo://a", "demo://ab", false),
            ("demo://{x}", "demo://ab", true),
            ("demo://{x}/end", "demo://ab/end", true),
            ("demo://{x}/end", "demo://ab/other", false),
            ("demo://{x}/{y}", "demo://a/b", true),
            ("other://{x}", "demo://a", false),
        ];
        for (template, uri, expected) in rows {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }
}
