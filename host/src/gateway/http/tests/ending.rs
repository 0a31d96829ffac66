//! Tests of how an HTTP server stops.

use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn calls_in_flight_finish_and_everything_else_ends_at_once() {
    let door = Running::with(|options| options.limits.grace = LONG).await;
    let mut calling = door.connect().await;
    let id = open(&mut calling).await;
    calling.send(Ask::modern("wait")).await;
    let mut streaming = door.connect().await;
    streaming.send(Ask::post(legacy("progress+wait")).session(&id)).await;
    streaming.head().await;
    door.house.wait("waiting", 2).await;
    // An open stream, an idle connection, one that never sent anything, and one in the middle of a request.
    let mut listening = door.connect().await;
    listening.send(Ask::get(&id)).await;
    listening.head().await;
    let mut resting = door.connect().await;
    assert_eq!(resting.ask(Ask::modern("echo")).await.status, 200);
    let mut mute = door.connect().await;
    let mut halting = door.connect().await;
    halting.write(b"POST /mcp HT").await;
    let seen = async {
        while door.load.stats().connections < 6 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, seen).await.unwrap();
    let (address, factory) = (door.address, door.house.clone());
    let _ = door.stop.send(());
    while listening.event().await.is_some() {}
    assert!(resting.closed().await && mute.closed().await && halting.closed().await);
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
