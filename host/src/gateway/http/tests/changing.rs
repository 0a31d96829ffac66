//! Tests of changing an HTTP server while it runs.

use super::super::{AppliedChange, HttpServerError, RateLimit};
use super::*;

/// Returns the options of the test server with a change.
fn options(change: impl FnOnce(&mut HttpOptions)) -> HttpOptions {
    let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
    change(&mut options);
    options
}

fn as_principal(name: &str, ask: Ask) -> Ask {
    ask.with("Authorization", format!("Bearer {name}-s3cret"))
}

#[tokio::test]
async fn the_sessions_of_a_token_that_is_taken_away_end_with_their_streams_and_calls() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    let mut sessions = Vec::new();
    for name in ["ann", "bob"] {
        let reply = door.ask(as_principal(name, Ask::post(legacy("initialize")))).await;
        sessions.push(reply.header("mcp-session-id").unwrap().to_owned());
    }
    let mut stream = door.connect().await;
    stream.send(as_principal("ann", Ask::get(&sessions[0]))).await;
    assert_eq!(stream.head().await.status, 200);
    let pair = |name: &str| (format!("{name}-s3cret"), Principal { name: name.to_owned(), admin: false });
    let others = Tokens::new([pair("bob"), pair("cat")]).unwrap();
    let prepared = door.control.prepare(options(|options| options.tokens = others)).unwrap();
    assert_eq!(prepared.apply(), AppliedChange { needs_restart: Vec::new(), ended_sessions: 1 });
    while stream.event().await.is_some() {}
    door.house.wait("closed", 1).await;
    let status = async |name, session: &str| {
        door.ask(as_principal(name, Ask::post(legacy("echo")).session(session))).await.status
    };
    assert_eq!(status("ann", &sessions[0]).await, 401);
    assert_eq!(status("bob", &sessions[1]).await, 200);
    assert_eq!(door.ask(as_principal("cat", Ask::modern("echo"))).await.status, 200);
    assert_eq!(door.load.stats().sessions, 1);
    // The last token stays, and nothing else of the change is applied.
    let open = door.control.prepare(options(|options| options.limits.max_body_bytes = 1));
    assert!(matches!(open, Err(HttpServerError::Wider { .. })));
    assert_eq!(door.ask(Ask::modern("echo")).await.status, 401);
    assert_eq!(status("bob", &sessions[1]).await, 200);
    door.stop().await;
}

#[tokio::test]
async fn the_first_token_shuts_those_out_who_came_without_one() {
    let door = Running::with(|_| {}).await;
    let id = open(&mut door.connect().await).await;
    let applied = door.control.prepare(options(|options| options.tokens = tokens())).unwrap().apply();
    let asked = door.ask(as_principal("ann", Ask::post(legacy("echo")).session(&id))).await;
    assert_eq!((applied.ended_sessions, asked.status), (1, 404));
    assert!(matches!(door.control.prepare(options(|_| {})), Err(HttpServerError::Wider { .. })), "it stays shut");
    door.stop().await;
}

#[tokio::test]
async fn what_was_opened_with_a_token_ends_with_it_though_its_principal_has_another() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    let mut streams = Vec::new();
    for name in ["ann", "bob"] {
        let reply = door.ask(as_principal(name, Ask::post(legacy("initialize")))).await;
        let session = reply.header("mcp-session-id").unwrap().to_owned();
        let listen = Ask::modern("progress+listen+wait").with("Mcp-Method", "subscriptions/listen");
        let mut wires = Vec::new();
        for ask in [Ask::get(&session), Ask::new("GET /events"), listen] {
            let mut wire = door.connect().await;
            wire.send(as_principal(name, ask)).await;
            assert_eq!(wire.head().await.status, 200);
            wires.push(wire);
        }
        streams.push((session, wires));
    }
    let pair = |token: &str, name: &str| (token.to_owned(), Principal { name: name.to_owned(), admin: false });
    let others = Tokens::new([pair("newer-s3cret", "ann"), pair("bob-s3cret", "bob")]).unwrap();
    let applied = door.control.prepare(options(|options| options.tokens = others)).unwrap().apply();
    assert_eq!(applied.ended_sessions, 0);
    let (of_ann, ended) = &mut streams[0];
    for wire in ended {
        while wire.event().await.is_some() {}
    }
    // The session belongs to the principal and continues with the other token.
    let echo = Ask::post(legacy("echo")).session(of_ann);
    assert_eq!(door.ask(as_principal("ann", echo.clone())).await.status, 401);
    assert_eq!(door.ask(as_principal("newer", echo)).await.status, 200);
    assert!(door.house.say(1, "still"));
    let stream = &mut streams[1].1[0];
    assert_eq!(stream.message().await.unwrap().data.unwrap(), "still");
    door.house.wait("cancelled", 1).await;
    door.stop().await;
}

#[tokio::test]
async fn hosts_limits_and_rates_hold_from_the_next_request_on() {
    let both = vec!["old.example".to_owned(), "new.example".to_owned()];
    let door = Running::with(|options| options.hosts = both).await;
    let mut wire = door.connect().await;
    let ask = |host: &str| Ask::modern("echo").with("Host", host);
    assert_eq!(wire.ask(ask("old.example")).await.status, 200);
    let changed = |rate| {
        options(|options| {
            options.hosts = vec!["new.example".to_owned()];
            options.limits.max_body_bytes = 300;
            options.rate = rate;
        })
    };
    door.control.prepare(changed(None)).unwrap().apply();
    // On the same connection, a host that was allowed a moment ago is refused.
    assert_eq!(wire.ask(ask("old.example")).await.status, 403);
    assert_eq!(wire.ask(ask("new.example")).await.status, 200);
    let large = Ask { body: " ".repeat(301), ..ask("new.example") };
    assert_eq!(door.ask(large).await.status, 413);
    let rate = Some(RateLimit { per_second: 1, burst: 1 });
    door.control.prepare(changed(rate)).unwrap().apply();
    assert_eq!(door.ask(ask("new.example")).await.status, 200);
    // Applying the same rate again does not refill a bucket.
    door.control.prepare(changed(rate)).unwrap().apply();
    assert_eq!(door.ask(ask("new.example")).await.status, 429);
    let none = options(|options| options.limits.max_requests = 0);
    door.control.prepare(none).unwrap().apply();
    assert_eq!(door.ask(Ask::modern("echo")).await.status, 503);
    door.stop().await;
}

#[tokio::test]
async fn what_needs_a_restart_is_told_each_time_and_what_is_wrong_changes_nothing() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    let elsewhere = |options: &mut HttpOptions| {
        options.tokens = tokens();
        options.address = "127.0.0.1:1".parse().unwrap();
        options.tls = Some(CertificateFiles { certificate: "c".into(), key: "k".into() });
    };
    for _ in 0..2 {
        let applied = door.control.prepare(options(elsewhere)).unwrap().apply();
        assert_eq!(applied.needs_restart, ["the address", "TLS on or off"]);
    }
    let wrong = door.control.prepare(options(|options| options.hosts = vec!["a/b".to_owned()]));
    assert!(matches!(wrong, Err(HttpServerError::Host { .. })));
    assert_eq!(door.ask(as_principal("ann", Ask::modern("echo"))).await.status, 200);
    assert_eq!(door.ask(Ask::modern("echo")).await.status, 401);
    door.stop().await;

    let door = Running::with(|options| {
        options.address = "0.0.0.0:0".parse().unwrap();
        options.tokens = tokens();
    });
    let door = door.await;
    let open = door.control.prepare(options(|options| options.address = "0.0.0.0:0".parse().unwrap()));
    assert!(matches!(open, Err(HttpServerError::Unprotected { .. })), "the last token stays");
    door.stop().await;
}
