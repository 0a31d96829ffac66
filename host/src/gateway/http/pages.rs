//! What is served beside `/mcp`: health, metrics, the API, the dashboard. The door checks who asks; the pages answer.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio::sync::mpsc;

use super::body::{EventSource, EventStream, ResponseBody};
use super::refusal::HttpRefusal;
use super::routing::ConnectionContext;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use crate::gateway::client::Principal;
use crate::transport::BoxFuture;

/// Answers every request that is not for `/mcp`.
pub trait PageHandler: Send + Sync + 'static {
    /// Answers one; none where there is no such page. Dropping the future means that the client has gone.
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, Option<PageResponse>>;

    /// Whether the content of such a request is read for the page, if this principal brings it. Of others, and of who shows no
    /// token, none is.
    fn accepts_body(&self, method: &Method, path: &str, principal: &Principal) -> bool {
        let _ = (method, path, principal);
        false
    }
}

/// A request for a page.
pub struct PageRequest {
    /// The method; GET for HEAD, which has the same answer without its content.
    pub method: Method,
    /// The path, as it was sent.
    pub path: String,
    /// What follows the question mark.
    pub query: Option<String>,
    /// The headers, without those that carry secrets.
    pub headers: HeaderMap,
    /// The content, where the page takes any.
    pub body: Bytes,
    /// Who asks; none where a token is asked for and none was shown. A wrong one does not come so far.
    pub principal: Option<Principal>,
}

impl fmt::Debug for PageRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRequest").field("method", &self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

/// The answer of a page.
#[derive(Debug)]
pub struct PageResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers; events bring their own type.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The content.
    pub body: PageBody,
}

impl PageResponse {
    /// An answer of one text.
    pub fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        let headers = vec![(CONTENT_TYPE, HeaderValue::from_static(kind))];
        PageResponse { status, headers, body: PageBody::Bytes(body.into()) }
    }
}

/// The content of a page.
#[derive(Debug)]
pub enum PageBody {
    /// All of it.
    Bytes(Bytes),
    /// Events, until the sender is dropped or the door closes. A sender that is closed has lost its client.
    Events(mpsc::Receiver<PageEvent>),
}

/// One event of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEvent {
    /// Its name; `message` where there is none.
    pub name: Option<String>,
    /// Its data.
    pub data: String,
}

/// Asks the pages.
pub(super) async fn answer(
    connection: &ConnectionContext,
    head: &Parts,
    body: Vec<u8>,
    principal: Option<&Arc<Principal>>,
    busy: BusyGuard,
) -> Result<Option<Response<ResponseBody>>, HttpRefusal> {
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
            EventStream::new(EventSource::Page(events), connection.state.rules().limits.keep_alive, busy)
                .with_streaming(connection.mark_streaming()?)
                .until(connection.state.until_revoked(TokenDigest::of(&head.headers), principal))
                .into_response()
        }
    };
    *response.status_mut() = page.status;
    for (name, value) in page.headers {
        response.headers_mut().append(name, value);
    }
    Ok(Some(response))
}
