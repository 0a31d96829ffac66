//! Tests of POST to `/mcp`.

use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn requests_on_one_connection_are_answered_as_json_one_after_the_other() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    for _ in 0..3 {
        let reply = wire.ask(Ask::modern("echo")).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
        assert_eq!(reply.body, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(reply.header("mcp-session-id"), None);
    }
    // Pipelined requests, the last one in two pieces.
    let text = wire::write(&Ask::modern("echo")).repeat(4) + &wire::write(&Ask::modern("fail"));
    wire.write(&text.as_bytes()[..text.len() - 9]).await;
    for _ in 0..4 {
        assert_eq!(wire.reply().await.status, 200);
    }
    wire.write(&text.as_bytes()[text.len() - 9..]).await;
    assert_eq!(wire.reply().await.status, 404);
    door.stop().await;
}

#[tokio::test]
async fn a_request_that_is_not_as_mcp_says_is_told_how_to_mend_it() {
    let door = Running::start().await;
    for (ask, status, code, hint) in [
        (Ask::modern("echo").with("Accept", ""), 406, -32000, "Accept: application/json, text/event-stream"),
        (Ask::modern("echo").with("Accept", "application/json"), 406, -32000, "text/event-stream"),
        (Ask::modern("echo").with("Content-Type", ""), 415, -32000, "Content-Type: application/json"),
        (Ask::modern("echo").with("Content-Type", "text/plain"), 415, -32000, "application/json"),
        (Ask::modern("echo").with("Content-Encoding", "gzip"), 415, -32000, "Content-Encoding"),
        (Ask::post("{").with("MCP-Protocol-Version", "2025-11-25"), 400, -32700, "line 1"),
        (Ask::post("{"), 400, -32700, "line 1"),
        (Ask::post(""), 400, -32700, "not JSON"),
        (Ask::post("[]"), 400, -32600, "batch"),
        (Ask::post("7"), 400, -32600, "method"),
        (Ask::post(legacy("echo")), 400, -32000, "initialize"),
        (Ask::post(legacy("echo")).with("MCP-Protocol-Version", "1999-01-01"), 400, -32022, "2026-07-28"),
        (Ask::post(legacy("echo")).session("nonsense"), 404, -32001, "initialize"),
        (Ask::post(legacy("echo")).session(&"0".repeat(32)), 404, -32001, "initialize"),
    ] {
        let reply = door.ask(&ask).await;
        assert_eq!((reply.status, reply.code()), (status, code), "{:?} {}", ask.headers, ask.body);
        assert!(reply.body.contains(hint), "{}", reply.body);
    }
    let mut wire = door.connect().await;
    let mut text = wire::write(&Ask::post("{\"a\":\"??\"}")).into_bytes();
    let end = text.len();
    text[end - 3] = 0xff;
    wire.write(&text).await;
    assert_eq!(wire.reply().await.code(), -32700);
    door.stop().await;
}

#[tokio::test]
async fn other_methods_are_not_allowed() {
    let door = Running::start().await;
    for (ask, allowed) in [
        (Ask::new("PUT /mcp"), "GET, POST, DELETE"),
        (Ask::new("OPTIONS /mcp"), "GET, POST, DELETE"),
        (Ask::new("GET /mcp").with("MCP-Protocol-Version", "2026-07-28"), "POST"),
        (Ask::new("DELETE /mcp").with("MCP-Protocol-Version", "2026-07-28"), "POST"),
    ] {
        let reply = door.ask(&ask).await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allowed)), "{}", ask.line);
    }
    door.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() {
    let door = Running::with(|options| options.limits.max_body_bytes = 1000).await;
    let body = |size: usize| format!(r#"{{"id":1,"method":"echo","x":"{}"}}"#, "x".repeat(size));
    let modern = |body: String| Ask::post(body).with("MCP-Protocol-Version", "2026-07-28");
    assert_eq!(door.ask(modern(body(900))).await.status, 200);
    assert_eq!(door.ask(modern(body(1000))).await.status, 413);
    // The body is larger than the socket buffers, and still the client reads the response.
    let reply = door.ask(modern(body(8 << 20))).await;
    assert_eq!((reply.status, reply.code()), (413, -32000));
    assert!(reply.body.contains("1000 bytes"), "{}", reply.body);
    for (size, status) in [(900, 200), (2000, 413)] {
        let body = body(size);
        let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        assert_eq!(door.ask(modern(chunked).with("Transfer-Encoding", "chunked")).await.status, status);
    }
    assert_eq!(door.load.stats().bytes, 0);
    door.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_our_word_before_it_sends_too_much_has_it_at_once() {
    let inside = Inside::new(GatewayLimits { max_body_bytes: 1000, ..GatewayLimits::default() });
    for (header, millis) in [("Expect: 100-continue\r\n", 0), ("", 200)] {
        let mut wire = inside.connect(1 << 20);
        let head = wire::write(&Ask::modern("echo")).split("Content-Length").next().unwrap().to_owned();
        let since = Instant::now();
        wire.write(format!("{head}{header}Content-Length: 2000\r\n\r\n").as_bytes()).await;
        assert_eq!(wire.reply().await.status, 413, "{header}");
        // The server waits a moment for a client that may still be sending.
        assert_eq!(since.elapsed().as_millis(), millis, "{header}");
    }
}

#[tokio::test]
async fn messages_before_the_answer_make_it_a_stream_without_ids_in_the_modern_era() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    wire.send(Ask::modern("progress+wait")).await;
    let head = wire.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    for expected in [r#"{"method":"progress","n":1}"#, r#"{"method":"progress","n":2}"#] {
        let event = wire.event().await.unwrap();
        assert_eq!((event.id, event.data.as_deref()), (None, Some(expected)));
    }
    door.house.release.add_permits(1);
    assert_eq!(wire.event().await.unwrap().data.unwrap(), r#"{"method":"late"}"#);
    assert_eq!(wire.event().await.unwrap().data.unwrap(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(wire.event().await, None);
    // The connection can still be used.
    assert_eq!(wire.ask(Ask::modern("echo")).await.status, 200);
    assert_eq!(wire.ask(Ask::modern("progress")).await.body.matches("data: ").count(), 3);
    door.stop().await;
}

#[tokio::test]
async fn what_asks_nothing_is_accepted_without_a_body() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    for body in
        [r#"{"method":"notifications/initialized"}"#, r#"{"id":5,"result":{}}"#, r#"[{"method":"a"},{"method":"b"}]"#]
    {
        let reply = wire.ask(Ask::post(body).session(&id)).await;
        assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    }
    let reply = wire.ask(Ask::post(r#"{"method":"a"}"#).with("MCP-Protocol-Version", "2026-07-28")).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    assert_eq!(door.house.count("told"), 4);
    door.stop().await;
}

#[tokio::test]
async fn a_batch_of_a_session_is_handed_over_whole() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    let batch = format!("[{},{}]", legacy("echo"), r#"{"method":"a"}"#);
    assert_eq!(wire.ask(Ask::post(batch.clone()).session(&id)).await.status, 200);
    assert_eq!(wire.ask(Ask::post(batch)).await.status, 400);
    door.stop().await;
}

#[tokio::test]
async fn the_headers_of_mcp_reach_the_client_behind_the_door() {
    let door = Running::start().await;
    door.ask(Ask::modern("echo").with("Mcp-Method", "tools/call").with("Mcp-Name", "=?base64?w6RkZA==?=")).await;
    let headers = door.house.headers.lock().unwrap().take().unwrap();
    assert_eq!(headers.version.as_deref(), Some("2026-07-28"));
    assert_eq!((headers.method.as_deref(), headers.name.as_deref()), (Some("tools/call"), Some("ädd")));
    door.stop().await;
}

#[tokio::test]
async fn a_modern_client_that_goes_cancels_its_request_before_and_after_the_stream_begins() {
    let door = Running::start().await;
    for (index, method) in ["wait", "progress+wait"].into_iter().enumerate() {
        let mut wire = door.connect().await;
        wire.send(Ask::modern(method)).await;
        door.house.wait("waiting", index + 1).await;
        drop(wire);
        door.house.wait("cancelled", index + 1).await;
    }
    door.stop().await;
}

#[tokio::test]
async fn a_house_that_lets_nobody_in_is_unavailable() {
    let door = Running::start().await;
    door.house.refuse();
    for ask in [Ask::modern("echo"), Ask::post(legacy("initialize"))] {
        let reply = door.ask(&ask).await;
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
        assert!(reply.body.contains("the gate is closed"));
    }
    door.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_silent_for_long_becomes_a_stream_with_comments() {
    let inside = Inside::new(GatewayLimits::default());
    let mut wire = inside.connect(1 << 20);
    let since = Instant::now();
    wire.send(Ask::modern("wait")).await;
    assert_eq!(wire.head().await.header("content-type"), Some("text/event-stream"));
    assert_eq!(since.elapsed().as_secs(), 15);
    assert!(wire.event().await.unwrap().comment);
    assert_eq!(since.elapsed().as_secs(), 30);
    assert!(wire.event().await.unwrap().comment);
    inside.house.release.add_permits(1);
    assert_eq!(wire.message().await.unwrap().data.unwrap(), r#"{"method":"late"}"#);
    assert!(wire.message().await.unwrap().data.unwrap().contains("result"));
    assert_eq!(wire.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_awaited_until_it_is_answered_or_its_client_is_gone() {
    let inside = Inside::new(GatewayLimits::default());
    let mut quick = inside.connect(1 << 20);
    assert_eq!((quick.ask(Ask::modern("echo")).await.status, inside.desk.spin_wait.open()), (200, 0));
    let mut gone = inside.connect(1 << 20);
    gone.send(Ask::modern("wait")).await;
    inside.house.wait("waiting", 1).await;
    assert_eq!(inside.desk.spin_wait.open(), 1);
    assert_eq!((quick.ask(Ask::modern("echo")).await.status, inside.desk.spin_wait.open()), (200, 1));
    drop(gone);
    inside.ended().await;
    assert_eq!(inside.desk.spin_wait.open(), 0);
}
