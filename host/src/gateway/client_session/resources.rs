//! The resources of all servers. They keep their URIs; if two servers have the same URI, the first server is used.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Deserialize;
use serde_json::json;

use super::era::{CacheControl, Era, RequestContext};
use super::labels::{label_error, label_result, unlabel_answers};
use super::progress::ProgressForwarder;
use super::sources::{LeasedServer, MergedListing, ServerListing, find_owner, gather};
use super::tool_list::page;
use super::{ClientRequest, ClientSession, Envelope, params_of};
use crate::failure::{Failure, RequestError, RpcError};
use crate::gate::FetchError;
use crate::gateway::bounds;
use crate::json::JsonObject;
use crate::rpc::code::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::session::ListKind;

/// Handles `resources/list`.
pub(super) async fn list(client: &ClientSession, context: &RequestContext, params: &str) -> Result<String, RpcError> {
    list_merged(client, context, ListKind::Resources, "resources", "uri", params).await
}

/// Handles `resources/templates/list`.
pub(super) async fn templates(
    client: &ClientSession,
    context: &RequestContext,
    params: &str,
) -> Result<String, RpcError> {
    list_merged(client, context, ListKind::Templates, "resourceTemplates", "uriTemplate", params).await
}

/// Handles `resources/read`.
pub(super) async fn read(
    client: &ClientSession,
    context: &RequestContext,
    params: &str,
    envelope: &Envelope,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Params { uri } = params_of("resources/read", params)?;
    bounds::check_uri(&uri)?;
    let Some(owner) = find_owner(client, &uri).await? else { return Err(missing(context.era, &uri)) };
    let asked =
        ServerQuery { method: "resources/read", params: &json!({"uri": uri}).to_string(), client_params: params };
    let result = query_server(client, context, &owner, asked, envelope).await;
    let result = result.map_err(|error| adapt_error(context.era, error))?;
    let cache = CacheControl::of_result(&result).for_client(client);
    Ok(context.finish_cacheable(result, cache))
}

/// Returns the error for a resource that no server is known to have.
pub(super) fn missing(era: Era, uri: &str) -> RpcError {
    let code = if era == Era::Modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    let mut data = JsonObject::default();
    data.set("uri", &uri);
    let text = format!("no server lists {uri:?}, has a template for it, or linked to it in a result; none was asked");
    RpcError { data: Some(crate::json::to_raw(&data)), ..RpcError::new(code, text) }
}

/// Translates a server's error for a missing resource to the code of the client's era.
fn adapt_error(era: Era, error: RpcError) -> RpcError {
    match (era, error.code) {
        (Era::Modern, RESOURCE_NOT_FOUND) => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
}

async fn list_merged(
    client: &ClientSession,
    context: &RequestContext,
    kind: ListKind,
    name: &str,
    key: &str,
    params: &str,
) -> Result<String, RpcError> {
    let mut owners: HashMap<String, String> = HashMap::new();
    let mut items = Vec::new();
    let MergedListing { servers, cache } = gather(client, kind).await;
    for ServerListing { link, items: own } in servers {
        for item in own {
            let Some(address) = text_member(&item, key) else {
                // The URI is missing or cannot be decoded, so it duplicates no other.
                items.push(crate::json::to_raw(&item));
                continue;
            };
            match owners.entry(address) {
                Entry::Occupied(owner) => client.gateway.warn_duplicate(link.id(), owner.key(), owner.get()),
                Entry::Vacant(place) => {
                    items.push(crate::json::to_raw(&item));
                    place.insert(link.id().to_owned());
                }
            }
        }
    }
    Ok(context.finish_cacheable(page(name, &items, params)?, cache))
}

/// A request to a server on behalf of a client.
#[derive(Clone, Copy)]
pub(super) struct ServerQuery<'a> {
    pub(super) method: &'static str,
    /// The parameters for the server.
    pub(super) params: &'a str,
    /// The parameters of the client's request.
    pub(super) client_params: &'a str,
}

/// Sends a request to a server, masks the result, and passes errors on with their codes.
pub(super) async fn query_server(
    client: &ClientSession,
    context: &RequestContext,
    owner: &LeasedServer,
    asked: ServerQuery<'_>,
    envelope: &Envelope,
) -> Result<String, RpcError> {
    let request = ClientRequest::new(client, context, envelope);
    let mut caller = context.caller(&request, asked.client_params);
    unlabel_answers(&mut caller.input);
    let server = owner.link.id();
    let working = request.start_work(client, server, owner.link.number());
    let progress = ProgressForwarder::new(client, context, &request, envelope).map(ProgressForwarder::into_listener);
    let ServerQuery { method, params, .. } = asked;
    let fetched = client.gate.fetch(&owner.link, owner.lease.session(), method, params, &caller, progress).await;
    working.end();
    let outcome = fetched.map_err(|why| match why {
        FetchError::Failed(failed) => client_error(client, server, failed),
        FetchError::Logic(error) => RpcError::new(INTERNAL_ERROR, error.to_string()),
    });
    request.check_outcome(outcome.map(|answer| label_result(server, answer)))
}

/// Turns a failure into the client's error; a server's own error keeps its code and is masked.
pub(super) fn client_error(client: &ClientSession, server: &str, failed: RequestError) -> RpcError {
    match failed.failure {
        Failure::Rpc(error) => label_error(server, client.gate.mask_error(server, error)),
        other => RpcError::new(INTERNAL_ERROR, format!("server {server:?}: {other}")),
    }
}

/// Returns a string member of an item.
pub(super) fn text_member(item: &JsonObject, name: &str) -> Option<String> {
    serde_json::from_str(item.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_is_not_there_has_the_code_of_the_clients_era() {
        let code = |era, code| adapt_error(era, RpcError::new(code, "no such resource")).code;
        assert_eq!((code(Era::Modern, -32002), code(Era::Legacy, -32002)), (-32602, -32002));
        assert_eq!((code(Era::Modern, -32000), code(Era::Legacy, -32602)), (-32000, -32602));
    }
}
