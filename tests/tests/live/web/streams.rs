//! Tests messages on streams: progress, questions, notifications, and results that require input.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate::failure::{Failure, RpcError};
use toolgate::session::{
    Handler, ListKind, Progress, RequestTimeouts, ServerEvent, ServerQuestion, SessionOptions, SessionRequest, Topics,
};
use toolgate::transport::BoxFuture;

use super::answers::{self, SESSION, legacy, message, modern, reply};
use super::server::{Answer, Feed, Seen, Server, event};
use super::{open, open_with};
use crate::fixtures::{Basket, LONG, call, text};

/// Says its name to whoever asks.
struct Person;

impl Handler for Person {
    fn topics(&self) -> Topics {
        Topics { elicitation: true, ..Topics::default() }
    }

    fn answer(&self, _: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let answer = json!({"action": "accept", "content": {"name": "n"}});
        Box::pin(async move { Ok(RawValue::from_string(answer.to_string()).unwrap()) })
    }
}

fn with_person() -> SessionOptions {
    SessionOptions { handler: Arc::new(Person), ..SessionOptions::default() }
}

#[tokio::test]
async fn an_answer_may_come_as_an_event_among_others() {
    for era in [legacy as fn(&Seen) -> Answer, modern] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => {
                let answer = message(seen, &answers::said(seen)).to_string();
                let (start, end) = answer.split_at(answer.find(',').unwrap() + 1);
                let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "busy"}});
                let body = format!(
                    ": hello\n\n{}event: other\ndata: 1\n\nid: 7\r\ndata: {start}\r\ndata:{end}\r\n\r\n",
                    event(&log)
                );
                Answer::of("200 OK", "text/event-stream; charset=utf-8", body)
            }
            _ => era(seen),
        })
        .await;
        let session = open(&server.url()).await;
        let mut news = session.events();
        assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x");
        assert!(matches!(news.try_recv(), Ok(ServerEvent::Log { data, .. }) if data.get() == "\"busy\""));
    }
}

#[tokio::test]
async fn events_that_are_no_messages_are_passed_over_where_the_answer_follows() {
    let noise = "data: ping\n\ndata: {\"level\":\"info\",\"id\":1}\n\n";
    for (era, answers) in [(legacy as fn(&Seen) -> Answer, true), (modern, true), (legacy, false), (modern, false)] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => {
                let answer = if answers { event(&message(seen, &answers::said(seen))) } else { String::new() };
                Answer::of("200 OK", "text/event-stream", format!("{noise}{answer}data: [DONE]\n\n"))
            }
            _ => era(seen),
        })
        .await;
        let session = open(&server.url()).await;
        match call(&session, "echo", r#"{"text":"x"}"#).await {
            Ok(result) => assert!(answers && text(&result) == "x", "{result}"),
            Err(failed) => {
                let said = failed.to_string();
                assert!(!answers && said.ends_with("had an event that is not a message: [DONE]"), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn questions_on_the_stream_of_a_call_are_answered_by_post() {
    let (feed, call_seen) = (Feed::default(), Mutex::new(Seen::default()));
    let got = Mutex::new(Vec::new());
    let server = Server::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "tools/call") => {
            *call_seen.lock().unwrap() = seen.clone();
            let answer = feed.answer();
            feed.send(&json!({"jsonrpc": "2.0", "id": "ask-1", "method": "elicitation/create", "params": {"message": "who?"}}));
            feed.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
            feed.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "roots/list"}));
            answer
        }
        ("POST", "") if !seen.body.is_null() => {
            let mut got = got.lock().unwrap();
            got.push(seen.body.clone());
            if got.len() == 3 {
                let said = json!({"content": [{"type": "text", "text": json!(*got).to_string()}]});
                feed.send(&message(&call_seen.lock().unwrap(), &said));
                feed.end();
            }
            legacy(seen)
        }
        _ => legacy(seen),
    })
    .await;
    let session = open_with(&server.url(), &with_person()).await;
    let result = call(&session, "echo", "{}").await.unwrap();
    let got: Vec<Value> = serde_json::from_str(text(&result)).unwrap();
    let of = |id: Value| got.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(json!("ask-1"))["result"]["content"]["name"], "n");
    assert_eq!(of(json!(7))["result"], json!({}));
    assert_eq!(of(json!(8))["jsonrpc"], "2.0");
    for seen in server.all("").iter().filter(|seen| !seen.body.is_null()) {
        assert_eq!((seen.header("mcp-session-id"), seen.header("mcp-protocol-version")), (SESSION, "2025-06-18"));
    }
}

#[tokio::test]
async fn questions_and_news_on_the_servers_own_stream_are_heard() {
    let feed = Feed::default();
    let (events, grown) = (feed.clone(), Mutex::new(false));
    let server = Server::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => events.answer(),
        ("POST", "tools/list") if std::mem::replace(&mut *grown.lock().unwrap(), true) => {
            reply(seen, &json!({"tools": [{"name": "third", "inputSchema": {}}]}))
        }
        _ => legacy(seen),
    })
    .await;
    let session = open_with(&server.url(), &with_person()).await;
    assert_eq!(session.list(ListKind::Tools).await.unwrap().items.len(), 2);
    let stream = server.wait(|seen| seen.verb == "GET").await;
    assert_eq!((stream.header("accept"), stream.header("mcp-session-id")), ("text/event-stream", SESSION));
    assert_eq!(stream.header("mcp-protocol-version"), "2025-06-18");
    feed.send(&json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {}}));
    let answer = server.wait(|seen| seen.body["id"] == "q").await;
    assert_eq!((answer.verb.as_str(), &answer.body["result"]["action"]), ("POST", &json!("accept")));
    assert_eq!(answer.header("mcp-session-id"), SESSION);
    let mut event = session.events();
    feed.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let changed = tokio::time::timeout(LONG, event.recv()).await.unwrap().unwrap();
    assert!(matches!(changed, ServerEvent::ToolsChanged), "{changed:?}");
    assert_eq!(session.list(ListKind::Tools).await.unwrap().items.len(), 1);
    session.close().await;
    server.wait(|seen| seen.verb == "GONE").await;
}

#[tokio::test]
async fn progress_on_the_stream_extends_the_wait() {
    let server = Server::start(|seen| match seen.method() {
        "tools/call" => {
            let feed = Feed::default();
            let answer = feed.answer();
            let token = seen.body["params"]["_meta"]["progressToken"].clone();
            let done = message(seen, &answers::said(seen));
            // The time that passes is what the test is about: it is longer than the quiet that the caller bears.
            tokio::spawn(async move {
                let mut clock = tokio::time::interval(Duration::from_millis(100));
                for step in 1..=15 {
                    clock.tick().await;
                    let params = json!({"progressToken": token, "progress": step, "total": 15});
                    feed.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
                }
                feed.send(&done);
            });
            answer
        }
        _ => legacy(seen),
    })
    .await;
    let session = open(&server.url()).await;
    let seen = Basket::<Progress>::default();
    let kept = Arc::clone(&seen);
    let progress = Some(Arc::new(move |progress| kept.lock().unwrap().push(progress)) as _);
    let timeouts = RequestTimeouts { idle: Duration::from_secs(1), total: LONG };
    let params = r#"{"name":"echo","arguments":{"text":"x"}}"#;
    let reply = session.request(SessionRequest { method: "tools/call", params, timeouts, progress }).await.unwrap();
    assert_eq!(text(&serde_json::from_str(reply.json()).unwrap()), "x");
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[14].progress, seen[14].total), (15, 15.0, Some(15.0)));
}

#[tokio::test]
async fn a_call_that_wants_input_is_asked_again_with_it() {
    let state = r#"{"b":1,"a":12345678901234567890123}"#;
    let server = Server::start(move |seen| match seen.method() {
        "tools/call" if seen.body["params"]["inputResponses"].is_null() => {
            let id = &seen.body["id"];
            let asked = json!({"who": {"method": "elicitation/create", "params": {"message": "who?"}}});
            let result =
                format!(r#"{{"resultType":"input_required","inputRequests":{asked},"requestState":"s1 \u00e9"}}"#);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            Answer::of("200 OK", "text/event-stream", format!("data: {body}\n\n"))
        }
        _ => modern(seen),
    })
    .await;
    let session = open_with(&server.url(), &with_person()).await;
    let result = call(&session, "echo", &format!(r#"{{"text":"x","kept":{state}}}"#)).await.unwrap();
    assert_eq!(text(&result), "x");
    let calls = server.all("tools/call");
    assert_eq!(calls.len(), 2);
    let params = &calls[1].body["params"];
    assert_eq!(params["inputResponses"]["who"]["content"]["name"], "n");
    assert_eq!(params["requestState"], "s1 é");
    assert_eq!(params["arguments"], calls[0].body["params"]["arguments"]);
    assert_ne!(calls[0].body["id"], calls[1].body["id"]);
    assert_eq!((calls[1].header("mcp-method"), calls[1].header("mcp-name")), ("tools/call", "echo"));
    let capabilities = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(capabilities["elicitation"], json!({"form": {}}));
}

#[tokio::test]
async fn a_call_may_want_64_answers_at_once_and_not_one_more() {
    for count in [64, 65] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" if seen.body["params"]["inputResponses"].is_null() => {
                let question = json!({"method": "elicitation/create", "params": {"message": "who?"}});
                let asked: serde_json::Map<_, _> =
                    (0..count).map(|number| (format!("q{number}"), question.clone())).collect();
                reply(seen, &json!({"resultType": "input_required", "inputRequests": asked}))
            }
            _ => modern(seen),
        })
        .await;
        let session = open_with(&server.url(), &with_person()).await;
        let outcome = call(&session, "echo", r#"{"text":"x"}"#).await;
        if count == 64 {
            assert_eq!(text(&outcome.unwrap()), "x");
            continue;
        }
        let words = "tools/call asks 65 questions at once, but at most 64 may be asked";
        assert_eq!(outcome.unwrap_err().failure, Failure::Protocol(words.to_owned()));
        assert_eq!(server.count("tools/call"), 1, "nobody was asked");
    }
}

#[tokio::test]
async fn a_call_that_wants_nothing_is_refused_and_one_that_only_has_a_state_goes_on() {
    for nothing in [json!({}), json!({"inputRequests": {}}), json!({"inputRequests": null, "requestState": null})] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => {
                let mut result = nothing.clone();
                result["resultType"] = json!("input_required");
                reply(seen, &result)
            }
            _ => modern(seen),
        })
        .await;
        let session = open_with(&server.url(), &with_person()).await;
        let failed = call(&session, "echo", r#"{"text":"x"}"#).await.unwrap_err();
        let words = "tools/call asks for input, but has neither inputRequests nor a requestState";
        assert_eq!(failed.failure, Failure::Protocol(words.to_owned()));
        assert_eq!(server.count("tools/call"), 1);
    }
    let server = Server::start(|seen| match seen.method() {
        "tools/call" if seen.body["params"]["requestState"].is_null() => {
            reply(seen, &json!({"resultType": "input_required", "requestState": "half way"}))
        }
        _ => modern(seen),
    })
    .await;
    let session = open(&server.url()).await;
    assert_eq!(text(&call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x");
    let calls = server.all("tools/call");
    assert_eq!((calls.len(), &calls[1].body["params"]["requestState"]), (2, &json!("half way")));
    assert!(calls[1].body["params"]["inputResponses"].is_null());
}

#[tokio::test]
async fn a_call_may_want_input_ten_times_and_not_once_more() {
    for (wants, done) in [(10, true), (11, false)] {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => match seen.body["params"]["requestState"].as_u64().unwrap_or(0) {
                round if round < wants => {
                    reply(seen, &json!({"resultType": "input_required", "requestState": round + 1}))
                }
                _ => modern(seen),
            },
            _ => modern(seen),
        })
        .await;
        let session = open(&server.url()).await;
        let outcome = call(&session, "echo", r#"{"text":"x"}"#).await;
        assert_eq!(server.count("tools/call"), 11);
        match outcome {
            Ok(result) => assert!(done && text(&result) == "x"),
            Err(failed) => {
                let words = "tools/call asks for input for the 11th time";
                assert!(!done && failed.sent, "{failed:?}");
                assert_eq!(failed.failure, Failure::Protocol(words.to_owned()));
            }
        }
    }
}
