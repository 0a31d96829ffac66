//! Tests credentials and headers: what is sent, where it must not go, and what must not be shown.

use serde_json::json;
use toolgate::config::secrets::Secrets;
use toolgate::config::variables::Variables;
use toolgate::failure::Failure;
use toolgate::logic::types::execution::Code;
use toolgate::session::{Session, SessionOptions};
use toolgate::transport::endpoint::{Endpoint, RemoteSite};

use super::answers::{SESSION, legacy, modern};
use super::server::{Answer, Seen, Server};
use super::{call, config_of, gate_over, site};
use crate::fixtures;

const SECRET: &str = "tok-7f3Kq9Zs-very-secret";

#[tokio::test]
async fn headers_and_tokens_of_the_configuration_arrive_with_every_request() {
    for era in [legacy as fn(&Seen) -> Answer, modern] {
        let server = Server::start(era).await;
        let more =
            "    headers: {X-Team: blue, \"X-Key\": \"${KEY}\"}\n    auth: {type: bearer, token: \"${TOKEN}\"}\n";
        let mut variables = Variables::from_process();
        variables.environment.insert("KEY".to_owned(), "key-4411-of-team".to_owned());
        variables.environment.insert("TOKEN".to_owned(), SECRET.to_owned());
        let gate = gate_over(config_of(&server.url(), more), variables);
        assert_eq!(call(&gate, "echo", "x").await.result.code, Code::Ok);
        gate.registry().close().await;
        for seen in server.seen().iter().filter(|seen| seen.verb != "GONE") {
            assert_eq!(seen.header("authorization"), format!("Bearer {SECRET}"), "{seen:?}");
            assert_eq!((seen.header("x-team"), seen.header("x-key")), ("blue", "key-4411-of-team"), "{seen:?}");
        }
    }
}

/// A place with something to prove, and a login in its address.
fn guarded(server: &Server) -> RemoteSite {
    let headers = vec![("X-Api-Key".to_owned(), SECRET.to_owned())];
    let mut secrets = Secrets::default();
    secrets.add(SECRET);
    RemoteSite { headers, secrets, ..site(&server.url().replace("http://", &format!("http://me:{SECRET}@"))) }
}

#[tokio::test]
async fn no_call_follows_to_another_origin() {
    for era in [legacy as fn(&Seen) -> Answer, modern] {
        let other = Server::start(era).await;
        let target = other.url();
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => Answer::status("307 Temporary Redirect").with(&format!("Location: {target}")),
            _ => era(seen),
        })
        .await;
        let session = Session::open(&Endpoint::Http(guarded(&server)), &SessionOptions::default()).await.unwrap();
        let failed = fixtures::call(&session, "echo", r#"{"text":"x"}"#).await.unwrap_err();
        assert!(failed.to_string().contains("another origin, to which no message is sent"), "{failed}");
        assert!(other.seen().is_empty());
        let at_home = server.wait(|seen| seen.is("tools/call")).await;
        assert_eq!(at_home.header("x-api-key"), SECRET);
    }
}

#[tokio::test]
async fn all_follows_within_the_origin() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/mcp" => Answer::status("308 Permanent Redirect").with("Location: /mcp/"),
        _ => legacy(seen),
    })
    .await;
    let session = Session::open(&Endpoint::Http(guarded(&server)), &SessionOptions::default()).await.unwrap();
    assert_eq!(fixtures::text(&fixtures::call(&session, "echo", r#"{"text":"x"}"#).await.unwrap()), "x");
    let arrived = server.wait(|seen| seen.is("tools/call") && seen.path == "/mcp/").await;
    assert_eq!((arrived.header("x-api-key"), arrived.header("mcp-session-id")), (SECRET, SESSION));
}

#[tokio::test]
async fn secrets_in_the_answer_of_a_server_are_not_shown() {
    type Leak = fn(&Seen) -> Answer;
    // Where a long text is cut, a secret must not be cut in two and half of it shown.
    let leaks: [(&str, Leak); 9] = [
        ("a body", |_| Answer::of("403 Forbidden", "text/plain", format!("{SECRET} is no good"))),
        ("a long body", |_| Answer::of("403 Forbidden", "text/plain", "x".repeat(2048 - 12) + SECRET)),
        ("a refusal", |_| {
            let text = format!("bad token {SECRET}");
            super::answers::idless("403 Forbidden", &text)
        }),
        ("a challenge", |_| {
            Answer::status("401 Unauthorized").with(&format!("WWW-Authenticate: Bearer error=\"{SECRET} is no good\""))
        }),
        ("a type", |_| Answer::of("200 OK", &format!("text/{SECRET}"), "x")),
        ("a page", |_| Answer::of("200 OK", "text/html", format!("<h1>{SECRET}</h1>"))),
        ("a long page", |_| Answer::of("200 OK", "text/html", "x".repeat(200 - 12) + SECRET)),
        ("no message", |_| Answer::json(format!("{{\"{}{SECRET}\":1}}", "x".repeat(200 - 14)))),
        ("an error", |seen| {
            let error = json!({"code": 1, "message": format!("bad {SECRET}"), "data": {"token": SECRET}});
            Answer::json(json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
        }),
    ];
    let mut shown = Vec::new();
    for (name, leak) in leaks {
        let server = Server::start(move |seen| match seen.method() {
            "tools/call" => leak(seen),
            _ => legacy(seen),
        })
        .await;
        let session = Session::open(&Endpoint::Http(guarded(&server)), &SessionOptions::default()).await.unwrap();
        let failed = fixtures::call(&session, "echo", "{}").await.unwrap_err();
        let (text, debug) = (failed.to_string(), format!("{failed:?}"));
        if text.contains(&SECRET[..8]) || debug.contains(&SECRET[..8]) {
            shown.push((name, text, debug));
        }
    }
    assert!(shown.is_empty(), "{shown:#?}");
}

#[tokio::test]
async fn a_redirect_with_a_secret_in_its_address_is_told_without_it() {
    let server = Server::start(|_| {
        Answer::status("302 Found").with(&format!("Location: http://me:{SECRET}@127.0.0.1:1/x?key={SECRET}"))
    })
    .await;
    let failed = Session::open(&Endpoint::Http(site(&server.url())), &SessionOptions::default()).await.err().unwrap();
    assert!(matches!(&failed.failure, Failure::Http(error) if error.status == 302), "{failed:?}");
    assert!(!format!("{failed} {failed:?}").contains(SECRET), "{failed:?}");
}
