//! Tests of the limits of sizes, counts and times.

use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_too_long_is_cut_off() {
    let inside = Inside::new(GatewayLimits::default());
    let whole = wire::write(&Ask::modern("echo"));
    for (sent, seconds, status) in [
        // Nothing at all, or half a head.
        (0, 10, None),
        (30, 10, None),
        // Half a body.
        (whole.len() - 9, 50, Some(408)),
        // A request, then silence.
        (whole.len(), 120, Some(200)),
    ] {
        let mut wire = inside.connect(1 << 20);
        let since = Instant::now();
        wire.write(&whole.as_bytes()[..sent]).await;
        if let Some(status) = status {
            assert_eq!(wire.reply().await.status, status, "{sent}");
        }
        assert!(wire.closed().await);
        assert_eq!(since.elapsed().as_secs(), seconds, "{sent}");
    }
    assert_eq!(inside.desk.parts.load.stats().bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_letter_by_letter_has_no_more_time() {
    let inside = Inside::new(GatewayLimits::default());
    let mut wire = inside.connect(1 << 20);
    assert_eq!(wire.ask(Ask::modern("echo")).await.status, 200);
    let since = Instant::now();
    for letter in wire::write(&Ask::modern("echo")).bytes() {
        wire.write(&[letter]).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    assert!(wire.closed().await);
    inside.ended().await;
    assert!(since.elapsed().as_secs() >= 20);
    assert_eq!(inside.house.headers.lock().unwrap().iter().count(), 1, "the second request never came");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut_off() {
    let inside = Inside::new(GatewayLimits::default());
    let mut wire = inside.connect(1000);
    let since = Instant::now();
    wire.send(Ask::modern("huge")).await;
    inside.ended().await;
    assert_eq!(since.elapsed().as_secs(), 30);
    assert_eq!((inside.desk.parts.load.stats().bytes, inside.desk.parts.load.stats().requests), (0, 0));
    // A client that reads slowly is not closed.
    let mut wire = inside.connect(64 << 10);
    wire.send(Ask::modern("huge")).await;
    let head = wire.head().await;
    assert_eq!(head.status, 200);
    for _ in 0..8 {
        tokio::time::advance(Duration::from_secs(20)).await;
        tokio::io::AsyncReadExt::read_exact(&mut wire.io, &mut vec![0; 256 << 10]).await.unwrap();
    }
    assert_eq!(inside.desk.parts.load.stats().connections, 1);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let door = Running::with(|options| options.limits.max_header_bytes = 16 << 10).await;
    assert_eq!(door.ask(Ask::modern("echo").with("X-Large", "x".repeat(12 << 10))).await.status, 200);
    assert_eq!(door.ask(Ask::modern("echo").with("X-Large", "x".repeat(20 << 10))).await.status, 431);
    let mut many = Ask::modern("echo");
    many.headers.extend((0..200).map(|number| ("X-Many", number.to_string())));
    assert_eq!(door.ask(many).await.status, 431);
    door.stop().await;
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let door = Running::with(|options| options.limits.max_connections = 2).await;
    let mut wires = [door.connect().await, door.connect().await];
    for wire in &mut wires {
        wire.send(Ask::modern("wait")).await;
    }
    door.house.wait("waiting", 2).await;
    let mut third = door.connect().await;
    let reply = third.ask(Ask::modern("echo")).await;
    assert_eq!((reply.status, reply.header("retry-after"), reply.code()), (503, Some("1"), -32000));
    assert_eq!(reply.reason(), "queue-full");
    assert_eq!(door.load.stats().refused.of(RefusalReason::Connections), 1);
    // An idle connection makes room.
    door.house.release.add_permits(1);
    timeout(LONG, async { while third.ask(Ask::modern("echo")).await.status != 200 {} }).await.unwrap();
    assert_eq!(door.load.stats().connections, 2);
    drop((wires, third));
    // The server notices after a moment that they are gone.
    let free = async {
        while door.load.stats().connections > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, free).await.unwrap();
    assert_eq!(door.ask(Ask::modern("echo")).await.status, 200);
    door.stop().await;
}

#[tokio::test]
async fn one_request_too_many_is_told_so_and_pages_are_served_all_the_same() {
    let door = Running::with(|options| options.limits.max_requests = 1).await;
    let mut wire = door.connect().await;
    wire.send(Ask::modern("wait")).await;
    door.house.wait("waiting", 1).await;
    let reply = door.ask(Ask::modern("echo")).await;
    assert_eq!((reply.status, reply.header("retry-after"), reply.code()), (503, Some("1"), -32000));
    assert_eq!(reply.reason(), "queue-full");
    assert_eq!(door.ask(Ask::new("GET /page")).await.status, 200);
    door.house.release.add_permits(1);
    assert_eq!(wire.reply().await.status, 200);
    let stats = door.load.stats();
    assert_eq!((stats.refused.of(RefusalReason::Requests), stats.accepted), (1, 1));
    door.stop().await;
}

#[tokio::test]
async fn the_bytes_in_flight_are_bounded_and_given_back() {
    let door = Running::with(|options| options.limits.max_inflight_bytes = 2000).await;
    let ask = |method: &str, size: usize| {
        let body = format!(r#"{{"id":1,"method":"{method}","x":"{}"}}"#, "x".repeat(size));
        Ask::post(body).with("MCP-Protocol-Version", "2026-07-28")
    };
    let mut wire = door.connect().await;
    wire.send(ask("wait", 1500)).await;
    door.house.wait("waiting", 1).await;
    assert!(door.load.stats().bytes > 1500);
    let reply = door.ask(ask("echo", 1000)).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert_eq!(reply.reason(), "queue-full");
    assert_eq!(door.ask(ask("echo", 100)).await.status, 200);
    door.house.release.add_permits(1);
    assert!(wire.reply().await.body.contains("result"));
    assert_eq!(door.ask(ask("echo", 1000)).await.status, 200);
    door.stop().await;
}

#[tokio::test]
async fn who_only_listens_takes_a_place_among_the_sessions_and_none_among_the_requests() {
    let limits = |options: &mut HttpOptions| (options.limits.max_requests, options.limits.max_sessions) = (1, 3);
    let door = Running::with(limits).await;
    let listen = || Ask::modern("progress+listen+wait").with("Mcp-Method", "subscriptions/listen");
    let mut listening = Vec::new();
    for _ in 0..3 {
        let mut wire = door.connect().await;
        wire.send(listen()).await;
        assert_eq!(wire.head().await.status, 200);
        listening.push(wire);
    }
    let stats = door.load.stats();
    assert_eq!((stats.requests, stats.bytes), (0, 0));
    assert_eq!(door.ask(Ask::modern("echo")).await.status, 200);
    for ask in [listen(), Ask::post(legacy("initialize"))] {
        let reply = door.ask(ask).await;
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("30")));
        assert_eq!(reply.reason(), "queue-full");
    }
    listening.pop();
    // The server notices after a moment that it is gone.
    let free = async {
        while door.ask(Ask::post(legacy("initialize"))).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, free).await.unwrap();
    // Large requests and batches count as ordinary requests.
    let mut large = listen();
    large.body = format!("{}{}", " ".repeat(400 << 10), large.body);
    let mut wire = door.connect().await;
    wire.send(large).await;
    assert_eq!(wire.head().await.status, 200);
    assert_eq!(door.load.stats().requests, 1);
    assert_eq!(door.ask(Ask::modern("echo")).await.status, 503);
    door.stop().await;
}

#[tokio::test]
async fn one_of_several_principals_leaves_room_for_the_others() {
    let limits = |options: &mut HttpOptions| {
        options.tokens = tokens();
        (options.limits.max_requests, options.limits.max_sessions) = (4, 4);
    };
    let door = Running::with(limits).await;
    let of = |who: &str, ask: Ask| ask.with("Authorization", format!("Bearer {who}-s3cret"));
    let mut wires = Vec::new();
    for _ in 0..3 {
        let mut wire = door.connect().await;
        wire.send(of("ann", Ask::modern("wait"))).await;
        wires.push(wire);
    }
    door.house.wait("waiting", 3).await;
    let reply = door.ask(of("ann", Ask::modern("echo"))).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert_eq!(reply.reason(), "queue-full");
    assert_eq!(door.ask(of("bob", Ask::modern("echo"))).await.status, 200);
    door.house.release.add_permits(3);
    for wire in &mut wires {
        assert_eq!(wire.reply().await.status, 200);
    }
    assert_eq!(door.ask(of("ann", Ask::modern("echo"))).await.status, 200);

    door.house.hold_state();
    let initialize = |who: &str| of(who, Ask::post(legacy("initialize")));
    for _ in 0..3 {
        assert_eq!(door.ask(initialize("ann")).await.status, 200);
    }
    let reply = door.ask(initialize("ann")).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("30")));
    assert_eq!(door.ask(initialize("bob")).await.status, 200);
    let stats = door.load.stats();
    assert_eq!((stats.refused.of(RefusalReason::Requests), stats.refused.of(RefusalReason::Sessions)), (1, 1));

    // A single principal may use everything.
    let mut alone = HttpOptions::new(door.address);
    alone.tokens =
        Tokens::new([("ann-s3cret".to_owned(), Principal { name: "ann".to_owned(), admin: false })]).unwrap();
    alone.limits.max_sessions = 4;
    assert_eq!(door.control.prepare(alone).unwrap().apply().ended_sessions, 1);
    assert_eq!(door.ask(initialize("ann")).await.status, 200);
    assert_eq!(door.ask(initialize("ann")).await.status, 503);
    door.stop().await;
}
