//! The server that is guarded: MCP of 2025-11-25, with `read` for every token and `write` for those that allow it.

use http::Response;
use serde_json::{Value, json};

use super::world::{Seen, Sites, reply};

pub fn answer(sites: &Sites, seen: &Seen, path: &str) -> Response<String> {
    let base = &sites.server;
    match path {
        "/.well-known/oauth-protected-resource/mcp" => {
            let metadata = json!({"resource": format!("{base}/mcp"), "authorization_servers": [sites.issuer]});
            reply(200, metadata.to_string())
        }
        "/mcp" => mcp(sites, seen),
        // It leads to somebody else, once one is known.
        "/moved" if scopes(sites, seen).is_some() => {
            let mut response = reply(307, "");
            response.headers_mut().insert("location", format!("{}/mcp", sites.other).parse().unwrap());
            response
        }
        "/moved" => challenge(sites, seen, 401, ""),
        _ => reply(404, ""),
    }
}

fn mcp(sites: &Sites, seen: &Seen) -> Response<String> {
    let Some(scopes) = scopes(sites, seen) else { return challenge(sites, seen, 401, "") };
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
                return challenge(sites, seen, 403, &more);
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

fn challenge(sites: &Sites, seen: &Seen, status: u16, more: &str) -> Response<String> {
    let repeats = sites.state().rules.repeats;
    let body = if repeats { format!("I was sent {:?}", seen.authorization) } else { "who are you?".to_owned() };
    let mut response = reply(status, body);
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", sites.server);
    let value = format!("Bearer resource_metadata=\"{metadata}\"{more}");
    response.headers_mut().insert("www-authenticate", value.parse().unwrap());
    response
}
