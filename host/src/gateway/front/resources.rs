//! Resources of all servers. They keep their addresses; where two servers have the same, the first one's counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Deserialize;
use serde_json::json;

use super::era::{Context, Era, Keep};
use super::labelled::{label_error, label_result, unlabel_answers};
use super::lists::page;
use super::progress::Teller;
use super::sources::{Gathered, Listed, Owner, gather, owner};
use super::{Asker, Front, INTERNAL_ERROR, INVALID_PARAMS, params_of};
use crate::failure::{Failed, Failure, RpcError};
use crate::gate::Refused;
use crate::gateway::bounds;
use crate::gateway::client::Incoming;
use crate::json::Object;
use crate::session::Kind;

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
    let Some(owner) = owner(front, &uri).await? else { return Err(missing(context.era, &uri)) };
    let asked = Asked { method: "resources/read", params: &json!({"uri": uri}).to_string(), of: params };
    let result = ask(front, context, &owner, asked, incoming).await;
    let result = result.map_err(|error| in_words_of(context.era, error))?;
    let keep = Keep::of_result(&result).shown_to(front);
    Ok(context.dress_kept(result, keep))
}

/// The answer for a resource that nobody has, as far as anybody says.
pub(super) fn missing(era: Era, uri: &str) -> RpcError {
    let code = if era == Era::Modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    let mut data = Object::default();
    data.set("uri", &uri);
    let text = format!("no server lists {uri:?}, has a template that fits it, or named it in a result; none was asked");
    RpcError { data: Some(crate::json::raw(&data)), ..RpcError::new(code, text) }
}

/// What a server says where it has no such resource, with the code that the client's era has for it.
fn in_words_of(era: Era, error: RpcError) -> RpcError {
    match (era, error.code) {
        (Era::Modern, RESOURCE_NOT_FOUND) => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
}

async fn merged(
    front: &Front,
    context: &Context,
    kind: Kind,
    name: &str,
    key: &str,
    params: &str,
) -> Result<String, RpcError> {
    let mut owners: HashMap<String, String> = HashMap::new();
    let mut items = Vec::new();
    let Gathered { listed, keep } = gather(front, kind).await;
    for Listed { link, items: own } in listed {
        for item in own {
            let Some(address) = text(&item, key) else {
                // Half of a letter is in it, so that it equals no other.
                items.push(crate::json::raw(&item));
                continue;
            };
            match owners.entry(address) {
                Entry::Occupied(owner) => front.inside.note_doubled(link.id(), owner.key(), owner.get()),
                Entry::Vacant(place) => {
                    items.push(crate::json::raw(&item));
                    place.insert(link.id().to_owned());
                }
            }
        }
    }
    Ok(context.dress_kept(page(name, &items, params)?, keep))
}

/// What a server is asked, for a request of a client.
#[derive(Clone, Copy)]
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
    owner: &Owner,
    asked: Asked<'_>,
    incoming: &Incoming,
) -> Result<String, RpcError> {
    let asker = Asker::new(front, context, incoming);
    let mut caller = context.caller(&asker, asked.of);
    unlabel_answers(&mut caller.given);
    let server = owner.link.id();
    let working = asker.work(front, server, owner.link.number());
    let progress = Teller::new(front, context, &asker, incoming).map(Teller::into_listener);
    let Asked { method, params, .. } = asked;
    let fetched = front.gate.fetch(&owner.link, owner.lease.session(), method, params, &caller, progress).await;
    working.end();
    let outcome = fetched.map_err(|why| match why {
        Refused::Failed(failed) => refused(front, server, failed),
        Refused::Logic(error) => RpcError::new(INTERNAL_ERROR, error.to_string()),
    });
    asker.settle(outcome.map(|answer| label_result(server, answer)))
}

/// A failure as the client gets it: an error of the server with its code, masked.
pub(super) fn refused(front: &Front, server: &str, failed: Failed) -> RpcError {
    match failed.failure {
        Failure::Rpc(error) => label_error(server, front.gate.mask_error(server, error)),
        other => RpcError::new(INTERNAL_ERROR, format!("server {server:?}: {other}")),
    }
}

/// A member that is text.
pub(super) fn text(item: &Object, name: &str) -> Option<String> {
    serde_json::from_str(item.get(name)?.get()).ok()
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
}
