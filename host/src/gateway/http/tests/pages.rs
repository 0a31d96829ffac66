//! Tests of the pages beside `/mcp`.

use super::*;
use crate::gateway::http::options::RateLimit;

#[tokio::test]
async fn a_page_sees_who_asks_for_what_but_no_token() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    for (ask, expected) in [
        (Ask::new("GET /page?a=b"), r#"GET /page Some("a=b") false false 0 None"#),
        (
            Ask::new("GET /page").with("Authorization", "Bearer ann-s3cret").with("X-Mine", "1"),
            r#"GET /page None false true 0 Some("ann")"#,
        ),
        (
            Ask { body: "12345".to_owned(), ..json("POST /page") }.with("Authorization", "Bearer ann-s3cret"),
            r#"POST /page None false false 5 Some("ann")"#,
        ),
        (Ask { body: "12345".to_owned(), ..json("POST /page") }, r#"POST /page None false false 0 None"#),
    ] {
        let reply = door.ask(&ask).await;
        assert_eq!((reply.status, reply.body.as_str()), (200, expected));
        assert_eq!(reply.header("content-type"), Some("text/plain"));
    }
    assert_eq!(door.ask(Ask::new("GET /page").with("Authorization", "Bearer wrong")).await.status, 401);
    assert_eq!(door.ask(Ask::new("GET /mcp/other")).await.status, 404);
    let large = Ask { body: "x".repeat(5 << 20), ..json("POST /page") }.with("Authorization", "Bearer ann-s3cret");
    assert_eq!(door.ask(large).await.status, 413);
    door.stop().await;
}

#[tokio::test]
async fn what_strangers_send_to_pages_takes_no_room_from_others() {
    let door = Running::with(|options| {
        options.tokens = tokens();
        options.limits = GatewayLimits { max_body_bytes: 4096, max_inflight_bytes: 8192, ..GatewayLimits::default() };
    })
    .await;
    let mut strangers = Vec::new();
    for line in ["POST /page", "POST /other", "PUT /page", "POST /page"] {
        let mut wire = door.connect().await;
        // All but the last byte of the declared length.
        let content = "x".repeat(4095);
        let text = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n{content}"
        );
        wire.write(text.as_bytes()).await;
        let status = wire.head().await.status;
        assert_eq!(status, if line.ends_with("/other") { 404 } else { 200 }, "it is answered without its content");
        strangers.push(wire);
    }
    assert_eq!(door.load.stats().bytes, 0);
    let large = Ask { body: "x".repeat(4096), ..json("POST /page") }.with("Authorization", "Bearer ann-s3cret");
    assert_eq!(door.ask(large).await.status, 200);
    door.stop().await;
}

#[tokio::test]
async fn strangers_who_send_to_pages_are_told_to_wait_and_those_who_look_are_not() {
    let door = Running::with(|options| {
        options.tokens = tokens();
        options.rate = Some(RateLimit { per_second: 1, burst: 1 });
    })
    .await;
    let send = || door.ask(Ask { body: "1".to_owned(), ..json("POST /page") });
    assert_eq!(send().await.status, 200);
    let refused = send().await;
    assert!(refused.status == 429 && refused.body.starts_with(r#"{"error":"rate limit"#), "{refused:?}");
    assert_eq!(door.ask(Ask::new("GET /page")).await.status, 200);
    door.stop().await;
}

#[tokio::test]
async fn who_asks_for_the_head_of_a_page_gets_no_more() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let whole = wire.ask(Ask::new("GET /page")).await;
    wire.send(Ask::new("HEAD /page")).await;
    let head = wire.head().await;
    assert_eq!((head.status, head.header("content-length")), (200, whole.header("content-length")));
    assert_eq!(head.header("content-type"), Some("text/plain"));
    // The next response follows at once.
    assert_eq!(wire.ask(Ask::new("GET /page")).await.body, whole.body);
    door.stop().await;
}

#[tokio::test]
async fn without_tokens_a_page_sees_the_local_user() {
    let door = Running::start().await;
    assert!(door.ask(Ask::new("GET /page")).await.body.ends_with(r#"Some("local")"#));
    door.stop().await;
}

#[tokio::test]
async fn a_page_can_send_events_until_the_door_closes() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    wire.send(Ask::new("GET /events")).await;
    assert_eq!(wire.head().await.header("content-type"), Some("text/event-stream"));
    assert_eq!(wire.event().await.unwrap().data.unwrap(), "first");
    let _ = door.stop.send(());
    assert!(wire.event().await.unwrap().retry);
    assert_eq!(wire.event().await, None);
    timeout(LONG, door.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_a_form_of_another_site_could_send_is_not_taken() {
    let door = Running::start().await;
    for (kind, body, status) in [
        ("application/json", "1", 200),
        ("", "", 200),
        ("", "1", 200),
        ("text/plain", "1", 415),
        ("text/plain;charset=UTF-8", "", 415),
        ("application/x-www-form-urlencoded", "a=b", 415),
        ("multipart/form-data; boundary=x", "", 415),
    ] {
        let ask = Ask { body: body.to_owned(), ..Ask::new("POST /page").with("Content-Type", kind) };
        assert_eq!(door.ask(ask).await.status, status, "{kind}");
    }
    door.stop().await;
}

#[tokio::test]
async fn a_refused_page_gets_an_error_of_its_own_and_a_client_of_mcp_gets_json_rpc() {
    let door = Running::with(|options| {
        options.tokens = tokens();
        options.limits = GatewayLimits { max_requests: 1, max_body_bytes: 4096, ..GatewayLimits::default() };
    })
    .await;
    let of_ann = |ask: Ask| ask.with("Authorization", "Bearer ann-s3cret");
    let mut busy = door.connect().await;
    let check = async |ask: Ask, status, words: &str| {
        let reply = door.ask(&ask).await;
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"));
        assert_eq!((reply.status, reply.header("content-type")), (status, Some("application/json")), "{reply:?}");
        let error = body["error"].as_str().unwrap_or_else(|| panic!("{reply:?}"));
        assert!(error.contains(words) && body.as_object().unwrap().len() == 1, "{reply:?}");
        reply
    };
    let page = || Ask::new("GET /page");
    check(page().with("Host", "elsewhere.example"), 403, "gateway.hosts").await;
    check(page().with("Origin", "http://elsewhere.example"), 403, "gateway.origins").await;
    let unknown = check(page().with("Authorization", "Bearer wrong"), 401, "unknown").await;
    assert_eq!(unknown.header("www-authenticate"), Some("Bearer"));
    check(page().with("Authorization", "Bearer one, Bearer two"), 400, "more than one token").await;
    check(of_ann(Ask::new("GET /other")), 404, "no such page").await;
    check(of_ann(Ask::new("POST /page").with("Content-Type", "text/plain")), 415, "must be JSON").await;
    check(of_ann(Ask { body: "x".repeat(4097), ..json("POST /page") }), 413, "4096").await;
    busy.send(of_ann(Ask::modern("wait"))).await;
    door.house.wait("waiting", 1).await;
    let full = check(of_ann(Ask { body: "1".to_owned(), ..json("POST /page") }), 429, "in flight").await;
    assert_eq!(full.header("retry-after"), Some("1"));
    for ask in [Ask::modern("echo"), of_ann(Ask::modern("echo")), Ask::modern("echo").with("Host", "elsewhere.example")]
    {
        assert_eq!(door.ask(ask).await.code(), -32000);
    }
    door.house.release.add_permits(1);
    assert_eq!(busy.reply().await.status, 200);
    door.stop().await;
}

/// Creates a request with a JSON body.
fn json(line: &'static str) -> Ask {
    Ask::new(line).with("Content-Type", "application/json")
}
