//! Requests to authorization servers: bounded in time and size, and led to no other origin.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header;
use http::{Method, Response, StatusCode};
use reqwest::{Client, Request, Url};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};

use super::endpoint::Site;
use super::web::{self, address, root_cause};
use crate::failure::Failed;

/// The client for a site's authorization servers.
pub(crate) struct Outside {
    client: Client,
    /// How the last request went.
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    /// Where it went, in words.
    asked: String,
    /// It was not answered, or with a fault of the server's own: how, in words.
    trouble: Option<String>,
}

impl Outside {
    /// Makes a client that trusts whom the site trusts; nothing is sent.
    pub(crate) async fn new(site: &Site) -> Result<Self, Failed> {
        Ok(Outside { client: web::stranger(site).await?, last: Mutex::default() })
    }

    /// That the last request was not answered, or with a fault of the server's own; in words.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.last().trouble.clone()
    }

    /// Where the last request went, in words that can follow others.
    pub(crate) fn last_asked(&self) -> String {
        self.last().asked.clone()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a document.
    pub(crate) async fn get(&self, url: &str) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let request = Request::new(Method::GET, Url::parse(url)?);
        self.send(request, OAuthHttpRedirectPolicy::Follow).await
    }

    async fn send(
        &self,
        mut request: Request,
        redirects: OAuthHttpRedirectPolicy,
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        for _ in 0..=REDIRECTS {
            let again = request.try_clone();
            let shown = address::shown(request.url());
            *self.last() = Last { asked: format!(" from {shown}"), trouble: Some(format!("no answer from {shown}")) };
            let sent = self.client.execute(request).await;
            let response = sent.map_err(|error| format!("{shown}: {}", root_cause(&error)))?;
            let status = response.status();
            let faulty = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            self.last().trouble = faulty.then(|| format!("HTTP status {} from {shown}", status.as_u16()));
            let target = response.headers().get(header::LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| response.url().join(target).ok());
            let moved = response.status().is_redirection() && redirects == OAuthHttpRedirectPolicy::Follow;
            match (again, target) {
                // What is posted may be a secret, so that it is sent to nobody else.
                (Some(mut again), Some(target)) if moved && address::same_origin(response.url(), &target) => {
                    *again.url_mut() = target;
                    request = again;
                }
                _ => return whole(response).await,
            }
        }
        Err(format!("it redirects more than {REDIRECTS} times").into())
    }
}

impl OAuthHttpClient for Outside {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { request, redirect_policy, timeout, .. } = request;
            let request = Request::try_from(request)?;
            let limit = timeout.unwrap_or(LIMIT).min(LIMIT);
            match tokio::time::timeout(limit, self.send(request, redirect_policy)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(format!("no answer within {limit:?}").into()),
            }
        })
    }
}

/// An answer with its whole body, up to a limit.
async fn whole(mut response: reqwest::Response) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(format!("an answer of more than {MAX_BODY} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    let mut answer = Response::builder().status(response.status()).version(response.version());
    if let Some(headers) = answer.headers_mut() {
        headers.clone_from(response.headers());
    }
    Ok(answer.body(body)?)
}

const REDIRECTS: usize = 5;
const MAX_BODY: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(30);
