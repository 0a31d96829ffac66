//! Which requests are refused, and which secrets never appear.

use super::super::HttpServerError;
use super::super::options::RateLimit;
use super::*;

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_everywhere() {
    let door = Running::with(|options| options.hosts = vec!["gate.example".to_owned()]).await;
    let port = door.address.port();
    for (name, value, status) in [
        ("Host", format!("localhost:{port}"), 200),
        ("Host", format!("127.0.0.1:{port}"), 200),
        ("Host", "[::1]:5".to_owned(), 200),
        ("Host", "gate.example".to_owned(), 200),
        ("Host", "evil.example".to_owned(), 403),
        ("Host", format!("evil.example:{port}"), 403),
        ("Host", "localhost.evil.example".to_owned(), 403),
        ("Host", String::new(), 400),
        ("Origin", format!("http://127.0.0.1:{port}"), 200),
        ("Origin", "http://localhost:3000".to_owned(), 403),
        ("Origin", format!("https://127.0.0.1:{port}"), 403),
        ("Origin", "https://gate.example".to_owned(), 403),
        ("Origin", "https://evil.example".to_owned(), 403),
        ("Origin", "null".to_owned(), 403),
        ("Origin", "file://".to_owned(), 403),
    ] {
        for ask in [Ask::modern("echo"), Ask::new("GET /page")] {
            let reply = door.ask(ask.with(name, value.clone())).await;
            assert_eq!(reply.status, status, "{name}: {value}");
            let shared = (name == "Origin" && status == 200).then_some(value.as_str());
            assert_eq!(reply.header("access-control-allow-origin"), shared, "{name}: {value}");
        }
    }
    let mut wire = door.connect().await;
    // Each request on a connection is checked.
    assert_eq!(wire.ask(Ask::modern("echo")).await.status, 200);
    assert_eq!(wire.ask(Ask::modern("echo").with("Host", "evil.example")).await.status, 403);
    let reply = door.ask(Ask::new("GET http://evil.example/page")).await;
    assert_eq!(reply.status, 403);
    assert_eq!(door.load.stats().refused.of(RefusalReason::Foreign), 22);
    for (name, key) in [("Host", "gateway.hosts"), ("Origin", "gateway.origins")] {
        let reply = door.ask(Ask::modern("echo").with(name, "https://evil.example")).await;
        assert!(reply.status == 403 && reply.body.contains(key), "{}", reply.body);
    }
    door.stop().await;
}

#[tokio::test]
async fn a_health_probe_is_answered_whatever_host_it_names_and_hears_no_more_than_who_has_no_token() {
    for with_tokens in [true, false] {
        let door = Running::with(|options| {
            if with_tokens {
                options.tokens = tokens();
            }
        })
        .await;
        let known = Ask::new("GET /health").with("Authorization", "Bearer ann-s3cret");
        let name = if with_tokens { r#"Some("ann")"# } else { r#"Some("local")"# };
        let reply = door.ask(&known).await;
        assert_eq!((reply.status, reply.body.ends_with(name)), (200, true), "{reply:?}");
        for host in ["10.1.2.3:8899", "toolgate.example.svc", "[fd00::1]:1", "not a host", ""] {
            for ask in [known.clone(), known.clone().with("Authorization", "Bearer wrong"), Ask::new("GET /ready")] {
                let reply = door.ask(ask.with("Host", host)).await;
                assert_eq!((reply.status, reply.body.ends_with(" None")), (200, true), "{host}: {reply:?}");
            }
            let mut wire = door.connect().await;
            wire.send(Ask::new("HEAD /ready").with("Host", host)).await;
            assert_eq!(wire.head().await.status, 200);
            // All else needs a host of ours.
            for line in ["GET /page", "GET /health/", "GET /ready/x", "POST /health", "OPTIONS /ready", "POST /mcp"] {
                let status = door.ask(Ask::new(line).with("Host", host)).await.status;
                assert_eq!(status, if host.is_empty() { 400 } else { 403 }, "{line} {host}");
            }
        }
        let mut wire = door.connect().await;
        wire.write(b"GET /ready HTTP/1.0\r\n\r\n").await;
        assert_eq!(wire.head().await.status, 200);
        assert!(wire.closed().await);
        // A page of another site cannot read it.
        let page = Ask::new("GET /ready").with("Host", "10.1.2.3").with("Origin", "https://evil.example");
        assert_eq!(door.ask(&page).await.status, 403);
        assert_eq!(door.ask(page.with("Origin", "").with("Sec-Fetch-Site", "cross-site")).await.status, 403);
        let mut wire = door.connect().await;
        wire.write(b"GET /ready HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(wire.head().await.status, 400);
        door.stop().await;
    }
}

#[tokio::test]
async fn a_browser_is_told_what_pages_of_allowed_origins_may_send() {
    let door = Running::with(|options| {
        options.tokens = tokens();
        options.hosts = vec!["http://localhost:3000".to_owned()];
    })
    .await;
    let ask = Ask::new("OPTIONS /mcp")
        .with("Access-Control-Request-Method", "POST")
        .with("Access-Control-Request-Headers", "content-type, mcp-session-id");
    let reply = door.ask(ask.clone().with("Origin", "http://localhost:3000")).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, Some("http://localhost:3000")));
    assert_eq!(reply.header("access-control-allow-headers"), Some("content-type, mcp-session-id"));
    assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert_eq!(reply.header("vary"), Some("Origin"));
    let reply = door.ask(ask.with("Origin", "https://evil.example")).await;
    assert_eq!((reply.status, reply.header("access-control-allow-methods")), (403, None));
    door.stop().await;
}

#[tokio::test]
async fn a_token_is_needed_where_tokens_are_configured() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    for (value, status) in [
        ("Bearer ann-s3cret", 200),
        ("bearer bob-s3cret", 200),
        ("", 401),
        ("Bearer wrong", 401),
        ("Bearer ann-s3cret2", 401),
        ("Basic ann-s3cret", 401),
    ] {
        let reply = door.ask(Ask::modern("echo").with("Authorization", value)).await;
        let challenge = (status == 401).then_some("Bearer");
        assert_eq!((reply.status, reply.header("www-authenticate")), (status, challenge), "{value}");
        assert!(!reply.body.contains("wrong") && !reply.body.contains("s3cret"));
    }
    assert_eq!(door.load.stats().refused.of(RefusalReason::Unauthorized), 4);
    door.stop().await;
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = HttpServer::bind(HttpOptions::new(address.parse().unwrap())).await.err().expect(address);
        assert!(matches!(error, HttpServerError::Unprotected { .. }), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    }
    let options = HttpOptions { tokens: tokens(), ..HttpOptions::new("0.0.0.0:0".parse().unwrap()) };
    assert_ne!(HttpServer::bind(options).await.unwrap().address().port(), 0);
    let taken = Running::start().await;
    let error = HttpServer::bind(HttpOptions::new(taken.address)).await.err().unwrap();
    assert_eq!(error.to_string(), format!("cannot listen on {}", taken.address));
    taken.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_too_often_waits_and_others_do_not() {
    let rate = Some(RateLimit { per_second: 1, burst: 2 });
    let door = Running::with(|options| (options.tokens, options.rate) = (tokens(), rate)).await;
    let ask = |token: &str| Ask::modern("echo").with("Authorization", format!("Bearer {token}"));
    for (token, status) in [
        ("ann-s3cret", 200),
        ("ann-s3cret", 200),
        ("ann-s3cret", 429),
        ("bob-s3cret", 200),
        ("guess-1", 401),
        ("guess-2", 401),
        ("guess-3", 429),
        ("bob-s3cret", 200),
    ] {
        let reply = door.ask(ask(token)).await;
        assert_eq!(reply.status, status, "{token}");
        assert_eq!(reply.header("retry-after"), (status == 429).then_some("1"));
        if status != 200 {
            assert_eq!(reply.reason(), if status == 429 { "queue-full" } else { "" });
        }
    }
    assert_eq!(door.load.stats().refused.of(RefusalReason::Rate), 2);
    door.stop().await;
}

#[tokio::test]
async fn no_secret_is_logged_or_shown() {
    let (log, _guard) = crate::listening::capture();
    let door = Running::with(|options| options.tokens = tokens()).await;
    let ann = |ask: Ask| ask.with("Authorization", "Bearer ann-s3cret");
    let logged = || String::from_utf8(log.lock().unwrap().clone()).unwrap();
    door.ask(ann(Ask::modern("echo"))).await;
    // Other tests may have made tracing cache that nothing subscribes.
    for _ in 0..100 {
        door.ask(Ask::modern("echo").with("Authorization", "Bearer guessed-s3cret")).await;
        if logged().contains("request refused") {
            break;
        }
        tracing::callsite::rebuild_interest_cache();
    }
    let reply = door.ask(ann(Ask::post(r#"{"password":"s3cret""#))).await;
    assert!(!reply.body.contains("s3cret"));
    let reply = door.ask(ann(Ask::post(legacy("initialize")))).await;
    let id = reply.header("mcp-session-id").unwrap().to_owned();
    door.ask(ann(Ask::post(legacy("echo")).session(&id))).await;
    door.ask(ann(Ask::new("DELETE /mcp").session(&id))).await;
    let mut wire = door.connect().await;
    wire.write(b"POST /mcp HTTP/1.1\r\nAuthorization: Bearer ann-s3cret\r\nbad header s3cret\r\n\r\n").await;
    assert!(wire.closed().await);
    let options = HttpOptions { tokens: tokens(), ..HttpOptions::new(door.address) };
    assert!(!format!("{options:?}").contains("s3cret"));
    door.stop().await;
    let log = logged();
    assert!(log.contains("request refused"), "{log}");
    assert!(!log.contains("s3cret") && !log.contains(&id), "{log}");
}
