//! What is served beside `/mcp`.

use super::*;

#[tokio::test]
async fn a_page_sees_who_asks_for_what_but_no_token() {
    let door = Running::with(|options| options.tokens = tokens()).await;
    for (ask, expected) in [
        (Ask::new("GET /page?a=b"), r#"GET /page Some("a=b") false false 0 None"#),
        (
            Ask::new("GET /page").with("Authorization", "Bearer ann-s3cret").with("X-Mine", "1"),
            r#"GET /page None false true 0 Some("ann")"#,
        ),
        (Ask { body: "12345".to_owned(), ..Ask::new("POST /page") }, r#"POST /page None false false 5 None"#),
    ] {
        let reply = door.ask(&ask).await;
        assert_eq!((reply.status, reply.body.as_str()), (200, expected));
        assert_eq!(reply.header("content-type"), Some("text/plain"));
    }
    assert_eq!(door.ask(Ask::new("GET /page").with("Authorization", "Bearer wrong")).await.status, 401);
    assert_eq!(door.ask(Ask::new("GET /mcp/other")).await.status, 404);
    let large = Ask { body: "x".repeat(5 << 20), ..Ask::new("POST /page") };
    assert_eq!(door.ask(large).await.status, 413);
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
    // What follows is the next answer.
    assert_eq!(wire.ask(Ask::new("GET /page")).await.body, whole.body);
    door.stop().await;
}

#[tokio::test]
async fn without_tokens_a_page_sees_the_local_admin() {
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
    assert_eq!(wire.event().await, None);
    timeout(LONG, door.served).await.unwrap().unwrap();
}
