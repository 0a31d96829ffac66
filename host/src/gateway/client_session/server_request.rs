//! Requests to servers on behalf of a client.

use super::ClientSession;
use super::client_request::ClientRequest;
use super::labels::{label_result, unlabel_answers};
use super::progress::ProgressForwarder;
use super::relay;
use super::request_context::RequestContext;
use super::sources::{LeasedServer, client_error};
use crate::failure::RpcError;
use crate::gate::FetchError;
use crate::json::JsonObject;
use crate::rpc::code::INTERNAL_ERROR;

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
    let (server, params) = (owner.link.id(), params.to_text());
    let working = relay::start_work(client, &request, server, owner.link.number());
    let progress = ProgressForwarder::new(context, &request).map(ProgressForwarder::into_listener);
    let fetched = client.gate.fetch(&owner.link, owner.lease.session(), method, &params, &caller, progress).await;
    working.end();
    let outcome = fetched.map_err(|why| match why {
        FetchError::Failed(failed) => client_error(client, server, failed),
        FetchError::Logic(error) => RpcError::new(INTERNAL_ERROR, error.to_string()),
    });
    request.check_outcome(outcome.map(|answer| label_result(server, answer)))
}
