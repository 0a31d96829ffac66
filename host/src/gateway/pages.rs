//! The gateway's pages beside MCP: health checks, metrics, the API for operators, and the dashboard.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CACHE_CONTROL, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;
use url::form_urlencoded;

use super::Gateway;
use super::api::ApiResponse;
use super::api::access::AccessQuery;
use super::call_filter::CallFilter;
use super::client::Principal;
use super::dashboard;
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
                (&Method::GET, []) => Some(dashboard_page()),
                (&Method::GET, ["health"]) => Some(json(200, r#"{"status":"ok"}"#.to_owned())),
                (&Method::GET, ["ready"]) => {
                    let ApiResponse { status, body } = gateway.ready(request.principal.as_ref());
                    Some(json(status, body))
                }
                (_, [] | ["health"] | ["ready"]) => Some(not_allowed(&request.method, READ)),
                (_, ["metrics"] | ["api", "v1", ..]) => match &request.principal {
                    None => Some(unauthorized("this needs a token: send Authorization: Bearer …")),
                    Some(principal) => Some(api(&gateway, &request, &parts, principal).await),
                },
                _ => None,
            }
        })
    }

    fn accepts_body(&self, method: &Method, path: &str, principal: &Principal) -> bool {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let takes_body = || {
            matches!(
                parts.collect::<Vec<_>>()[..],
                ["api", "v1", "mcp", "call" | "decide"]
                    | ["api", "v1", "mcp", "resources", "read"]
                    | ["api", "v1", "mcp", "prompts", "get"]
                    | ["api", "v1", "approvals", _]
                    | ["api", "v1", "context", "reset" | "adopt"]
                    | ["api", "v1", "candidate"]
            )
        };
        principal.admin && method == Method::POST && takes_body()
    }

    fn cancel(&self) {
        self.0.stop_operator_calls();
    }
}

async fn api(gateway: &Arc<Gateway>, request: &PageRequest, parts: &[&str], principal: &Principal) -> PageResponse {
    let versioned = parts.strip_prefix(&["api", "v1"]);
    let path = versioned.unwrap_or(parts);
    let (method, allowed) = match path {
        ["mcp", "tools" | "resources" | "prompts"] | ["mcp", "tools", "search" | "cost"] => (Method::GET, READ),
        ["approvals"] => (Method::GET, READ),
        ["mcp", "decide"] | ["mcp", "resources", "read"] | ["mcp", "prompts", "get"] => (Method::POST, "POST"),
        ["servers"] | ["calls"] | ["history"] | ["shadow"] | ["context"] | ["events"] | ["metrics"] => {
            (Method::GET, READ)
        }
        ["access"] | ["rules"] => (Method::GET, READ),
        ["approvals", _] | ["candidate"] => (Method::POST, "POST"),
        ["servers", _, "log"] => (Method::GET, READ),
        ["servers", _, "enable" | "disable" | "reconnect"] | ["mcp", "call"] | ["context", "reset" | "adopt"] => {
            (Method::POST, "POST")
        }
        _ => return failure(404, NO_PAGE),
    };
    if request.method != method {
        return not_allowed(&request.method, allowed);
    }
    // What servers write is for admins alone, because it may be about anybody's calls; so are the rules and the waiting
    // calls of others.
    let for_admins = match path {
        ["servers", _, "log"] => Some("the log of a server is"),
        ["rules"] => Some("the list of rules is"),
        ["approvals"] => Some("the calls that wait for an approval are"),
        _ => None,
    };
    // A listener without tokens lets everybody read the rest, but only a token may change something.
    if (for_admins.is_some() || method == Method::POST) && *principal == Principal::anybody() {
        return unauthorized(TOKEN);
    }
    if let Some(what) = for_admins
        && !principal.admin
    {
        return failure(403, &format!("{what} for admins; admin: true is needed"));
    }
    if method == Method::POST && !principal.admin {
        return failure(403, "this token is read-only; admin: true is needed");
    }
    // Scrapers and probes may add parameters of their own to the pages outside the API.
    let query = request.query.as_deref().filter(|_| versioned.is_some()).unwrap_or_default();
    let Parameters { query, labels, limit, recorded, after, other, filter } = match read_parameters(query, path) {
        Ok(parameters) => parameters,
        Err(error) => return failure(400, &error),
    };
    let reply = match path {
        ["metrics"] => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            return PageResponse::text(StatusCode::OK, kind, gateway.metrics(principal));
        }
        ["events"] => return events(gateway),
        ["servers"] => gateway.servers(principal),
        ["mcp", "tools"] => gateway.tools(principal, other.as_deref()).await.unwrap_or_else(|error| error),
        ["mcp", "tools", "search"] => {
            gateway.search_tools(principal, other.as_deref(), &query, limit).await.unwrap_or_else(|error| error)
        }
        ["mcp", "decide"] => gateway.decide_call(principal, &request.body).await.unwrap_or_else(|error| error),
        ["mcp", "resources"] => gateway.resources(principal).await.unwrap_or_else(|error| error),
        ["mcp", "prompts"] => gateway.prompts(principal).await.unwrap_or_else(|error| error),
        ["mcp", "resources", "read"] => {
            gateway.read_resource(principal, &request.body).await.unwrap_or_else(|error| error)
        }
        ["mcp", "prompts", "get"] => gateway.prompt(principal, &request.body).await.unwrap_or_else(|error| error),
        ["approvals"] => gateway.approvals(principal),
        ["approvals", id] => gateway.decide_approval(principal, id, &request.body),
        ["mcp", "tools", "cost"] => gateway.tool_costs(principal).await.unwrap_or_else(|error| error),
        ["context"] => gateway.agents(principal).await.unwrap_or_else(|error| error),
        ["context", "reset"] => gateway.reset_agents(&request.body).await.unwrap_or_else(|error| error),
        ["context", "adopt"] => gateway.adopt_store().await.unwrap_or_else(|error| error),
        ["calls"] if recorded => gateway.recorded_calls(principal, filter, limit).await.unwrap_or_else(|error| error),
        ["calls"] => gateway.calls(principal, &filter, after, limit),
        ["servers", server, "log"] => gateway.server_log(server, after.unwrap_or_default()),
        ["history"] => gateway.history(principal),
        ["shadow"] => gateway.shadow_report(principal, limit),
        ["access"] => match AccessQuery::new(&labels, filter) {
            Ok(query) => gateway.access(principal, query).await.unwrap_or_else(|error| error),
            Err(error) => return failure(400, &error),
        },
        ["rules"] => gateway.rules(),
        ["candidate"] => gateway.try_candidate(principal, &request.body).await.unwrap_or_else(|error| error),
        ["servers", server, action] => match gateway.act(server, action) {
            Some(reply) => reply,
            None => return failure(404, NO_PAGE),
        },
        _ => gateway.try_call(principal, &request.body).await.unwrap_or_else(|error| error),
    };
    json(reply.status, reply.body)
}

/// The parameters of a page.
struct Parameters {
    /// What is sought; empty for pages that take no query.
    query: String,
    /// The labels of what agents have seen, separated by commas.
    labels: String,
    /// The maximum number of entries.
    limit: usize,
    /// Whether calls are taken from records.
    recorded: bool,
    /// The number of the entry after which the page begins.
    after: Option<u64>,
    /// The principal in whose place an admin looks.
    other: Option<String>,
    /// Which calls are wanted.
    filter: CallFilter,
}

/// Returns the parameters of a page, or the error that names the parameter that it cannot take or misses.
fn read_parameters(text: &str, path: &[&str]) -> Result<Parameters, String> {
    let (taken, hint): (&[&str], _) = match path {
        ["calls"] => (
            &["limit", "recorded", "after", "since", "until", "server", "tool", "principal", "code"],
            "this page takes limit, recorded, after, since, until, server, tool, principal and code, such as \
             limit=100&code=timeout",
        ),
        ["servers", _, "log"] => (&["after"], "this page takes after, such as after=120"),
        ["access"] => (
            &["labels", "principal", "server"],
            "this page takes labels, principal and server, such as labels=untrusted,private&server=files",
        ),
        ["shadow"] => (&["limit"], "this page takes limit, such as limit=100"),
        ["mcp", "tools"] => (&["as"], "this page takes as, such as as=ann"),
        ["mcp", "tools", "search"] => {
            (&["query", "limit", "as"], "this page takes query, limit and as, such as query=read+a+file&limit=10")
        }
        _ => (&[], "this page takes none"),
    };
    let (mut query, mut limit, mut recorded) = (None::<String>, None::<usize>, None::<bool>);
    let (mut after, mut other, mut filter) = (None::<u64>, None::<String>, CallFilter::default());
    let mut labels = None::<String>;
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        if !taken.contains(&&*name) {
            return Err(format!("unknown parameter {name:?}: {hint}"));
        }
        let is_repeated = match &*name {
            "limit" => {
                let wrong = |_| format!("limit must be a whole number such as 100, not {value:?}");
                limit.replace(value.parse().map_err(wrong)?).is_some()
            }
            "recorded" => {
                let wrong = |_| format!("recorded must be true or false, not {value:?}");
                recorded.replace(value.parse().map_err(wrong)?).is_some()
            }
            "after" => {
                let wrong = |_| format!("after must be the number `last` of an earlier answer, not {value:?}");
                after.replace(value.parse().map_err(wrong)?).is_some()
            }
            "as" => other.replace(value.clone().into_owned()).is_some(),
            "labels" => labels.replace(value.clone().into_owned()).is_some(),
            name if CallFilter::PARAMETERS.contains(&name) => filter.set(name, value.trim())?,
            _ => query.replace(value.trim().to_owned()).is_some(),
        };
        if is_repeated {
            return Err(format!("parameter {name} is repeated: send it once"));
        }
    }
    let query = query.unwrap_or_default();
    if query.is_empty() && taken.contains(&"query") {
        return Err("parameter query is missing: say what the tool should do, such as query=read+a+file".to_owned());
    }
    let recorded = recorded.unwrap_or(false);
    if recorded && after.is_some() {
        return Err(
            "after counts the calls of this gateway, and recorded=true lists those of others too: use since".to_owned()
        );
    }
    let labels = labels.unwrap_or_default();
    Ok(Parameters { query, labels, limit: limit.unwrap_or(100), recorded, after, other, filter })
}

/// Sends an event whenever something has changed, at most four times a second.
fn events(gateway: &Arc<Gateway>) -> PageResponse {
    let (sender, receiver) = mpsc::channel(4);
    let gateway = Arc::clone(gateway);
    // The task ends when the client disconnects.
    tokio::spawn(async move {
        let registry = gateway.registry();
        let mut servers = registry.states_changed();
        let mut tools = registry.tools_changed();
        let mut calls = gateway.recent().changed();
        let mut logs = registry.logs_changed();
        let mut draining = gateway.draining_changed();
        let mut approvals = gateway.approvals_changed();
        let mut news = [true; 5];
        loop {
            let data = json!({
                "servers": news[0], "calls": news[1], "tools": news[2], "logs": news[3], "approvals": news[4],
            });
            let data = data.to_string();
            if sender.send(PageEvent { name: Some("change".to_owned()), data }).await.is_err() {
                return;
            }
            let first = tokio::select! {
                () = sender.closed() => return,
                _ = servers.changed() => 0,
                _ = draining.changed() => 0,
                _ = calls.changed() => 1,
                _ = tools.changed() => 2,
                _ = logs.changed() => 3,
                _ = approvals.changed() => 4,
            };
            tokio::time::sleep(PAUSE).await;
            let channels = [&mut servers, &mut calls, &mut tools, &mut logs, &mut approvals];
            for (place, (news, channel)) in news.iter_mut().zip(channels).enumerate() {
                *news = place == first || channel.has_changed().unwrap_or(false);
                channel.mark_unchanged();
            }
        }
    });
    PageResponse { status: StatusCode::OK, headers: Vec::new(), body: PageBody::Events(receiver) }
}

fn dashboard_page() -> PageResponse {
    // `RandomState` takes its keys from the system's random numbers.
    let draw = || RandomState::new().build_hasher().finish();
    let nonce = format!("{:016x}{:016x}", draw(), draw());
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = PageResponse::text(StatusCode::OK, "text/html; charset=utf-8", dashboard::page(&nonce));
    let value = HeaderValue::from_str(&policy).expect("the policy is plain text");
    response.headers.push((HeaderName::from_static("content-security-policy"), value));
    response
        .with(CACHE_CONTROL, "no-store")
        .with(HeaderName::from_static("x-content-type-options"), "nosniff")
        .with(HeaderName::from_static("referrer-policy"), "no-referrer")
}

fn unauthorized(error: &str) -> PageResponse {
    failure(401, error).with(WWW_AUTHENTICATE, "Bearer")
}

fn not_allowed(method: &Method, allowed: &'static str) -> PageResponse {
    failure(405, &format!("{method} is not allowed here: use {allowed}")).with(ALLOW, allowed)
}

fn failure(status: u16, error: &str) -> PageResponse {
    json(status, json!({"error": error}).to_string())
}

fn json(status: u16, body: String) -> PageResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    PageResponse::text(status, "application/json", body).with(CACHE_CONTROL, "no-store")
}

/// The error for changes to a gateway without tokens.
const TOKEN: &str = "this needs a token: open the dashboard with the link that `toolgate serve --http` prints on a \
                     terminal, or give an admin a token in gateway.tokens";
/// The error for a path that the API does not have.
const NO_PAGE: &str = "the API has no such page: it has servers, servers/ID/enable, servers/ID/disable, \
                       servers/ID/reconnect, servers/ID/log, mcp/tools, mcp/tools/search, mcp/tools/cost, mcp/call, \
                       mcp/decide, mcp/resources, mcp/resources/read, mcp/prompts, mcp/prompts/get, approvals, \
                       approvals/ID, calls, history, shadow, access, rules, candidate, context, context/reset, context/adopt, \
                       events and metrics";
/// The methods of a read-only page.
const READ: &str = "GET, HEAD";
const PAUSE: Duration = Duration::from_millis(250);
