//! Tests of how an HTTP server stops.

use std::io::Write;

use tokio::time::Instant;

use super::wire::{Event, write};
use super::*;

/// The last event of a stream that ends because its server stops.
const HINT: Event = Event { id: None, retry: true, comment: false, data: None };

#[tokio::test]
async fn before_it_stops_all_is_served_and_each_answer_closes_its_connection() {
    let door = Running::start().await;
    let (mut resting, mut calling, mut listening) = (door.connect().await, door.connect().await, door.connect().await);
    let id = open(&mut resting).await;
    calling.send(Ask::modern("wait")).await;
    listening.send(Ask::get(&id)).await;
    assert_eq!(listening.head().await.header("connection"), None);
    listening.event().await.unwrap();
    door.house.wait("waiting", 1).await;
    door.drain.notify_one();
    let closes = async |mut wire: Wire<TcpStream>, ask: Ask| {
        let reply = wire.ask(ask).await;
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")), "{reply:?}");
        assert!(wire.closed().await);
        reply
    };
    closes(door.connect().await, Ask::modern("echo")).await;
    closes(door.connect().await, Ask::post(legacy("initialize"))).await;
    closes(door.connect().await, Ask::post(legacy("progress")).session(&id)).await;
    closes(door.connect().await, Ask::new("GET /page")).await;
    // A connection that was idle until now is still served.
    closes(resting, Ask::post(legacy("echo")).session(&id)).await;
    assert_eq!(door.connect().await.ask(Ask::modern("echo").with("Host", "evil.example")).await.status, 403);
    // A stream goes on, and so does a call.
    assert!(door.house.say(0, "{}"));
    assert_eq!(listening.message().await.unwrap().data.unwrap(), "{}");
    door.house.release.add_permits(1);
    let reply = calling.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    door.stop().await;
    assert_eq!(listening.event().await, Some(HINT));
    assert_eq!(listening.event().await, None);
}

#[tokio::test]
async fn connections_that_wait_to_be_accepted_are_served() {
    let door = Running::start().await;
    // Until this test waits for something, the server accepts nothing.
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(door.address).unwrap();
            stream.write_all(write(&Ask::modern("echo")).as_bytes()).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let address = door.address;
    let _ = door.stop.send(());
    for stream in waiting {
        let mut wire = Wire::new(TcpStream::from_std(stream).unwrap());
        let reply = wire.reply().await;
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(wire.closed().await);
    }
    timeout(LONG, door.served).await.expect("the door ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_has_a_moment_for_its_first_request() {
    for (waits, is_served) in [(Duration::ZERO, true), (Duration::from_millis(900), true), (Duration::MAX, false)] {
        let inside = Inside::new(GatewayLimits::default());
        let (mut wire, since) = (inside.connect(4096), Instant::now());
        tokio::task::yield_now().await;
        inside.phase.send_replace(ServerPhase::Stopping);
        if is_served {
            tokio::time::sleep(waits).await;
            let ask = write(&Ask::modern("echo"));
            // Once it has begun, a request is waited for.
            wire.write(&ask.as_bytes()[..10]).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            wire.write(&ask.as_bytes()[10..]).await;
            let reply = wire.reply().await;
            assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        }
        assert!(wire.closed().await);
        let elapsed = since.elapsed();
        let expected = if is_served { waits + Duration::from_secs(5) } else { Duration::from_secs(1) };
        assert!(elapsed >= expected && elapsed < expected + Duration::from_millis(10), "{elapsed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_never_used_is_closed_at_once() {
    let inside = Inside::new(GatewayLimits::default());
    let mut wire = inside.connect(4096);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let since = Instant::now();
    inside.phase.send_replace(ServerPhase::Draining);
    tokio::time::sleep(Duration::from_secs(1)).await;
    inside.phase.send_replace(ServerPhase::Stopping);
    assert!(wire.closed().await);
    assert!(since.elapsed() < Duration::from_millis(1010), "{:?}", since.elapsed());
}

#[tokio::test]
async fn streams_end_with_a_hint_when_to_come_back() {
    let door = Running::start().await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    let other = open(&mut wire).await;
    wire.send(Ask::get(&other)).await;
    wire.head().await;
    assert!(door.house.say(1, "{}"));
    let event = wire.message().await.unwrap().id.unwrap();
    drop(wire);
    let mut streams = Vec::new();
    for ask in [
        Ask::get(&id),
        // A stream that its client resumes.
        Ask::get(&other).with("Last-Event-ID", event),
        Ask::modern("progress+listen+wait").with("Mcp-Method", "subscriptions/listen"),
        Ask::new("GET /events"),
    ] {
        let mut wire = door.connect().await;
        wire.send(ask).await;
        assert_eq!(wire.head().await.status, 200);
        streams.push(wire);
    }
    door.house.wait("waiting", 1).await;
    let _ = door.stop.send(());
    for mut stream in streams {
        let mut last = None;
        while let Some(event) = stream.event().await {
            last = Some(event);
        }
        assert_eq!(last, Some(HINT));
        assert!(stream.closed().await);
    }
    timeout(LONG / 2, door.served).await.expect("nothing is waited for").unwrap();
}

#[tokio::test]
async fn who_comes_back_for_the_answer_to_a_call_gets_it() {
    let door = Running::with(|options| options.limits.grace = LONG).await;
    let mut wire = door.connect().await;
    let id = open(&mut wire).await;
    wire.send(Ask::post(legacy("progress+wait")).session(&id)).await;
    wire.head().await;
    let event = wire.message().await.unwrap();
    drop(wire);
    let mut again = door.connect().await;
    again.send(Ask::get(&id).with("Last-Event-ID", event.id.unwrap())).await;
    again.head().await;
    assert!(again.message().await.unwrap().data.unwrap().contains("progress"));
    let mut listening = door.connect().await;
    listening.send(Ask::get(&id)).await;
    listening.head().await;
    let house = door.house.clone();
    let _ = door.stop.send(());
    while listening.event().await.is_some() {}
    house.release.add_permits(1);
    let mut last = None;
    while let Some(event) = again.event().await {
        last = event.data;
    }
    assert!(last.unwrap().contains("result"));
    timeout(LONG / 2, door.served).await.expect("nothing else is waited for").unwrap();
}

#[tokio::test]
async fn calls_in_flight_finish_and_what_only_waits_ends_at_once() {
    let door = Running::with(|options| options.limits.grace = LONG).await;
    let mut calling = door.connect().await;
    let id = open(&mut calling).await;
    calling.send(Ask::modern("wait")).await;
    let mut streaming = door.connect().await;
    streaming.send(Ask::post(legacy("progress+wait")).session(&id)).await;
    streaming.head().await;
    door.house.wait("waiting", 2).await;
    // An open stream, an idle connection, and one in the middle of a request.
    let mut listening = door.connect().await;
    listening.send(Ask::get(&id)).await;
    listening.head().await;
    let mut resting = door.connect().await;
    assert_eq!(resting.ask(Ask::modern("echo")).await.status, 200);
    let mut halting = door.connect().await;
    let ask = write(&Ask::modern("echo"));
    halting.write(&ask.as_bytes()[..12]).await;
    let seen = async {
        while door.load.stats().connections < 5 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, seen).await.unwrap();
    let (address, factory) = (door.address, door.house.clone());
    let _ = door.stop.send(());
    while listening.event().await.is_some() {}
    assert!(resting.closed().await);
    halting.write(&ask.as_bytes()[12..]).await;
    let reply = halting.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(halting.closed().await);
    assert!(TcpStream::connect(address).await.is_err(), "it does not listen any more");
    assert_eq!(factory.count("closed"), 0);
    factory.release.add_permits(2);
    let reply = calling.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    let mut last = None;
    while let Some(event) = streaming.message().await {
        last = event.data;
    }
    assert!(last.unwrap().contains("result"));
    timeout(LONG, door.served).await.unwrap().unwrap();
    assert_eq!((factory.count("cancelled"), factory.count("closed")), (0, 1));
}

#[tokio::test]
async fn calls_that_do_not_finish_in_time_are_cancelled_and_answered() {
    let door = Running::with(|options| options.limits.grace = Duration::from_millis(50)).await;
    let mut modern = door.connect().await;
    let id = open(&mut modern).await;
    let mut legacy_call = door.connect().await;
    modern.send(Ask::modern("wait")).await;
    legacy_call.send(Ask::post(legacy("progress+wait")).session(&id)).await;
    // A call that continues without its connection.
    let mut gone = door.connect().await;
    gone.send(Ask::post(legacy("wait")).session(&id)).await;
    door.house.wait("waiting", 3).await;
    drop(gone);
    let (factory, since) = (door.house.clone(), Instant::now());
    door.stop().await;
    assert!(since.elapsed() < LONG / 2);
    let reply = modern.reply().await;
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("given up"), "{}", reply.body);
    legacy_call.head().await;
    let mut last = None;
    while let Some(event) = legacy_call.message().await {
        last = event.data;
    }
    assert!(last.unwrap().contains("given up"));
    assert!(modern.closed().await && legacy_call.closed().await);
    factory.wait("released", 3).await;
    assert_eq!((factory.count("opened"), factory.count("closed"), factory.count("cancelled")), (1, 1, 0));
}

#[tokio::test]
async fn calls_that_cannot_even_be_cancelled_are_cut_off() {
    let door = Running::with(|options| options.limits.grace = Duration::from_millis(50)).await;
    let mut modern = door.connect().await;
    let id = open(&mut modern).await;
    let mut legacy_call = door.connect().await;
    modern.send(Ask::modern("stubborn+wait")).await;
    legacy_call.send(Ask::post(legacy("progress+stubborn+wait")).session(&id)).await;
    door.house.wait("waiting", 2).await;
    let (factory, since) = (door.house.clone(), Instant::now());
    door.stop().await;
    assert!(since.elapsed() < LONG / 2);
    assert!(modern.closed().await && legacy_call.closed().await);
    factory.wait("cancelled", 2).await;
    assert_eq!((factory.count("opened"), factory.count("closed")), (1, 1));
}

#[tokio::test]
async fn who_only_listens_is_told_the_end_at_once() {
    let door = Running::with(|options| options.limits.grace = LONG).await;
    let mut wire = door.connect().await;
    wire.send(Ask::modern("progress+listen+wait").with("Mcp-Method", "subscriptions/listen")).await;
    wire.head().await;
    door.house.wait("waiting", 1).await;
    let _ = door.stop.send(());
    let mut last = None;
    while let Some(event) = wire.message().await {
        last = event.data;
    }
    assert!(last.unwrap().contains("result"));
    timeout(LONG / 2, door.served).await.expect("nothing is waited for").unwrap();
}

#[test]
fn a_program_that_ends_with_calls_in_flight_does_not_hang() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let kept = runtime.block_on(async {
            let door = Running::start().await;
            let mut wires = [door.connect().await, door.connect().await, door.connect().await];
            let id = open(&mut wires[0]).await;
            wires[0].send(Ask::post(legacy("wait")).session(&id)).await;
            wires[1].send(Ask::post(legacy("progress+wait")).session(&id)).await;
            wires[2].send(Ask::post(r#"{"id":1,"method":"initialize","params":"wait"}"#)).await;
            door.house.wait("waiting", 3).await;
            (door, wires)
        });
        drop(runtime);
        drop(kept);
        done.send(()).unwrap();
    });
    ended.recv_timeout(LONG).expect("the runtime ends");
}
