//! Tests how the era and the transport of a server at a URL are detected.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolgate::failure::Failure;
use toolgate::session::{Era, ListKind, Protocol, Session, SessionOptions};
use toolgate::transport::endpoint::Endpoint;

use super::answers::{self, SESSION, error, idless, initialized, legacy, message, modern, reply};
use super::server::{Answer, Feed, Seen, Server};
use super::{open, site};
use crate::fixtures::{call, text};

#[tokio::test]
async fn a_modern_server_is_found_by_one_question_with_its_headers() {
    let server = Server::start(modern).await;
    let session = open(&server.url()).await;
    let peer = session.peer();
    assert_eq!((peer.era, peer.version.as_str(), peer.transport), (Era::Modern, "2026-07-28", "http"));
    assert_eq!(peer.name.as_deref(), Some("new"));
    assert_eq!(text(&call(&session, "echo", r#"{"text":"hello"}"#).await.unwrap()), "hello");
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "{seen:#?}");
    for (seen, method) in seen.iter().zip(["server/discover", "tools/call"]) {
        assert_eq!((seen.verb.as_str(), seen.method()), ("POST", method));
        assert_eq!(seen.header("mcp-protocol-version"), "2026-07-28");
        assert_eq!(seen.header("mcp-method"), method);
        assert_eq!(seen.header("content-type"), "application/json");
        assert_eq!(seen.header("accept"), "application/json, text/event-stream");
        let meta = &seen.body["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolgate");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
    }
    assert!(!seen[0].headers.contains_key("mcp-name"));
    assert_eq!(seen[1].header("mcp-name"), "echo");
}

#[tokio::test]
async fn a_server_that_refuses_a_version_that_it_speaks_is_asked_once_more() {
    for (refusals, opens) in [(1, true), (2, false)] {
        let left = AtomicUsize::new(refusals);
        let server = Server::start(move |seen| {
            let refuse = |left: usize| left.checked_sub(1);
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, refuse).is_err() {
                return modern(seen);
            }
            let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            let error = json!({"code": -32022, "message": "Unsupported protocol version", "data": data});
            let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error});
            Answer::of("400 Bad Request", "application/json", body)
        })
        .await;
        let opened = Session::open(&Endpoint::Http(site(&server.url())), &SessionOptions::default()).await;
        assert_eq!(opened.is_ok(), opens, "{refusals}");
        assert_eq!(server.count("server/discover"), 2, "{refusals}");
    }
}

#[tokio::test]
async fn marked_arguments_travel_in_headers_and_tools_with_bad_marks_are_left_out() {
    let server = Server::start(|seen| match seen.method() {
        "tools/list" => {
            let tool = |name: &str, property: Value| json!({"name": name, "inputSchema": {"type": "object", "properties": {"at": property}}});
            let tools = json!([
                tool("good", json!({"type": "string", "x-mcp-header": "At"})),
                tool("empty", json!({"type": "string", "x-mcp-header": ""})),
                tool("spaced", json!({"type": "string", "x-mcp-header": "a b"})),
                tool("whole", json!({"type": "object", "x-mcp-header": "At"})),
                tool("bare", json!({"type": "string"})),
            ]);
            reply(seen, &json!({"resultType": "complete", "tools": tools}))
        }
        _ => modern(seen),
    })
    .await;
    let session = open(&server.url()).await;
    let tools = session.list(ListKind::Tools).await.unwrap();
    let names: Vec<Value> =
        tools.items.iter().map(|tool| serde_json::from_str::<Value>(tool.get()).unwrap()["name"].clone()).collect();
    assert_eq!(names, ["good", "bare"]);
    for (tool, arguments) in
        [("good", r#"{"at":"Berlin"}"#), ("good", r#"{"at":"Köln"}"#), ("good", "{}"), ("bare", r#"{"at":"x"}"#)]
    {
        call(&session, tool, arguments).await.unwrap();
    }
    let shown: Vec<_> = server.all("tools/call").iter().map(|seen| seen.header("mcp-param-at").to_owned()).collect();
    assert_eq!(shown, ["Berlin", "=?base64?S8O2bG4=?=", "", ""]);
}

#[tokio::test]
async fn a_server_that_does_not_know_the_question_is_initialized() {
    type Refusal = fn(&Seen) -> Answer;
    let refusals: [(&str, Refusal); 9] = [
        ("400", |_| Answer::status("400 Bad Request")),
        ("404", |_| Answer::of("404 Not Found", "text/html", "<h1>not here</h1>")),
        ("405", |_| Answer::status("405 Method Not Allowed")),
        ("method not found", |seen| error(seen, -32601, "Method not found")),
        ("idless in 400", |_| idless("400 Bad Request", "Bad Request: No valid session ID provided")),
        ("idless in 200", |_| idless("200 OK", "Server not initialized")),
        ("foreign id in 400", |_| foreign("400 Bad Request", "Bad Request: Missing session ID")),
        ("500", |_| Answer::of("500 Internal Server Error", "text/plain", "KeyError")),
        ("503", |_| Answer::status("503 Service Unavailable")),
    ];
    for (name, refusal) in refusals {
        let server = Server::start(move |seen| match seen.method() {
            "server/discover" => refusal(seen),
            _ => legacy(seen),
        })
        .await;
        let session = open(&server.url()).await;
        assert_eq!((session.peer().era, session.peer().version.as_str()), (Era::Legacy, "2025-06-18"), "{name}");
        assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x", "{name}");
        let posts: Vec<_> = server.seen().into_iter().filter(|seen| seen.verb == "POST").collect();
        let methods: Vec<_> = posts.iter().map(Seen::method).collect();
        assert_eq!(methods, ["server/discover", "initialize", "notifications/initialized", "tools/call"], "{name}");
        let sessions: Vec<_> = posts.iter().map(|seen| seen.header("mcp-session-id")).collect();
        assert_eq!(sessions, ["", "", SESSION, SESSION], "{name}: the session is echoed");
        let versions: Vec<_> = posts.iter().map(|seen| seen.header("mcp-protocol-version")).collect();
        assert_eq!(versions, ["2026-07-28", "", "2025-06-18", "2025-06-18"], "{name}");
    }
}

#[tokio::test]
async fn a_session_that_came_with_a_refusal_is_not_taken_to_the_handshake() {
    let server = Server::start(|seen| match seen.method() {
        "server/discover" => error(seen, -32601, "Method not found").with("Mcp-Session-Id: stray"),
        _ => legacy(seen),
    })
    .await;
    let session = open(&server.url()).await;
    assert_eq!(server.all("initialize")[0].header("mcp-session-id"), "");
    assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x");
    assert_eq!(server.all("tools/call")[0].header("mcp-session-id"), SESSION);
}

#[tokio::test]
async fn a_server_that_wants_a_login_is_asked_once() {
    for (status, code) in [("401 Unauthorized", 401), ("403 Forbidden", 403)] {
        let server =
            Server::start(move |_| Answer::status(status).with("WWW-Authenticate: Bearer realm=\"tools\"")).await;
        let failed =
            Session::open(&Endpoint::Http(site(&server.url())), &SessionOptions::default()).await.err().unwrap();
        let Failure::Http(error) = &failed.failure else { panic!("{failed:?}") };
        assert_eq!((error.status, error.challenge.as_deref()), (code, Some("Bearer realm=\"tools\"")));
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_site_that_refuses_initialize_is_tried_the_way_before() {
    type Refusal = fn(&Seen) -> Answer;
    let refusals: [(&str, Refusal); 5] = [
        ("400", |_| Answer::status("400 Bad Request")),
        ("404", |_| Answer::of("404 Not Found", "text/html", "Cannot POST /mcp")),
        ("405", |_| Answer::of("405 Method Not Allowed", "application/json", r#"{"detail":"Method Not Allowed"}"#)),
        ("idless in 405", |_| idless("405 Method Not Allowed", "Method not allowed.")),
        ("foreign id in 400", |_| foreign("400 Bad Request", "Bad Request")),
    ];
    for (name, refusal) in refusals {
        let feed = Feed::default();
        let events = feed.clone();
        let server = Server::start(move |seen| match (seen.verb.as_str(), seen.path.as_str()) {
            ("GET", "/mcp") => {
                let answer = events.answer();
                events.raw("event: endpoint\ndata: /messages?session=1\n\n");
                answer
            }
            ("POST", "/messages?session=1") => {
                match seen.method() {
                    "initialize" => events.send(&message(seen, &initialized())),
                    "tools/call" => events.send(&message(seen, &answers::said(seen))),
                    _ => {}
                }
                Answer::status("202 Accepted")
            }
            _ => refusal(seen),
        })
        .await;
        let session = open(&server.url()).await;
        assert_eq!((session.peer().era, session.peer().transport), (Era::Legacy, "sse"), "{name}");
        assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x", "{name}");
    }
}

#[tokio::test]
async fn what_a_site_without_any_mcp_says_is_told() {
    for (answer, expected) in [
        ((|| Answer::of("404 Not Found", "text/plain", "no such page")) as fn() -> Answer, "no such page"),
        (|| foreign("400 Bad Request", "say please"), "say please"),
        (|| idless("400 Bad Request", "say please"), "say please"),
    ] {
        let server = Server::start(move |_| answer()).await;
        let failed =
            Session::open(&Endpoint::Http(site(&server.url())), &SessionOptions::default()).await.err().unwrap();
        assert!(failed.to_string().contains(expected), "{failed:?}");
    }
}

#[tokio::test]
async fn the_setting_says_which_era_is_spoken() {
    let options = |protocol| SessionOptions { protocol, ..SessionOptions::default() };
    let open =
        async |server: &Server, protocol| Session::open(&Endpoint::Http(site(&server.url())), &options(protocol)).await;
    let server = Server::start(legacy).await;
    assert_eq!(open(&server, Protocol::Legacy).await.unwrap().peer().era, Era::Legacy);
    assert_eq!(server.count("server/discover"), 0);
    assert!(open(&server, Protocol::Modern).await.is_err());
    assert_eq!((server.count("server/discover"), server.count("initialize")), (1, 1));
    let server = Server::start(modern).await;
    assert_eq!(open(&server, Protocol::Modern).await.unwrap().peer().era, Era::Modern);
    assert!(open(&server, Protocol::Legacy).await.is_err());
    assert_eq!((server.count("server/discover"), server.count("initialize")), (1, 1));
    for (protocol, method) in [("legacy", "initialize"), ("2026-07-28", "server/discover")] {
        let server = Server::start(|seen| if seen.method() == "server/discover" { modern(seen) } else { legacy(seen) });
        let server = server.await;
        let gate = super::gate(&server.url(), &format!("    protocol: {protocol}\n"));
        gate.registry().link("a").unwrap().session().await.unwrap();
        assert_eq!(server.seen()[0].method(), method);
    }
}

/// A refusal as the Python servers write it.
fn foreign(status: &str, text: &str) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": text}});
    Answer::of(status, "application/json", body)
}
