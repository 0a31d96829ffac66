//! Tests sessions over WebSocket, in both eras.

mod frames;

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolgate::failure::Failure;
use toolgate::session::{Era, ListKind, ServerEvent, Session, SessionOptions};
use toolgate::transport::endpoint::{Endpoint, RemoteSite};

use super::answers::{discovered, initialized, tools};
use super::site;
use crate::fixtures::{LONG, call, text};
use frames::Socket;

/// Opens a session and takes the server's end of it; `result` gives the results of the methods that it knows.
async fn open(result: fn(&str) -> Option<Value>) -> (Session, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let headers = vec![("X-Team".to_owned(), "blue".to_owned())];
    let endpoint = Endpoint::WebSocket(RemoteSite { headers, ..site(&url) });
    let serve = async {
        let mut socket = Socket::accept(&listener).await;
        assert_eq!((socket.handshake.header("x-team"), socket.handshake.path.as_str()), ("blue", "/ws"));
        assert_eq!(socket.handshake.header("sec-websocket-protocol"), "mcp");
        loop {
            let message = socket.next().await.expect("the session begins");
            let id = &message["id"];
            match result(message["method"].as_str().unwrap()) {
                _ if id.is_null() => break socket,
                Some(result) => socket.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await,
                None => {
                    let error = json!({"code": -32601, "message": "Method not found"});
                    socket.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
                }
            }
            // A modern session has begun with the answer to its first question.
            if message["method"] == "server/discover" && result("server/discover").is_some() {
                break socket;
            }
        }
    };
    let options = SessionOptions::default();
    let both = async { tokio::join!(Session::open(&endpoint, &options), serve) };
    let (session, socket) = tokio::time::timeout(LONG, both).await.unwrap();
    (session.unwrap_or_else(|failed| panic!("{failed:?}")), socket)
}

fn old(method: &str) -> Option<Value> {
    (method == "initialize").then(initialized)
}

fn new(method: &str) -> Option<Value> {
    (method == "server/discover").then(discovered)
}

#[tokio::test]
async fn both_eras_are_spoken() {
    for (result, era) in [(old as fn(&str) -> Option<Value>, Era::Legacy), (new, Era::Modern)] {
        let (session, mut socket) = open(result).await;
        assert_eq!((session.peer().era, session.peer().transport), (era, "websocket"));
        let serve = async {
            for _ in 0..2 {
                let message = socket.next().await.unwrap();
                let meta = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
                assert_eq!(meta == "2026-07-28", era == Era::Modern);
                let result = match message["method"].as_str().unwrap() {
                    "tools/list" => json!({"tools": tools()}),
                    _ => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}),
                };
                socket.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).await;
            }
        };
        let ask = async {
            assert_eq!(session.list(ListKind::Tools).await.unwrap().items.len(), 2);
            assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x");
        };
        tokio::join!(ask, serve);
        tokio::join!(session.close(), async { assert!(socket.next().await.is_none()) });
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_in_both_eras() {
    for result in [old as fn(&str) -> Option<Value>, new] {
        let (session, mut socket) = open(result).await;
        let asked = tokio::select! {
            biased;
            answered = call(&session, "echo", "{}") => panic!("{answered:?}"),
            asked = socket.next() => asked.unwrap(),
        };
        let told = socket.next().await.unwrap();
        assert_eq!(told["method"], "notifications/cancelled");
        assert_eq!(told["params"]["requestId"], asked["id"]);
    }
}

#[tokio::test]
async fn questions_are_answered_and_news_heard() {
    let (session, mut socket) = open(old).await;
    let mut event = session.events();
    socket.send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    assert_eq!(socket.next().await.unwrap(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    socket.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    assert!(matches!(tokio::time::timeout(LONG, event.recv()).await.unwrap(), Ok(ServerEvent::ToolsChanged)));
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_call_may_have_delivered_it() {
    for result in [old as fn(&str) -> Option<Value>, new] {
        let (session, mut socket) = open(result).await;
        let serve = async move {
            socket.next().await.unwrap();
            drop(socket);
        };
        let (failed, ()) = tokio::join!(call(&session, "echo", "{}"), serve);
        let failed = failed.unwrap_err();
        assert!(failed.sent && failed.failure == Failure::Closed, "{failed:?}");
        assert!(!call(&session, "echo", "{}").await.unwrap_err().sent);
    }
}

#[tokio::test]
async fn a_call_that_left_is_known_to_have_left_though_nobody_looked_meanwhile() {
    let (session, mut socket) = open(old).await;
    let mut event = session.events();
    let mut call = std::pin::pin!(call(&session, "echo", "{}"));
    // One look hands the message over; the next comes when all is over.
    assert!(call.as_mut().now_or_never().is_none());
    socket.next().await.unwrap();
    drop(socket);
    while session.close_reason().is_none() {
        let _ = tokio::time::timeout(LONG, event.recv()).await.unwrap();
    }
    let failed = call.await.unwrap_err();
    assert!(failed.sent && failed.failure == Failure::Closed, "{failed:?}");
}
