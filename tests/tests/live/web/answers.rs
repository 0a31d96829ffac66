//! The default answers of a server of each era.

use serde_json::{Value, json};

use super::server::{Answer, Seen};

/// The id that a legacy server gives to its only session.
pub const SESSION: &str = "session-1";

/// A server of the initialize era: all but `initialize` needs its session, and `server/discover` is unknown to it.
pub fn legacy(seen: &Seen) -> Answer {
    legacy_with(seen, SESSION)
}

/// Answers as a server of the initialize era, with a session of this name.
pub fn legacy_with(seen: &Seen, session: &str) -> Answer {
    match (seen.verb.as_str(), seen.method()) {
        ("DELETE", _) => return Answer::status("204 No Content"),
        ("GET", _) => return Answer::status("405 Method Not Allowed"),
        (_, "initialize") => {
            return reply(seen, &initialized()).with(&format!("Mcp-Session-Id: {session}"));
        }
        _ => {}
    }
    if seen.header("mcp-session-id") != session {
        return idless("400 Bad Request", "Bad Request: No valid session ID provided");
    }
    match seen.method() {
        "tools/list" => reply(seen, &json!({"tools": tools()})),
        "tools/call" => reply(seen, &said(seen)),
        "" | "notifications/initialized" | "notifications/cancelled" => Answer::status("202 Accepted"),
        _ => error(seen, -32601, "Method not found"),
    }
}

/// A server of 2026-07-28.
pub fn modern(seen: &Seen) -> Answer {
    match (seen.verb.as_str(), seen.method()) {
        ("POST", "server/discover") => reply(seen, &discovered()),
        ("POST", "tools/list") => reply(seen, &json!({"resultType": "complete", "tools": tools(), "ttlMs": 600_000})),
        ("POST", "tools/call") => reply(seen, &said(seen)),
        ("POST", _) => error(seen, -32601, "Method not found"),
        _ => Answer::status("405 Method Not Allowed"),
    }
}

/// What `initialize` comes to.
pub fn initialized() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "old", "version": "1"}})
}

/// What `server/discover` comes to.
pub fn discovered() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}}})
}

/// `echo` may not be repeated, `look` may.
pub fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    json!([{"name": "echo", "inputSchema": schema},
        {"name": "look", "inputSchema": schema, "annotations": {"readOnlyHint": true}}])
}

/// The result of a call: the text that it was given.
pub fn said(seen: &Seen) -> Value {
    let text = seen.body["params"]["arguments"]["text"].as_str().unwrap_or("nothing");
    json!({"content": [{"type": "text", "text": text}]})
}

/// An answer as a message.
pub fn message(seen: &Seen, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result})
}

/// An answer in one piece.
pub fn reply(seen: &Seen, result: &Value) -> Answer {
    Answer::json(message(seen, result))
}

/// A JSON-RPC error for the request.
pub fn error(seen: &Seen, code: i64, text: &str) -> Answer {
    Answer::json(json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": code, "message": text}}))
}

/// A refusal as the TypeScript servers write it.
pub fn idless(status: &str, text: &str) -> Answer {
    let body = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": text}, "id": null});
    Answer::of(status, "application/json", body)
}
