//! Tests of a session's streams: the standalone stream, and resuming a broken stream.

use tokio::time::{Instant, advance};

use super::*;

#[tokio::test]
async fn unasked_messages_go_to_the_stream_of_the_session_with_ids() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    // Messages sent before the stream is open wait for it.
    assert!(door.house.say(0, "{\"n\":1}"));
    wire.send(Ask::get(&id)).await;
    let head = wire.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let opening = wire.event().await.unwrap();
    assert!(opening.retry && opening.data.is_none(), "an older client reads all data as JSON");
    assert!(door.house.say(0, "{\"n\":2}"));
    for number in 1..=2 {
        let event = wire.event().await.unwrap();
        assert_eq!(event.id, Some(standalone(&door.house, 1, number)));
        assert_eq!(event.data, Some(format!("{{\"n\":{number}}}")));
    }
    // Meanwhile, another connection uses the same session.
    assert_eq!(door.ask(Ask::post(legacy("echo")).session(&id)).await.status, 200);
    assert_eq!(door.ask(Ask::new("DELETE /mcp").session(&id)).await.status, 204);
    assert_eq!(wire.event().await, None);
    assert!(!door.house.say(0, "{}"));
    door.stop().await;
}

#[tokio::test]
async fn a_second_stream_takes_the_place_of_the_first_and_goes_on_after_the_last_event() {
    let door = Running::start().await;
    let mut first = door.connect().await;
    let id = open(&mut first).await;
    first.send(Ask::get(&id)).await;
    first.head().await;
    for number in 1..=3 {
        assert!(door.house.say(0, &format!("{number}")));
    }
    assert_eq!(first.message().await.unwrap().data.unwrap(), "1");
    let mut second = door.connect().await;
    second
        .send(
            Ask::get(&id)
                .with("Last-Event-ID", standalone(&door.house, 1, 1))
                .with("MCP-Protocol-Version", "2025-11-25"),
        )
        .await;
    assert_eq!(second.head().await.status, 200);
    let primer = second.event().await.unwrap();
    assert_eq!((primer.id.as_deref(), primer.data.as_deref()), (Some(&*standalone(&door.house, 1, 1)), Some("")));
    assert_eq!(second.message().await.unwrap().data.unwrap(), "2");
    assert_eq!(second.message().await.unwrap().data.unwrap(), "3");
    // The first stream ends, whatever it has read before.
    while first.event().await.is_some() {}
    assert!(door.house.say(0, "4"));
    assert_eq!(second.message().await.unwrap().id.unwrap(), standalone(&door.house, 1, 4));
    door.stop().await;
}

#[tokio::test]
async fn a_call_goes_on_when_its_stream_is_cut_and_the_rest_is_read_later() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    let of = |event| of_request(&door.house, 2, event);
    let ask = Ask::post(legacy("progress+wait")).session(&id).with("MCP-Protocol-Version", "2025-11-25");
    wire.send(ask).await;
    wire.head().await;
    let primer = wire.event().await.unwrap();
    assert_eq!((primer.id, primer.data.as_deref(), primer.retry), (Some(of(0)), Some(""), true));
    let event = wire.message().await.unwrap();
    assert_eq!(event.id, Some(of(1)));
    drop(wire);
    // The client reconnects before the response, and again after it.
    let mut again = door.connect().await;
    again.send(Ask::get(&id).with("Last-Event-ID", event.id.unwrap())).await;
    assert_eq!(again.head().await.status, 200);
    assert_eq!(again.message().await.unwrap().id, Some(of(2)));
    door.house.release.add_permits(1);
    assert_eq!(again.message().await.unwrap().data.unwrap(), r#"{"method":"late"}"#);
    assert!(again.message().await.unwrap().data.unwrap().contains("result"));
    assert_eq!(again.event().await, None);
    let mut third = door.connect().await;
    third.send(Ask::get(&id).with("Last-Event-ID", of(0))).await;
    third.head().await;
    for number in 1..=4 {
        assert_eq!(third.message().await.unwrap().id, Some(of(number)));
    }
    assert_eq!(third.event().await, None);
    assert_eq!((door.house.count("cancelled"), door.house.count("released")), (0, 1));
    // The request is finished, and its slot is free.
    assert_eq!(door.load.stats().requests, 0);
    door.stop().await;
}

#[tokio::test]
async fn a_call_goes_on_when_nothing_but_the_start_of_its_stream_was_read() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    let ask = Ask::post(legacy("wait")).session(&id).with("MCP-Protocol-Version", "2025-11-25");
    wire.send(ask.with("Accept", "text/event-stream, application/json")).await;
    wire.head().await;
    let primer = wire.event().await.unwrap();
    drop(wire);
    door.house.wait("waiting", 1).await;
    let mut again = door.connect().await;
    again.send(Ask::get(&id).with("Last-Event-ID", primer.id.unwrap())).await;
    assert_eq!(again.head().await.status, 200);
    door.house.release.add_permits(1);
    assert_eq!(again.message().await.unwrap().data.unwrap(), r#"{"method":"late"}"#);
    assert!(again.message().await.unwrap().data.unwrap().contains("result"));
    assert_eq!(again.event().await, None);
    door.stop().await;
}

#[tokio::test]
async fn a_call_of_a_session_goes_on_though_nothing_was_sent_before_the_cut() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    wire.send(Ask::post(legacy("wait")).session(&id)).await;
    door.house.wait("waiting", 1).await;
    drop(wire);
    door.house.release.add_permits(1);
    door.house.wait("released", 1).await;
    assert_eq!(door.house.count("cancelled"), 0);
    door.stop().await;
}

#[tokio::test]
async fn a_text_that_is_no_event_cannot_be_followed() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    for last in ["9-1", "nonsense", "0", "1-2-x"] {
        let reply = wire.ask(Ask::get(&id).with("Last-Event-ID", last)).await;
        assert_eq!((reply.status, reply.code()), (400, -32000), "{last}");
    }
    assert_eq!(wire.ask(Ask::get(&id).with("Accept", "application/json")).await.status, 406);
    // Of a stream that this server does not have, it says what is lost.
    let lost = wire.ask(Ask::get(&id).with("Last-Event-ID", of_request(&door.house, 9, 1))).await;
    assert!(lost.status == 200 && lost.body.contains(r#""id":1,"error""#), "{}", lost.body);
    door.stop().await;
}

#[tokio::test]
async fn the_events_of_a_stream_are_bounded_and_the_answer_is_always_among_them() {
    let door = Running::with(|options| options.limits.streams.kept_events = 5).await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    let reply = wire.ask(Ask::post(legacy("flood")).session(&id)).await;
    assert_eq!(reply.body.matches("data: ").count(), 6);
    assert!(reply.body.trim_end().ends_with(r#""result":{}}"#));
    let mut said = 0;
    while door.house.say(0, "x") {
        said += 1;
    }
    assert_eq!(said, 5);
    door.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_gets_comments_and_what_was_kept_is_forgotten() {
    let inside = Inside::new(GatewayLimits::default());
    let mut wire = inside.connect(1 << 20);
    let id = open(&mut wire).await;
    wire.ask(Ask::post(legacy("progress")).session(&id)).await;
    let since = Instant::now();
    wire.send(Ask::get(&id)).await;
    wire.head().await;
    assert!(wire.event().await.unwrap().retry);
    for number in 1..=3 {
        assert!(wire.event().await.unwrap().comment);
        assert_eq!(since.elapsed().as_secs(), number * 15);
    }
    let resume = Ask::get(&id).with("Last-Event-ID", of_request(&inside.house, 2, 1));
    inside.desk.parts.sessions.sweep();
    assert_eq!(inside.connect(1 << 20).ask(&resume).await.body.matches("data: ").count(), 2);
    advance(Duration::from_secs(5 * 60)).await;
    inside.desk.parts.sessions.sweep();
    assert!(inside.connect(1 << 20).ask(&resume).await.body.contains("outcome-unknown"));
    assert_eq!(inside.desk.parts.load.stats().event_bytes, 0);
}
