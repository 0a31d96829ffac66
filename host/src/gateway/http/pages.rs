//! The pages beside `/mcp`: health, metrics, the API, the dashboard. The server authenticates; a `PageHandler` answers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::{Method, Response};

use super::body::{EventSource, EventStream, ResponseBody};
use super::context::ConnectionContext;
use super::page_handler::{PageBody, PageRequest};
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use crate::gateway::client::Principal;
use crate::gateway::refusal::RequestRefusal;

/// Passes a request to the page handler and builds the HTTP response.
pub(super) async fn answer(
    connection: &ConnectionContext,
    head: &Parts,
    body: Vec<u8>,
    principal: Option<&Arc<Principal>>,
    busy: BusyGuard,
) -> Result<Option<Response<ResponseBody>>, RequestRefusal> {
    let mut headers = head.headers.clone();
    for secret in [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE] {
        headers.remove(secret);
    }
    let request = PageRequest {
        method: if head.method == Method::HEAD { Method::GET } else { head.method.clone() },
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers,
        body: Bytes::from(body),
        principal: principal.map(|principal| Principal::clone(principal)),
    };
    let Some(page) = connection.state.pages.answer(request).await else { return Ok(None) };
    let mut response = match page.body {
        PageBody::Bytes(bytes) => Response::new(ResponseBody::Full(bytes)),
        PageBody::Events(events) => {
            let (state, held) = (&connection.state, (connection.mark_streaming()?, busy));
            let mut events = EventStream::new(EventSource::Page(events), state.rules().limits.streams.keep_alive, held);
            events.stopped = Some(state.until_revoked(TokenDigest::of(&head.headers), principal));
            events.into_response()
        }
    };
    *response.status_mut() = page.status;
    for (name, value) in page.headers {
        response.headers_mut().append(name, value);
    }
    Ok(Some(response))
}
