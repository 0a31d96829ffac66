//! Tests one session against servers that misbehave.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate::failure::{Failure, RpcError};
use toolgate::session::{
    Handler, ListKind, Progress, RequestTimeouts, ServerEvent, ServerQuestion, Session, SessionOptions, SessionRequest,
    Topic, Topics,
};
use toolgate::transport::BoxFuture;

use super::fixtures::{Basket, LONG, call, call_within, fixture, open, text};

#[tokio::test]
async fn tools_are_listed_and_called() {
    let session = open("plain").await;
    let tools = session.list(ListKind::Tools).await.unwrap();
    let names: Vec<String> = tools.items.iter().map(|tool| name(tool)).collect();
    assert_eq!(names, ["echo", "add"]);
    assert_eq!(text(&call(&session, "echo", r#"{"text":"hello"}"#).await.unwrap()), "hello");
    session.close().await;
    assert!(matches!(call(&session, "echo", "{}").await, Err(failed) if !failed.sent));
}

#[tokio::test]
async fn noise_between_messages_is_passed_over() {
    for mode in ["noisy", "twice", "wrong-id", "string-ids", "batch", "flood-stderr"] {
        let session = open(mode).await;
        for said in ["one", "two"] {
            let result = call(&session, "echo", &format!(r#"{{"text":"{said}"}}"#)).await;
            assert_eq!(text(&result.unwrap_or_else(|failed| panic!("{mode}: {failed}"))), said, "{mode}");
        }
    }
}

#[tokio::test]
async fn an_error_without_an_id_fails_the_call_it_belongs_to() {
    for mode in ["idless-error", "null-id-error"] {
        let session = open(mode).await;
        let failed = call(&session, "echo", r#"{"text":"x"}"#).await.unwrap_err();
        assert!(matches!(failed.failure, Failure::Rpc(_)), "{mode}: {failed:?}");
        assert!(session.close_reason().is_none(), "{mode}: the session goes on");
    }
}

#[tokio::test]
async fn answers_in_another_order_find_their_calls() {
    let session = open("batch").await;
    let pair = |n: u32| {
        let session = &session;
        async move { call(session, "pair", &format!(r#"{{"n":{n}}}"#)).await.unwrap() }
    };
    let (first, second) = tokio::join!(pair(1), pair(2));
    assert_eq!((text(&first), text(&second)), ("first", "second"));
}

#[tokio::test]
async fn a_call_without_an_answer_times_out_and_is_not_a_peer_error() {
    let session = open("silent-call").await;
    let failed = call_within(&session, "echo", "{}", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(&failed.failure, Failure::Timeout { method, .. } if method == "tools/call"), "{failed:?}");
    assert!(failed.sent);
    assert!(session.list(ListKind::Tools).await.is_ok(), "the session goes on");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_time() {
    let options = SessionOptions { limit: Duration::from_millis(200), ..SessionOptions::default() };
    let failed = Session::open(&fixture("silent"), &options).await.err().unwrap();
    assert!(matches!(&failed.failure, Failure::NotReady { .. }), "{failed:?}");
}

#[tokio::test]
async fn progress_extends_the_wait_up_to_a_total() {
    let session = open("progress 12").await;
    let kept = Basket::<Progress>::default();
    let seen = Arc::clone(&kept);
    let timeouts = RequestTimeouts { idle: Duration::from_millis(400), total: LONG };
    let progress = Some(Arc::new(move |progress| seen.lock().unwrap().push(progress)) as _);
    let params = r#"{"name":"work","arguments":{}}"#;
    let reply = session.request(SessionRequest { method: "tools/call", params, timeouts, progress }).await;
    let result: Value = serde_json::from_str(reply.unwrap().json()).unwrap();
    assert_eq!(text(&result), "worked 12 steps");
    {
        let seen = kept.lock().unwrap();
        assert_eq!(seen.len(), 12);
        let Progress { progress, total, message, .. } = &seen[11];
        assert_eq!((*progress, *total, message.as_deref()), (12.0, Some(12.0), Some("working")));
    }
    let timeouts = RequestTimeouts { idle: Duration::from_millis(400), total: Duration::from_millis(100) };
    let failed =
        session.request(SessionRequest { method: "tools/call", params, timeouts, progress: None }).await.unwrap_err();
    assert!(matches!(failed.failure, Failure::Timeout { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_process_that_ends_says_how_and_what_it_last_wrote() {
    let failed = Session::open(&fixture("dies-before"), &SessionOptions::default()).await.err().unwrap();
    let Failure::Exited(exit) = &failed.failure else { panic!("{failed:?}") };
    assert_eq!(exit.code, Some(3));
    assert!(!exit.stderr.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs");
    let session = open(&format!("dies-during {}", file.display())).await;
    let failed = call(&session, "echo", "{}").await.unwrap_err();
    assert!(matches!(&failed.failure, Failure::Exited(exit) if exit.code == Some(4)), "{failed:?}");
    assert!(failed.sent);
    let failed = call(&session, "echo", "{}").await.unwrap_err();
    assert!(!failed.sent, "what comes after the end was not sent");
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn pages_are_gathered_and_endless_lists_end() {
    let listed = async |words: &str| open(words).await.list(ListKind::Tools).await;
    assert_eq!(listed("pages 250").await.unwrap().items.len(), 250);
    let session = open("endless-cursor").await;
    assert!(!session.list(ListKind::Tools).await.unwrap().items.is_empty());
    let endless = listed("fresh-cursor").await.unwrap();
    assert!(endless.cut.as_ref().is_some_and(|why| why.contains("pages")), "{:?}", endless.cut);
}

#[tokio::test]
async fn what_is_not_offered_is_not_asked_for() {
    let session = open("no-tools").await;
    assert!(session.list(ListKind::Tools).await.unwrap().items.is_empty());
    assert!(!session.list(ListKind::Resources).await.unwrap().items.is_empty());
    let session = open("plain").await;
    assert_eq!(session.list(ListKind::Prompts).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_changed_list_is_fetched_again_and_an_unchanged_one_is_not() {
    let session = open("list-changed").await;
    let before = session.list(ListKind::Tools).await.unwrap();
    assert!(Arc::ptr_eq(&before, &session.list(ListKind::Tools).await.unwrap()));
    let mut event = session.events();
    call(&session, "grow", "{}").await.unwrap();
    loop {
        match tokio::time::timeout(LONG, event.recv()).await.unwrap().unwrap() {
            ServerEvent::ToolsChanged => break,
            _ => continue,
        }
    }
    assert_eq!(session.list(ListKind::Tools).await.unwrap().items.len(), before.items.len() + 1);
}

/// Answers everything with its topic.
struct Answers;

impl Handler for Answers {
    fn topics(&self) -> Topics {
        Topics { roots: true, sampling: true, elicitation: true, ..Topics::default() }
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let answer = match question.topic {
            Topic::Roots => json!({"roots": [{"uri": "file:///work"}]}),
            Topic::Sampling => json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "sunny"}}),
            Topic::Elicitation => json!({"action": "accept", "content": {"name": "n"}}),
        };
        Box::pin(async move { Ok(RawValue::from_string(answer.to_string()).unwrap()) })
    }
}

#[tokio::test]
async fn questions_of_a_server_are_answered_or_declined() {
    let session = open("asks").await;
    let heard: Value = serde_json::from_str(text(&call(&session, "ask", "{}").await.unwrap())).unwrap();
    assert_eq!(heard["ping"]["result"], json!({}));
    assert_eq!(heard["roots/list"]["error"]["code"], -32601);
    assert_eq!(heard["sampling/createMessage"]["error"]["code"], -32601);
    assert_eq!(heard["elicitation/create"]["result"]["action"], "decline");

    let options = SessionOptions { handler: Arc::new(Answers), ..SessionOptions::default() };
    let session = Session::open(&fixture("asks"), &options).await.unwrap();
    let heard: Value = serde_json::from_str(text(&call(&session, "ask", "{}").await.unwrap())).unwrap();
    assert_eq!(heard["roots/list"]["result"]["roots"][0]["uri"], "file:///work");
    assert_eq!(heard["sampling/createMessage"]["result"]["content"]["text"], "sunny");
    assert_eq!(heard["elicitation/create"]["result"]["action"], "accept");
}

/// Thinks for a while before it answers, in time that passes at once: nothing but clocks runs meanwhile.
struct Thinks;

impl Handler for Thinks {
    fn topics(&self) -> Topics {
        Answers.topics()
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        Box::pin(async move {
            if question.topic == Topic::Elicitation {
                tokio::time::pause();
                tokio::time::sleep(Duration::from_secs(2)).await;
                tokio::time::resume();
            }
            Answers.answer(question).await
        })
    }
}

#[tokio::test]
async fn a_server_that_waits_for_a_person_is_not_taken_for_silent() {
    let options = SessionOptions { handler: Arc::new(Thinks), ..SessionOptions::default() };
    let session = Session::open(&fixture("asks"), &options).await.unwrap();
    let timeouts = RequestTimeouts { idle: Duration::from_secs(1), total: LONG };
    let params = r#"{"name":"ask","arguments":{}}"#;
    let reply = session.request(SessionRequest { method: "tools/call", params, timeouts, progress: None }).await;
    assert!(reply.unwrap().json().contains("accept"));
}

#[tokio::test]
async fn rounds_of_input_end_in_an_answer_or_in_an_error() {
    let options = SessionOptions { handler: Arc::new(Answers), ..SessionOptions::default() };
    let session = Session::open(&fixture("mrtr 10"), &options).await.unwrap();
    let result = call(&session, "input", r#"{"kept":true}"#).await.unwrap();
    assert_ne!(result["isError"], json!(true), "{result}");
    let said: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!((&said["rounds"], &said["arguments"]["kept"]), (&json!(10), &json!(true)));

    for mode in ["mrtr 11", "input-for-ever"] {
        let session = Session::open(&fixture(mode), &options).await.unwrap();
        let failed = call(&session, "input", "{}").await.unwrap_err();
        assert!(matches!(failed.failure, Failure::Protocol(_)), "{mode}: {failed:?}");
    }
}

#[tokio::test]
async fn input_that_nobody_can_give_is_an_error_and_not_a_hang() {
    let session = open("mrtr 2").await;
    let failed = call(&session, "input", "{}").await.unwrap_err();
    assert!(matches!(&failed.failure, Failure::Rpc(error) if error.message.contains("roots/list")), "{failed:?}");
}

#[tokio::test]
async fn lists_hold_as_long_as_the_server_says() {
    let asked = async |words: &str| {
        let session = open(words).await;
        session.list(ListKind::Tools).await.unwrap();
        session.list(ListKind::Tools).await.unwrap();
        text(&call(&session, "asked", "{}").await.unwrap()).to_owned()
    };
    assert_eq!(asked("ttl 600000").await, "1");
    assert_eq!(asked("ttl 0").await, "2");
}

#[tokio::test]
async fn dropping_a_call_gives_it_up_and_the_session_goes_on() {
    let session = open("silent-call").await;
    {
        let call = call(&session, "echo", "{}");
        tokio::pin!(call);
        // One poll sends it; then it is dropped.
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await;
        assert!(polled.is_pending());
    }
    assert_eq!(session.list(ListKind::Tools).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn a_long_answer_passes_and_a_longer_one_is_refused_aloud() {
    let session = open(&format!("huge {}", 30 << 20)).await;
    let result = call(&session, "big", "{}").await.unwrap();
    assert!(text(&result).len() > 29 << 20);
    let session = open(&format!("huge {}", 70 << 20)).await;
    let failed = call(&session, "big", "{}").await.unwrap_err();
    assert!(matches!(&failed.failure, Failure::Protocol(how) if how.contains("max_message_bytes")), "{failed:?}");
}

#[tokio::test]
async fn a_server_that_writes_without_end_stops_nothing_else() {
    let endless = super::fixtures::program("yes", vec!["{".to_owned()]);
    let options = SessionOptions { limit: Duration::from_millis(500), ..SessionOptions::default() };
    let failed = Session::open(&endless, &options).await.err().unwrap();
    assert!(matches!(failed.failure, Failure::NotReady { .. }), "{failed:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call_at_once() {
    // A shell that shakes hands and answers what comes then with what is no JSON.
    let script = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}'
        read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}'
        read -r line; read -r line; echo "$0"; cat > /dev/null"#;
    for answer in [r#"{"jsonrpc":"2.0","id":3,"result":{"content":[}}"#, r#"[{"jsonrpc":"2.0","id":3,"result":{"#] {
        let words = ["-c", script, answer].map(str::to_owned).to_vec();
        let session = Session::open(&super::fixtures::program("sh", words), &SessionOptions::default()).await.unwrap();
        let failed = call(&session, "any", "{}").await.unwrap_err();
        assert!(matches!(&failed.failure, Failure::Protocol(how) if how.contains("not a message")), "{failed:?}");
    }
}

#[tokio::test]
async fn a_request_without_time_is_not_sent() {
    let session = open("plain").await;
    let failed = call_within(&session, "echo", "{}", Duration::ZERO).await.unwrap_err();
    assert!(matches!(failed.failure, Failure::Timeout { .. }) && !failed.sent, "{failed:?}");
}

#[tokio::test]
async fn a_server_that_passes_over_the_question_can_be_opened_in_little_time() {
    let options = SessionOptions { limit: Duration::from_secs(6), ..SessionOptions::default() };
    assert!(Session::open(&fixture("silent-discover"), &options).await.is_ok());
}

fn name(tool: &RawValue) -> String {
    let tool: Value = serde_json::from_str(tool.get()).unwrap();
    tool["name"].as_str().unwrap().to_owned()
}
