//! The resources of all servers. They keep their URIs; if two servers have the same URI, the first server is used.

use serde::Deserialize;
use serde_json::json;

use super::era::{CacheControl, finish_cacheable};
use super::request_context::RequestContext;
use super::server_request::query_server;
use super::sources::{find_owner, gather, merged_page};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::json::{JsonObject, to_raw};
use crate::rpc::code::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::session::{Era, ListKind};

/// The parameters of a request about one resource.
#[derive(Deserialize)]
pub(super) struct ResourceParams {
    pub(super) uri: String,
}

/// Handles `resources/list`.
pub(super) async fn list(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let listing = gather(context.client, ListKind::Resources).await;
    merged_page(context, listing, "resources", "uri")
}

/// Handles `resources/templates/list`.
pub(super) async fn templates(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let listing = gather(context.client, ListKind::Templates).await;
    merged_page(context, listing, "resourceTemplates", "uriTemplate")
}

/// Handles `resources/read`.
pub(super) async fn read(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let ResourceParams { uri } = context.params()?;
    bounds::check_uri(&uri)?;
    let owner = find_owner(context.client, &uri).await?.ok_or_else(|| missing(context.era, &uri))?;
    let mut params = JsonObject::default();
    params.set("uri", &uri);
    let result = query_server(context, &owner, "resources/read", &params).await;
    let result = result.map_err(|error| adapt_error(context.era, error))?;
    let cache = CacheControl::of_result(&result).for_client(context.client);
    Ok(finish_cacheable(context.era, result, cache))
}

/// Returns the error for a resource that no server is known to have.
pub(super) fn missing(era: Era, uri: &str) -> RpcError {
    let code = if era == Era::Modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    let data = Some(to_raw(&json!({"uri": uri})));
    let text = format!("no server lists {uri:?}, has a template for it, or linked to it in a result; none was asked");
    RpcError { data, ..RpcError::new(code, text) }
}

/// Translates a server's error for a missing resource to the code of the client's era.
fn adapt_error(era: Era, error: RpcError) -> RpcError {
    match (era, error.code) {
        (Era::Modern, RESOURCE_NOT_FOUND) => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
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
