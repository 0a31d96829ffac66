//! Servers of both eras behind one port, each with tools as real servers define them.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream::unfold;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Many servers in this process: those with even numbers are of 2026-07-28, the others of 2025-06-18.
pub struct Servers {
    /// Where they listen; each serves MCP at `/NUMBER/mcp`.
    pub address: SocketAddr,
    state: Arc<ServersState>,
}

struct ServersState {
    servers: Vec<ServerTools>,
    /// How many lists of tools were asked for.
    lists: AtomicUsize,
}

/// The tools of one server, which may change.
struct ServerTools {
    /// Each definition, with a comma before all but the first.
    definitions: Mutex<String>,
    /// How often the tools have changed.
    changes: watch::Sender<usize>,
}

impl Servers {
    /// Starts servers with this many tools each.
    pub async fn start(count: usize, tools: usize) -> Servers {
        let server = |number| {
            let definitions: Vec<String> = (0..tools).map(|tool| definition(number, tool)).collect();
            ServerTools { definitions: Mutex::new(definitions.join(",")), changes: watch::Sender::new(0) }
        };
        let state = Arc::new(ServersState { servers: (0..count).map(server).collect(), lists: AtomicUsize::new(0) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let routes = axum::Router::new().route("/{server}/mcp", post(answer).get(listen).delete(end));
        let routes = routes.with_state(Arc::clone(&state));
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            // Without this, some answers would wait for an acknowledgement.
            let _ = stream.set_nodelay(true);
        });
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Servers { address, state }
    }

    /// Returns how many lists of tools were asked for.
    pub fn lists(&self) -> usize {
        self.state.lists.load(Ordering::Relaxed)
    }

    /// Adds a tool to a server, which says so.
    pub fn grow(&self, server: usize) {
        let server = &self.state.servers[server];
        let mut changes = 0;
        server.changes.send_modify(|count| {
            *count += 1;
            changes = *count;
            let mut definitions = server.definitions.lock().expect("nothing panics");
            let _ = write!(definitions, r#",{{"name":"added_{changes}","inputSchema":{{"type":"object"}}}}"#);
        });
    }
}

/// Returns a definition of about 500 bytes.
fn definition(server: usize, tool: usize) -> String {
    let (verb, does) = VERBS[tool % VERBS.len()];
    let noun = NOUNS[(tool / VERBS.len() + server) % NOUNS.len()];
    let service = SERVICES[server % SERVICES.len()];
    let definition = json!({
        "name": format!("{verb}_{noun}_{tool}"),
        "description": format!(
            "{does} {noun} in {service}, within the project that the connection belongs to. Needs the id of the \
             {noun}, or a filter; what is not found is reported by name."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": format!("The id of the {noun}")},
                "filter": {"type": "string", "description": "Words that must occur"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            },
            "required": ["id"],
        },
        "annotations": {"readOnlyHint": tool.is_multiple_of(2)},
    });
    definition.to_string()
}

const VERBS: [(&str, &str); 5] = [
    ("list", "Lists every"),
    ("get", "Returns one"),
    ("create", "Creates a new"),
    ("update", "Changes an existing"),
    ("delete", "Removes an existing"),
];
const NOUNS: [&str; 12] = [
    "ticket",
    "invoice",
    "deployment",
    "dashboard",
    "branch",
    "customer",
    "message",
    "secret",
    "volume",
    "schedule",
    "report",
    "contract",
];
const SERVICES: [&str; 8] =
    ["the tracker", "billing", "the cluster", "monitoring", "the code host", "the shop", "the chat", "the archive"];

/// Answers a message.
async fn answer(
    State(state): State<Arc<ServersState>>,
    Path(number): Path<usize>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let Ok(message) = serde_json::from_str::<Value>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    let id = &message["id"];
    if id.is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let is_modern = number.is_multiple_of(2);
    let more = if is_modern { r#","resultType":"complete","ttlMs":3600000,"cacheScope":"public""# } else { "" };
    let server = &state.servers[number];
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" if is_modern => {
            let capabilities = r#"{"tools":{"listChanged":true}}"#;
            format!(r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities}{more}}}"#)
        }
        "subscriptions/listen" if is_modern => return changes(server, Some(id.clone())),
        "initialize" if !is_modern => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": format!("server-{number}"), "version": "1"},
        })
        .to_string(),
        "tools/list" => {
            state.lists.fetch_add(1, Ordering::Relaxed);
            let definitions = server.definitions.lock().expect("nothing panics");
            format!(r#"{{"tools":[{definitions}]{more}}}"#)
        }
        "tools/call" => {
            let more = if is_modern { r#","resultType":"complete""# } else { "" };
            format!(r#"{{"content":[{{"type":"text","text":"done"}}]{more}}}"#)
        }
        "ping" if !is_modern => "{}".to_owned(),
        _ => {
            let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}});
            let status = if headers.contains_key("mcp-method") { StatusCode::NOT_FOUND } else { StatusCode::OK };
            return (status, [JSON], error.to_string()).into_response();
        }
    };
    ([JSON], format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).into_response()
}

/// Opens the stream of a server of 2025-06-18.
async fn listen(State(state): State<Arc<ServersState>>, Path(number): Path<usize>) -> Response {
    match number.is_multiple_of(2) {
        true => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        false => changes(&state.servers[number], None),
    }
}

async fn end() -> StatusCode {
    StatusCode::OK
}

/// Tells each change of a server's tools; to a subscription with its id.
fn changes(server: &ServerTools, subscription: Option<Value>) -> Response {
    let meta = subscription.map(|id| json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}}));
    let acknowledged = meta.clone().map(|mut params| {
        params["notifications"] = json!({"toolsListChanged": true});
        notification("notifications/subscriptions/acknowledged", Some(params))
    });
    let changed = notification("notifications/tools/list_changed", meta);
    let state = (server.changes.subscribe(), acknowledged);
    let events = unfold(state, move |(mut changes, first)| {
        let changed = changed.clone();
        async move {
            let data = match first {
                Some(first) => first,
                None => {
                    changes.changed().await.ok()?;
                    changed
                }
            };
            Some((Ok::<_, Infallible>(Event::default().data(data)), (changes, None)))
        }
    });
    Sse::new(events).into_response()
}

fn notification(method: &str, params: Option<Value>) -> String {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
        None => json!({"jsonrpc": "2.0", "method": method}).to_string(),
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
