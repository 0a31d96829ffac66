//! What answers the pages beside `/mcp`, and the requests and responses of pages.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use tokio::sync::mpsc;

use crate::gateway::client::Principal;
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

    /// Ends all running requests because the server stops; each gets a response that says so.
    fn cancel(&self) {}
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
