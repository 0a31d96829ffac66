//! Tests lost sessions and answers: what is retried, what is not, and what never runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use toolgate::failure::Failure;
use toolgate::logic::types::execution::Code;

use super::answers::{self, idless, legacy, legacy_with, message, modern, reply};
use super::server::{Answer, Seen, Server, event};
use super::{call, gate, open};
use crate::fixtures;

/// A server that forgets its sessions: the first `lost` calls meet the refusal, and are not run.
async fn forgetful(lost: usize, refusal: Refusal) -> (Server, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let (counted, sessions, calls) = (Arc::clone(&runs), AtomicUsize::new(0), AtomicUsize::new(0));
    let server = Server::start(move |seen| match seen.method() {
        "initialize" => {
            let session = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            legacy_with(seen, &format!("session-{session}"))
        }
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst) < lost => refusal(),
        method => {
            if method == "tools/call" {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            legacy_with(seen, &format!("session-{}", sessions.load(Ordering::SeqCst)))
        }
    });
    (server.await, runs)
}

type Refusal = fn() -> Answer;

/// How servers say that they do not know a session.
const REFUSALS: [(&str, Refusal); 4] = [
    ("404", || Answer::status("404 Not Found")),
    ("idless in 404", || idless("404 Not Found", "Session not found")),
    ("idless in 400", || idless("400 Bad Request", "Bad Request: No valid session ID provided")),
    ("foreign id in 404", || {
        let body = json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Session has been terminated"}});
        Answer::of("404 Not Found", "application/json", body)
    }),
];

#[tokio::test]
async fn a_lost_session_is_opened_again_once_and_the_tool_runs_once() {
    for (name, refusal) in REFUSALS {
        let (server, runs) = forgetful(1, refusal).await;
        let called = call(&gate(&server.url(), ""), "echo", "x").await.result;
        assert_eq!((called.code, called.text.as_str(), called.attempts), (Code::Ok, "x", 2), "{name}: {called:?}");
        assert_eq!((runs.load(Ordering::SeqCst), server.count("initialize")), (1, 2), "{name}");
        let sessions: Vec<_> =
            server.all("tools/call").iter().map(|seen| seen.header("mcp-session-id").to_owned()).collect();
        assert_eq!(sessions, ["session-1", "session-2"], "{name}");
    }
}

#[tokio::test]
async fn a_site_that_gives_up_each_connection_after_one_answer_runs_every_call_once() {
    for era in [legacy as fn(&Seen) -> Answer, modern] {
        let server = Server::start_with(era, 1).await;
        let gate = gate(&server.url(), "");
        for said in ["one", "two", "three"] {
            let called = call(&gate, "echo", said).await.result;
            assert_eq!((called.code, called.text.as_str(), called.attempts), (Code::Ok, said, 1), "{called:?}");
        }
        assert_eq!(server.count("tools/call"), 3);
    }
}

#[tokio::test]
async fn a_first_list_that_is_refused_is_asked_for_once_more() {
    let busy: Refusal = || Answer::status("503 Service Unavailable").with("Retry-After: 0");
    let long: Refusal = || Answer::status("503 Service Unavailable").with("Retry-After: 3600");
    for (name, refusal, times, lists, sessions) in [
        ("a lost session", REFUSALS[0].1, 1, 2, 2),
        ("busy", busy, 1, 2, 2),
        ("busy twice", busy, 2, 2, 2),
        ("busy for long", long, 1, 1, 1),
    ] {
        let asked = AtomicUsize::new(0);
        let server = Server::start(move |seen| match seen.method() {
            "tools/list" if asked.fetch_add(1, Ordering::SeqCst) < times => refusal(),
            _ => legacy(seen),
        });
        let server = server.await;
        let called = call(&gate(&server.url(), ""), "echo", "x").await.result;
        let expected = if lists > times { Code::Ok } else { Code::ServerUnavailable };
        assert_eq!(called.code, expected, "{name}: {called:?}");
        assert_eq!((server.count("tools/list"), server.count("initialize")), (lists, sessions), "{name}");
    }
}

#[tokio::test]
async fn a_session_that_is_lost_twice_is_told() {
    for (name, refusal) in REFUSALS {
        let (server, runs) = forgetful(usize::MAX, refusal).await;
        let called = call(&gate(&server.url(), ""), "echo", "x").await.result;
        assert!(called.is_error && called.code != Code::OutcomeUnknown, "{name}: {called:?}");
        assert_eq!((called.attempts, server.count("tools/call"), runs.load(Ordering::SeqCst)), (2, 2, 0), "{name}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_call_itself_is_no_lost_session() {
    let server = Server::start(|seen| match seen.method() {
        "tools/call" => {
            let body =
                json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32602, "message": "bad text"}});
            Answer::of("400 Bad Request", "application/json", body)
        }
        _ => legacy(seen),
    })
    .await;
    let called = call(&gate(&server.url(), ""), "echo", "x").await.result;
    assert_eq!((called.code, called.attempts), (Code::RpcError, 1), "{called:?}");
    assert_eq!((server.count("tools/call"), server.count("initialize")), (1, 1));
}

#[tokio::test]
async fn a_busy_server_is_asked_again_on_the_same_session() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.method() {
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 0 => {
            Answer::status("429 Too Many Requests").with("Retry-After: 1")
        }
        _ => legacy(seen),
    })
    .await;
    let called = call(&gate(&server.url(), ""), "echo", "x").await;
    assert_eq!((called.result.code, called.result.attempts), (Code::Ok, 2), "{:?}", called.result);
    assert!(called.latency >= std::time::Duration::from_secs(1), "{:?}", called.latency);
    assert_eq!((server.count("tools/call"), server.count("initialize")), (2, 1));
}

#[tokio::test]
async fn a_server_that_is_busy_for_longer_than_the_call_lasts_is_not_waited_for() {
    for retry_after in ["86400", "99999999999999999999"] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => Answer::status("429 Too Many Requests").with(&format!("Retry-After: {retry_after}")),
            _ => legacy(seen),
        })
        .await;
        let called = call(&gate(&server.url(), ""), "echo", "x").await;
        assert_eq!((called.result.code, called.result.attempts), (Code::Timeout, 1), "{:?}", called.result);
        // A call lasts a minute where nothing else is said.
        assert!(called.latency < std::time::Duration::from_secs(30), "{:?}", called.latency);
        assert_eq!(server.count("tools/call"), 1);
    }
}

#[tokio::test]
async fn what_may_have_run_is_repeated_only_where_that_is_safe() {
    type Loss = fn(&Seen) -> Answer;
    let losses: [(&str, Loss); 4] = [
        ("503", |_| Answer::status("503 Service Unavailable")),
        ("502", |_| Answer::of("502 Bad Gateway", "text/html", "<h1>Bad Gateway</h1>")),
        ("a stream that breaks", |_| Answer::Cut(Vec::new())),
        ("a stream that breaks after a word", |_| {
            Answer::Cut(vec![event(
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}),
            )])
        }),
    ];
    for era in [legacy as fn(&Seen) -> Answer, answers::modern] {
        for (name, loss) in losses {
            for (tool, code, attempts) in [("echo", Code::OutcomeUnknown, 1), ("look", Code::Ok, 2)] {
                let calls = AtomicUsize::new(0);
                let server = Server::start(move |seen| match seen.method() {
                    "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 0 => loss(seen),
                    _ => era(seen),
                })
                .await;
                let called = call(&gate(&server.url(), ""), tool, "x").await.result;
                assert_eq!((called.code, called.attempts), (code, attempts), "{name}, {tool}: {called:?}");
                assert_eq!(server.count("tools/call"), attempts as usize, "{name}, {tool}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_with_ids_is_taken_up_again_and_the_tool_runs_once() {
    let rest = Arc::new(std::sync::Mutex::new(None));
    let server = Server::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "tools/call") => {
            *rest.lock().unwrap() = Some(event(&message(seen, &answers::said(seen))));
            Answer::Cut(vec!["retry: 0\nid: one\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".to_owned()])
        }
        ("GET", _) if seen.header("last-event-id") == "one" => {
            let rest = rest.lock().unwrap().clone().unwrap();
            Answer::of("200 OK", "text/event-stream", rest)
        }
        _ => legacy(seen),
    })
    .await;
    let called = call(&gate(&server.url(), ""), "echo", "x").await.result;
    assert_eq!((called.code, called.text.as_str(), called.attempts), (Code::Ok, "x", 1), "{called:?}");
    assert_eq!(server.count("tools/call"), 1);
    let taken_up = server.wait(|seen| seen.header("last-event-id") == "one").await;
    assert_eq!(taken_up.header("mcp-session-id"), answers::SESSION);
}

#[tokio::test]
async fn an_error_without_an_id_fails_its_call_alone() {
    let server = Server::start(|seen| match seen.body["params"]["name"].as_str() {
        Some("echo") => idless("200 OK", "out of order"),
        _ => legacy(seen),
    })
    .await;
    let session = open(&server.url()).await;
    let (echo, look) =
        tokio::join!(fixtures::call(&session, "echo", "{}"), fixtures::call(&session, "look", r#"{"text":"y"}"#));
    let failed = echo.unwrap_err();
    assert!(matches!(&failed.failure, Failure::Rpc(error) if error.message == "out of order"), "{failed:?}");
    assert_eq!(fixtures::text(&look.unwrap()), "y");
}

#[tokio::test]
async fn an_answer_that_is_none_breaks_the_protocol() {
    type Strange = fn(&Seen) -> Answer;
    let rows: [(Strange, &str); 5] = [
        (|_| Answer::of("200 OK", "text/html", "<h1>welcome</h1>"), "content type text/html: <h1>welcome</h1>"),
        (|_| Answer::json(""), "HTTP status 200 and an empty body"),
        (|_| Answer::status("202 Accepted"), "HTTP status 202 and an empty body"),
        (|_| Answer::json("{\"half\":"), "not a message"),
        (|seen| reply(&Seen { body: json!({"id": 999}), ..seen.clone() }, &json!({})), "contains no answer"),
    ];
    for (strange, expected) in rows {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => strange(seen),
            _ => legacy(seen),
        })
        .await;
        let session = open(&server.url()).await;
        let failed = fixtures::call(&session, "echo", "{}").await.unwrap_err();
        let Failure::Protocol(how) = &failed.failure else { panic!("{expected}: {failed:?}") };
        assert!(how.contains(expected) && failed.sent, "{how}");
        let called = call(&gate(&server.url(), ""), "echo", "x").await.result;
        assert_eq!((called.code, called.attempts), (Code::OutcomeUnknown, 1), "{expected}: {called:?}");
    }
}

#[tokio::test]
async fn closing_while_a_call_is_under_way_does_not_run_it_again() {
    for era in [legacy as fn(&Seen) -> Answer, answers::modern] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => Answer::Silence,
            _ => era(seen),
        })
        .await;
        let gate = gate(&server.url(), "");
        let close = async {
            server.wait(|seen| seen.is("tools/call")).await;
            gate.registry().close().await;
        };
        let (called, ()) = tokio::join!(call(&gate, "echo", "x"), close);
        assert_eq!(called.result.code, Code::OutcomeUnknown, "{:?}", called.result);
        assert_eq!(server.count("tools/call"), 1);
    }
}
