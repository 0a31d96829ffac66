//! The pages beside `/mcp`: health, metrics, the API, the dashboard. The server authenticates; a `PageHandler` answers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio::sync::mpsc;

use super::body::{EventSource, EventStream, ResponseBody};
use super::context::ConnectionContext;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use crate::gateway::client::Principal;
use crate::gateway::refusal::RequestRefusal;
use crate::transport::BoxFuture;

/// Answers every request that is not for `/mcp`.
pub trait PageHandler: Send + Sync + 'static {
    /// Answers a request, or returns `None` if there is no such page; the future is dropped if the client disconnects.
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, Option<PageResponse>>;

    /// Reports whether the page accepts a body from this principal; bodies of clients without a token are never read.
    fn accepts_body(&self, method: &Method, path: &str, principal: &Principal) -> bool {
        let _ = (method, path, principal);
        false
    }
}

/// A request for a page.
pub struct PageRequest {
    /// The method; GET also stands for HEAD, whose response has no body.
    pub method: Method,
    /// The path, as it was sent.
    pub path: String,
    /// The query, without the question mark.
    pub query: Option<String>,
    /// The headers, except those that carry secrets.
    pub headers: HeaderMap,
    /// The body, if the page accepts one.
    pub body: Bytes,
    /// The principal; `None` if a token is required and missing. Requests with a wrong token are refused before.
    pub principal: Option<Principal>,
}

/// The response of a page.
#[derive(Debug)]
pub struct PageResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers; the content type of events is set for you.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: PageBody,
}

impl PageResponse {
    /// Creates a response with one text.
    pub fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        let headers = vec![(CONTENT_TYPE, HeaderValue::from_static(kind))];
        PageResponse { status, headers, body: PageBody::Bytes(body.into()) }
    }

    /// Adds a header.
    pub fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }
}

/// The body of a page.
#[derive(Debug)]
pub enum PageBody {
    /// The whole body.
    Bytes(Bytes),
    /// Events, until the sender is dropped or the server stops; the channel closes if the client disconnects.
    Events(mpsc::Receiver<PageEvent>),
}

/// One event of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEvent {
    /// The event's name; `None` means `message`.
    pub name: Option<String>,
    /// The event's data.
    pub data: String,
}

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
