//! Tests that events kept for reconnecting clients give way to unread events.

use super::*;

fn of(who: &str, ask: Ask) -> Ask {
    ask.with("Authorization", format!("Bearer {who}-s3cret"))
}

/// Opens a session of a principal and returns its id.
async fn session(door: &Running, who: &str) -> String {
    let reply = door.ask(of(who, Ask::post(legacy("initialize")))).await;
    reply.header("mcp-session-id").expect("a session").to_owned()
}

#[tokio::test]
async fn large_answers_that_were_read_leave_room_for_other_events() {
    // The test clients return 8 MiB.
    let most = 20 << 20;
    let door = Running::with(|options| options.limits.streams.max_event_bytes = most).await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    for _ in 0..4 {
        let reply = wire.ask(Ask::post(legacy("progress+huge")).session(&id)).await;
        assert_eq!(reply.body.matches("\ndata: ").count(), 3);
    }
    assert!(door.load.stats().event_bytes <= most, "{:?}", door.load.stats());
    assert!(door.house.say(0, "{}"));
    // The oldest event is gone, and the last one is there.
    let resume = |stream| Ask::get(&id).with("Last-Event-ID", of_request(&door.house, stream, 1));
    assert!(door.ask(resume(2)).await.body.contains("outcome-unknown"));
    assert_eq!(door.ask(resume(5)).await.body.matches("\ndata: ").count(), 2);
    assert_eq!(door.ask(Ask::new("DELETE /mcp").session(&id)).await.status, 204);
    door.house.wait("closed", 1).await;
    door.stop().await;
}

#[tokio::test]
async fn what_is_kept_of_one_principal_takes_no_room_from_another() {
    let door = Running::with(|options| {
        options.tokens = tokens();
        options.limits.streams.max_event_bytes = 20 << 20;
    });
    let door = door.await;
    let (of_ann, of_bob) = (session(&door, "ann").await, session(&door, "bob").await);
    let first = door.ask(of("ann", Ask::post(legacy("progress")).session(&of_ann))).await;
    assert_eq!(first.body.matches("\ndata: ").count(), 3);
    for _ in 0..4 {
        door.ask(of("bob", Ask::post(legacy("progress+huge")).session(&of_bob))).await;
    }
    assert!(door.load.stats().event_bytes <= 15 << 20, "{:?}", door.load.stats());
    // The kept events of the other principal are still there.
    let resumed = door.ask(of("ann", Ask::get(&of_ann).with("Last-Event-ID", of_request(&door.house, 3, 1)))).await;
    assert_eq!(resumed.body.matches("\ndata: ").count(), 2);
    let next = door.ask(of("ann", Ask::post(legacy("progress+huge")).session(&of_ann))).await;
    assert_eq!(next.body.matches("\ndata: ").count(), 3);
    assert!(door.house.say(0, "{}"));
    door.stop().await;
}

#[tokio::test]
async fn what_one_principal_does_not_read_is_three_quarters_of_the_room_at_most() {
    let door = Running::with(|options| {
        options.tokens = tokens();
        options.limits.streams.max_event_bytes = 40_000;
    });
    let door = door.await;
    let (of_ann, of_bob) = (session(&door, "ann").await, session(&door, "bob").await);
    let mut said = 0;
    while door.house.say(1, &"x".repeat(1000)) {
        said += 1;
    }
    assert!((20..30).contains(&said), "{said}");
    let reply = door.ask(of("ann", Ask::post(legacy("progress")).session(&of_ann))).await;
    assert_eq!(reply.body.matches("\ndata: ").count(), 3);
    // When bob reads, there is room again.
    let mut stream = door.connect().await;
    stream.send(of("bob", Ask::get(&of_bob))).await;
    assert_eq!(stream.head().await.status, 200);
    for _ in 0..said {
        stream.message().await.unwrap();
    }
    assert!(door.house.say(1, "{}"));
    door.stop().await;
}
