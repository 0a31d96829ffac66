//! The gateway's pages beside MCP: health checks, metrics, the API for operators, and the dashboard.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CACHE_CONTROL, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;

use super::Gateway;
use super::api::ApiResponse;
use super::client::Principal;
use super::http::{PageBody, PageEvent, PageHandler, PageRequest, PageResponse};
use crate::transport::BoxFuture;

/// Serves the pages of a gateway.
pub struct GatewayPages(pub Arc<Gateway>);

impl PageHandler for GatewayPages {
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, Option<PageResponse>> {
        let gateway = Arc::clone(&self.0);
        Box::pin(async move {
            let parts: Vec<_> = request.path.split('/').filter(|part| !part.is_empty()).collect();
            match (&request.method, parts.as_slice()) {
                (&Method::GET, []) => Some(dashboard()),
                (&Method::GET, ["health"]) => Some(json(200, r#"{"status":"ok"}"#.to_owned())),
                (&Method::GET, ["ready"]) => {
                    let ApiResponse { status, body } = gateway.ready(request.principal.as_ref());
                    Some(json(status, body))
                }
                (_, [] | ["health"] | ["ready"]) => Some(not_allowed(&request.method, READ)),
                (_, ["metrics"] | ["api", "v1", ..]) => match &request.principal {
                    None => Some(unauthorized("this needs a token: send Authorization: Bearer …")),
                    Some(principal) => api(&gateway, &request, &parts, principal).await,
                },
                _ => None,
            }
        })
    }

    fn accepts_body(&self, method: &Method, path: &str, principal: &Principal) -> bool {
        let parts = path.split('/').filter(|part| !part.is_empty());
        principal.admin && method == Method::POST && parts.eq(["api", "v1", "mcp", "call"])
    }
}

async fn api(
    gateway: &Arc<Gateway>,
    request: &PageRequest,
    parts: &[&str],
    principal: &Principal,
) -> Option<PageResponse> {
    let path = parts.strip_prefix(&["api", "v1"]).unwrap_or(parts);
    let get = request.method == Method::GET;
    let post = request.method == Method::POST;
    let reply = match path {
        ["metrics"] if get => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            return Some(PageResponse::text(StatusCode::OK, kind, gateway.metrics(principal)));
        }
        ["events"] if get => return Some(events(gateway)),
        ["servers"] if get => gateway.servers(principal),
        ["mcp", "tools"] if get => gateway.tools(principal).await.unwrap_or_else(|error| error),
        ["calls"] if get => gateway.calls(principal, limit(request.query.as_deref())),
        ["shadow"] if get => gateway.shadow_report(principal, limit(request.query.as_deref())),
        // A listener without tokens lets everybody read, but only a token may change something.
        ["servers", ..] | ["mcp", "call"] if post && *principal == Principal::anybody() => {
            return Some(unauthorized(TOKEN));
        }
        ["servers", ..] | ["mcp", "call"] if post && !principal.admin => forbidden(),
        ["servers", server, action] if post => gateway.act(server, action)?,
        ["mcp", "call"] if post => gateway.try_call(principal, &request.body).await.unwrap_or_else(|error| error),
        ["servers", _, _] | ["mcp", "call"] => return Some(not_allowed(&request.method, "POST")),
        ["servers"] | ["mcp", "tools"] | ["calls"] | ["shadow"] | ["events"] | ["metrics"] => {
            return Some(not_allowed(&request.method, READ));
        }
        _ => return None,
    };
    Some(json(reply.status, reply.body))
}

/// Sends an event whenever something has changed, at most ten times a second.
fn events(gateway: &Arc<Gateway>) -> PageResponse {
    let (sender, receiver) = mpsc::channel(4);
    let gateway = Arc::clone(gateway);
    // The task ends when the client disconnects.
    tokio::spawn(async move {
        let registry = gateway.registry();
        let mut servers = registry.states_changed();
        let mut tools = registry.tools_changed();
        let mut calls = gateway.recent().changed();
        let mut news = [true; 3];
        loop {
            let data = json!({"servers": news[0], "calls": news[1], "tools": news[2]}).to_string();
            if sender.send(PageEvent { name: Some("change".to_owned()), data }).await.is_err() {
                return;
            }
            let first = tokio::select! {
                () = sender.closed() => return,
                _ = servers.changed() => 0,
                _ = calls.changed() => 1,
                _ = tools.changed() => 2,
            };
            tokio::time::sleep(PAUSE).await;
            let channels = [&mut servers, &mut calls, &mut tools];
            for (place, (news, channel)) in news.iter_mut().zip(channels).enumerate() {
                *news = place == first || channel.has_changed().unwrap_or(false);
                channel.mark_unchanged();
            }
        }
    });
    PageResponse { status: StatusCode::OK, headers: Vec::new(), body: PageBody::Events(receiver) }
}

fn dashboard() -> PageResponse {
    // `RandomState` takes its keys from the system's random numbers.
    let draw = || RandomState::new().build_hasher().finish();
    let nonce = format!("{:016x}{:016x}", draw(), draw());
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let page = DASHBOARD.replace("NONCE", &nonce);
    let mut response = PageResponse::text(StatusCode::OK, "text/html; charset=utf-8", page);
    let value = HeaderValue::from_str(&policy).expect("the policy is plain text");
    response.headers.push((HeaderName::from_static("content-security-policy"), value));
    response
        .with(CACHE_CONTROL, "no-store")
        .with(HeaderName::from_static("x-content-type-options"), "nosniff")
        .with(HeaderName::from_static("referrer-policy"), "no-referrer")
}

fn limit(query: Option<&str>) -> usize {
    let given = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("limit="));
    given.and_then(|given| given.parse().ok()).unwrap_or(100)
}

fn unauthorized(error: &str) -> PageResponse {
    json(401, json!({"error": error}).to_string()).with(WWW_AUTHENTICATE, "Bearer")
}

fn not_allowed(method: &Method, allowed: &'static str) -> PageResponse {
    let error = json!({"error": format!("{method} is not allowed here: use {allowed}")});
    json(405, error.to_string()).with(ALLOW, allowed)
}

fn forbidden() -> ApiResponse {
    ApiResponse { status: 403, body: json!({"error": "this token is read-only; admin: true is needed"}).to_string() }
}

fn json(status: u16, body: String) -> PageResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    PageResponse::text(status, "application/json", body).with(CACHE_CONTROL, "no-store")
}

/// The error for changes to a gateway without tokens.
const TOKEN: &str = "this needs a token: open the dashboard with the link that `toolgate serve --http` prints on a \
                     terminal, or give an admin a token in gateway.tokens";
/// The methods of a read-only page.
const READ: &str = "GET, HEAD";
const DASHBOARD: &str = include_str!("dashboard.html");
const PAUSE: Duration = Duration::from_millis(100);
