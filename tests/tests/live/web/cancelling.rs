//! Tests cancelled calls, and sessions that end.

use std::time::Duration;

use serde_json::json;
use toolgate::failure::{Failure, RequestError};
use toolgate::logic::types::execution::Code;
use toolgate::session::{Session, SessionOptions};
use toolgate::transport::endpoint::Endpoint;

use super::answers::{SESSION, initialized, legacy, message, modern, said, tools};
use super::server::{Answer, Feed, Seen, Server};
use super::{gate, open, site};
use crate::fixtures::{LONG, call, call_within, text};

/// How a server may leave a call without an answer: with nothing, or with a stream that brings nothing.
fn unanswered(stream: bool, feed: &Feed) -> Answer {
    if stream { feed.answer() } else { Answer::Silence }
}

#[tokio::test]
async fn dropping_a_modern_call_closes_its_stream_and_says_no_more() {
    for stream in [false, true] {
        let feed = Feed::default();
        let server = Server::start(move |seen| match seen.body["params"]["name"].as_str() {
            Some("echo") => unanswered(stream, &feed),
            _ => modern(seen),
        })
        .await;
        let session = open(&server.url()).await;
        tokio::select! {
            biased;
            answered = call(&session, "echo", "{}") => panic!("{answered:?}"),
            _ = server.wait(|seen| seen.is("tools/call")) => {}
        }
        server.wait(|seen| seen.gone_from("tools/call")).await;
        assert_eq!(text(&call(&session, "look", r#"{"text":"x"}"#).await.unwrap()), "x");
        assert_eq!(server.count("notifications/cancelled"), 0);
    }
}

#[tokio::test]
async fn a_legacy_server_is_told_of_a_call_that_is_dropped_or_late() {
    for (stream, late) in [(false, false), (true, false), (false, true), (true, true)] {
        let feed = Feed::default();
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => unanswered(stream, &feed),
            _ => legacy(seen),
        })
        .await;
        let session = open(&server.url()).await;
        if late {
            let failed = call_within(&session, "echo", "{}", Duration::from_millis(50)).await.unwrap_err();
            assert!(failed.sent && matches!(failed.failure, Failure::Timeout { .. }), "{failed:?}");
        } else {
            tokio::select! {
                biased;
                answered = call(&session, "echo", "{}") => panic!("{answered:?}"),
                _ = server.wait(|seen| seen.is("tools/call")) => {}
            }
        }
        let told = server.wait(|seen| seen.is("notifications/cancelled")).await;
        let asked = server.wait(|seen| seen.is("tools/call")).await;
        assert_eq!(told.body["params"]["requestId"], asked.body["id"]);
        assert_eq!((told.header("mcp-session-id"), told.body.get("id")), (SESSION, None));
    }
}

#[tokio::test]
async fn closing_says_goodbye_once_and_only_where_there_is_a_session() {
    let server = Server::start(legacy).await;
    let session = open(&server.url()).await;
    tokio::join!(session.close(), session.close());
    session.close().await;
    let goodbyes: Vec<_> = server.seen().into_iter().filter(|seen| seen.verb == "DELETE").collect();
    assert_eq!(goodbyes.len(), 1);
    assert_eq!(goodbyes[0].header("mcp-session-id"), SESSION);
    assert_eq!(goodbyes[0].header("mcp-protocol-version"), "2025-06-18");
    assert!(matches!(call(&session, "echo", "{}").await, Err(RequestError { failure: Failure::Closed, sent: false })));
    assert_eq!(server.count("tools/call"), 0);

    let server = Server::start(modern).await;
    open(&server.url()).await.close().await;
    assert!(server.seen().iter().all(|seen| seen.verb == "POST"));
}

/// A server of 2024-11-05 that treats a call in its own way; `feed` is its stream.
async fn elder(feed: Feed, on_call: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => {
            let answer = feed.answer();
            feed.raw("event: endpoint\ndata: /messages\n\n");
            answer
        }
        (_, "tools/call") => on_call(seen),
        (_, method) => {
            match method {
                "initialize" => feed.send(&message(seen, &initialized())),
                "tools/list" => feed.send(&message(seen, &json!({"tools": tools()}))),
                _ => {}
            }
            Answer::status("202 Accepted")
        }
    })
    .await
}

#[tokio::test]
async fn a_post_of_the_older_way_that_is_not_acknowledged_may_have_arrived() {
    let server = elder(Feed::default(), |_| Answer::Silence).await;
    let session = Session::open(&Endpoint::Sse(site(&server.url())), &SessionOptions::default()).await.unwrap();
    let limit = Duration::from_millis(200);
    let (failed, _) =
        tokio::join!(call_within(&session, "echo", "{}", limit), server.wait(|seen| seen.is("tools/call")));
    let failed = failed.unwrap_err();
    assert!(matches!(failed.failure, Failure::Timeout { .. }), "{failed:?}");
    assert!(failed.sent, "the server has read it");
    server.wait(|seen| seen.is("notifications/cancelled")).await;
}

#[tokio::test]
async fn a_call_of_the_older_way_whose_stream_ends_is_not_run_again() {
    // The server ends the stream before it acknowledges the call that it has begun to run.
    let feed = Feed::default();
    let ended = feed.clone();
    let server = elder(feed, move |_| {
        ended.end();
        Answer::Silence
    })
    .await;
    let gate = gate(&server.url(), "    transport: sse\n");
    let called = tokio::time::timeout(LONG, super::call(&gate, "echo", "x")).await.unwrap().result;
    assert_eq!((called.code, called.attempts), (Code::OutcomeUnknown, 1), "{called:?}");
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_stream_of_the_older_way_that_ended_between_two_calls_is_opened_again() {
    let feed = Feed::default();
    let events = feed.clone();
    let server = elder(feed.clone(), move |seen| {
        events.send(&message(seen, &said(seen)));
        Answer::status("202 Accepted")
    })
    .await;
    let gate = gate(&server.url(), "    transport: sse\n");
    for text in ["one", "two"] {
        let called = super::call(&gate, "echo", text).await.result;
        assert_eq!((called.code, called.text.as_str(), called.attempts), (Code::Ok, text, 1), "{called:?}");
        let session = gate.registry().link("a").unwrap().current().unwrap();
        let mut event = session.events();
        feed.end();
        while session.close_reason().is_none() {
            let _ = tokio::time::timeout(LONG, event.recv()).await.unwrap();
        }
    }
    assert_eq!((server.count("tools/call"), server.count("initialize")), (2, 2));
}
