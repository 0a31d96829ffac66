//! The protected MCP server of 2025-11-25, with `read` for every token and `write` for tokens with that scope.

use http::Response;
use serde_json::{Value, json};

use super::world::{Seen, Sites, reply};

pub fn answer(sites: &Sites, seen: &Seen, path: &str) -> Response<String> {
    let (silent, names) = {
        let state = sites.state();
        (state.rules.silent, state.rules.names.clone())
    };
    if let Some(path) = path.strip_prefix(METADATA).filter(|_| !silent) {
        let resource = format!("{}{path}", sites.server);
        let metadata =
            json!({"resource": resource, "authorization_servers": [names.as_ref().unwrap_or(&sites.issuer)]});
        return reply(200, metadata.to_string());
    }
    match (path, scopes(sites, seen)) {
        ("/mcp", Some(scopes)) => mcp(sites, seen, path, &scopes),
        // It leads to somebody else.
        ("/moved", Some(_)) => {
            let mut response = reply(307, "");
            response.headers_mut().insert("location", format!("{}/mcp", sites.other).parse().unwrap());
            response
        }
        ("/mcp" | "/moved", None) => challenge(sites, seen, path, 401, ""),
        _ => reply(404, ""),
    }
}

/// Tools that everybody gets.
pub fn open_to_all(sites: &Sites, seen: &Seen) -> Response<String> {
    mcp(sites, seen, "/mcp", &["write".to_owned(), "erase".to_owned()])
}

fn mcp(sites: &Sites, seen: &Seen, path: &str, scopes: &[String]) -> Response<String> {
    if seen.method != "POST" {
        return reply(405, "");
    }
    let message: Value = serde_json::from_str(&seen.body).unwrap();
    let Some(id) = message.get("id") else { return reply(202, "") };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "guarded", "version": "1"},
        }),
        "tools/list" => json!({"tools": [
            {"name": "read", "inputSchema": {"type": "object"}},
            {"name": "write", "inputSchema": {"type": "object"}},
            {"name": "erase", "inputSchema": {"type": "object"}},
        ]}),
        "tools/call" => {
            let tool = message["params"]["name"].as_str().unwrap();
            let never = sites.state().rules.never_enough;
            if tool != "read" && (never || !scopes.iter().any(|scope| scope == tool)) {
                let more = format!(", error=\"insufficient_scope\", scope=\"{tool}\"");
                return challenge(sites, seen, path, 403, &more);
            }
            json!({"content": [{"type": "text", "text": format!("{tool} is done")}]})
        }
        other => {
            let error = json!({"code": -32601, "message": format!("no {other}")});
            return reply(200, json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        }
    };
    reply(200, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

/// What the token of a request allows, if it is good.
fn scopes(sites: &Sites, seen: &Seen) -> Option<Vec<String>> {
    let token = seen.authorization.as_deref()?.strip_prefix("Bearer ")?;
    sites.state().tokens.get(token).cloned()
}

fn challenge(sites: &Sites, seen: &Seen, path: &str, status: u16, more: &str) -> Response<String> {
    let repeats = sites.state().rules.repeats;
    let body = if repeats { format!("I was sent {:?}", seen.authorization) } else { "who are you?".to_owned() };
    let mut response = reply(status, body);
    let metadata = format!("{}{METADATA}{path}", sites.server);
    let value = match sites.state().rules.silent {
        true => "Bearer".to_owned(),
        false => format!("Bearer resource_metadata=\"{metadata}\"{more}"),
    };
    response.headers_mut().insert("www-authenticate", value.parse().unwrap());
    response
}

const METADATA: &str = "/.well-known/oauth-protected-resource";
