//! Requests to servers on behalf of a client, and their progress.

use std::sync::Arc;

use super::ClientSession;
use super::client_request::ClientRequest;
use super::labels::{label_result, unlabel_answers};
use super::relay;
use super::request_context::RequestContext;
use super::sources::{LeasedServer, client_error, is_named, text_member};
use crate::failure::RpcError;
use crate::gate::FetchError;
use crate::json::{self, JsonObject};
use crate::registry::Link;
use crate::rpc::{self, code::INTERNAL_ERROR};
use crate::session::{ListKind, OnProgress, Progress};

/// Sends the client's request to a server with these parameters, masks the result, and passes errors on with their
/// codes.
pub(super) async fn query_server(
    context: &RequestContext<'_>,
    owner: &LeasedServer,
    method: &'static str,
    params: &JsonObject,
) -> Result<String, RpcError> {
    let client: &ClientSession = context.client;
    let request = ClientRequest::new(context);
    let mut caller = context.caller(&request);
    unlabel_answers(&mut caller.input);
    let server = owner.link.id();
    if !caller.input.is_empty() || brings_text(client, &owner.link, method, params) {
        let noted = client.gate.note_written(caller.trace_id(), server).await;
        noted.map_err(|failed| client_error(client, server, failed))?;
    }
    let params = params.to_text();
    let working = relay::start_work(client, &request, server, owner.link.number());
    let progress = progress_listener(context, &request);
    let fetched = client.gate.fetch(&owner.link, owner.lease.session(), method, &params, &caller, progress).await;
    working.end();
    let outcome = fetched.map_err(|why| match why {
        FetchError::Failed(failed) => client_error(client, server, failed),
        FetchError::Logic(error) => RpcError::new(INTERNAL_ERROR, error.to_string()),
    });
    request.check_outcome(outcome.map(|answer| label_result(server, answer)))
}

/// Reports whether a request brings text to a server that it did not name itself.
fn brings_text(client: &ClientSession, link: &Link, method: &str, params: &JsonObject) -> bool {
    match method {
        "prompts/get" => {
            let arguments = params.get("arguments").and_then(|arguments| JsonObject::read(arguments.get()));
            arguments.is_some_and(|arguments| !arguments.is_empty()) || !lists_prompt(link, params)
        }
        "resources/read" => {
            let uri = params.get("uri").and_then(json::string_value).unwrap_or_default();
            !is_named(client, link, &uri)
        }
        _ => true,
    }
}

/// Reports whether a server is known to list the prompt of a request.
fn lists_prompt(link: &Link, params: &JsonObject) -> bool {
    let name = text_member(params, "name");
    let listing = link.known_others(ListKind::Prompts);
    let items = listing.iter().flat_map(|listing| &listing.items);
    let mut names = items.filter_map(|item| text_member(&JsonObject::read(item.get())?, "name"));
    names.any(|listed| Some(listed) == name)
}

/// Returns a listener that forwards progress to the client under its own token, masked and cut to the maximum size of a
/// result; `None` if the client did not ask for progress.
pub(super) fn progress_listener(context: &RequestContext<'_>, request: &Arc<ClientRequest>) -> Option<OnProgress> {
    let token = context.progress.clone()?;
    let request = Arc::clone(request);
    Some(Arc::new(move |progress: Progress| {
        let Some(client) = request.client.upgrade() else { return };
        // Progress that cannot be masked is not sent.
        let masked = client.gate.mask(request.server(), progress.params.get()).ok();
        let Some(mut params) = masked.as_deref().and_then(JsonObject::read) else { return };
        match client.gate.cut_member(&mut params, "message") {
            Ok(true) => {}
            // Still too long: drop the server's own members.
            Ok(false) => params.retain(|name| matches!(name, "progress" | "total" | "message")),
            Err(_) => return,
        }
        params.set("progressToken", &token);
        request.sink.send_or_drop(rpc::notification("notifications/progress", Some(&params.to_text())));
    }))
}
