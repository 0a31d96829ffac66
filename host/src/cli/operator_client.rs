//! Requests of operator commands to a running gateway.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use reqwest::Response;

use crate::failure::{Failure, RequestError};
use crate::web::errors::{connect_error, http_failure};
use crate::web::site::RemoteSite;
use crate::web::{HttpVersion, WebClient, WebRequest, body};

/// Requests pages of a gateway.
pub(super) struct OperatorClient {
    web: WebClient,
    limit: Duration,
}

impl OperatorClient {
    /// Prepares requests to the gateway at this address, each with this limit, without sending anything.
    pub(super) async fn open(site: &RemoteSite, limit: Duration) -> Result<Self, RequestError> {
        Ok(OperatorClient { web: WebClient::open(site, HttpVersion::Any).await?, limit })
    }

    /// Returns the client below.
    pub(super) fn into_web(self) -> WebClient {
        self.web
    }

    /// Returns the text of a page.
    pub(super) async fn get(&self, path: &str) -> Result<String, RequestError> {
        let read = async { body::text(self.ask(path).await?, self.web.max_message_bytes()).await };
        self.in_time("GET", path, read).await
    }

    /// Posts JSON to a page, and returns the text of the answer.
    pub(super) async fn post(&self, path: &str, json: String) -> Result<String, RequestError> {
        let read = async {
            let response = self.send(Method::POST, path, json.into()).await?;
            body::text(response, self.web.max_message_bytes()).await
        };
        self.in_time("POST", path, read).await
    }

    /// Opens a page of events; each part of its body reports that something may have changed.
    pub(super) async fn listen(&self, path: &str) -> Result<Response, RequestError> {
        self.in_time("GET", path, self.ask(path)).await
    }

    async fn ask(&self, path: &str) -> Result<Response, RequestError> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response, RequestError> {
        let url = self.web.address().join(path);
        let url = url.map_err(|error| connect_error(format!("invalid path {path}: {error}")))?;
        let headers = || {
            let mut headers = self.web.headers().clone();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers
        };
        let response = self.web.send(WebRequest { body, ..WebRequest::new(method, &url, &headers) }).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(http_failure(self.web.failed_answer(response, false).await))
    }

    async fn in_time<T>(
        &self,
        method: &str,
        path: &str,
        work: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let timeout =
            || RequestError::sent(Failure::Timeout { method: format!("{method} /{path}"), after: self.limit });
        tokio::time::timeout(self.limit, work).await.unwrap_or_else(|_| Err(timeout()))
    }
}
