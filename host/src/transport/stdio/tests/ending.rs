//! How a connection ends without leaving anything behind.

use super::*;

const SOON: Duration = Duration::from_millis(50);

#[tokio::test]
async fn the_end_of_a_process_says_how_it_ended() {
    let signal =
        |signal| Failure::Exited(ProcessExit { signal: Some(signal), read_nothing: true, ..ProcessExit::default() });
    let rows = [
        ("echo '{}'; exit 0", exited(0, "")),
        ("echo 'bad token' >&2; echo '{}'; exit 42", exited(42, "bad token")),
        ("echo '{}'; kill -9 $$", signal(9)),
        ("echo '{}'; kill -15 $$", signal(15)),
        // It dies during a request.
        ("read line; echo '{}'; exit 5", exited_after_reading(5)),
    ];
    for (script, why) in rows {
        let (transport, mut events) = start(&shell(script)).await;
        let _ = in_time(transport.send(outgoing("{}"))).await;
        assert_eq!(events.rest().await, (vec!["{}".to_owned()], RequestError::sent(why.clone())));
        assert_eq!(in_time(transport.send(outgoing("{}"))).await, Err(RequestError::unsent(why)));
        in_time(transport.close()).await;
    }
}

#[tokio::test]
async fn a_server_that_closes_its_output_and_lives_is_ended() {
    let (transport, mut events) =
        start(&with_grace(Duration::ZERO, shell("echo '[]'; exec >&-; exec sleep 1000"))).await;
    let pid = transport.pid().unwrap();
    assert_eq!(events.rest().await, (vec!["[]".to_owned()], RequestError::sent(Failure::Closed)));
    until_ended(&[pid]).await;
}

#[tokio::test]
async fn the_end_of_a_launcher_ends_what_it_left_behind() {
    // One child holds the output, the other does not.
    for (redirect, left_children) in [("", true), (">/dev/null 2>&1", false)] {
        let script = format!("sleep 1000 {redirect} & echo \"[$!]\"; exit 4");
        let (_transport, mut events) = start(&shell(&script)).await;
        let (messages, why) = events.rest().await;
        let exit = ProcessExit { code: Some(4), left_children, read_nothing: true, ..ProcessExit::default() };
        assert_eq!(why, RequestError::sent(Failure::Exited(exit)));
        until_ended(&numbers(&messages[0])).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_end_of_a_launcher_ends_what_its_server_scattered() {
    let script = "sh -c 'setsid sleep 1000 & echo \"[$$, $!]\"; wait' & wait";
    let (transport, mut events) = start(&shell(script)).await;
    let pids = numbers(&events.message().await);
    let launcher = rustix::process::Pid::from_raw(transport.pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    until_ended(&pids).await;
}

#[tokio::test]
async fn a_polite_server_ends_when_its_input_does() {
    let (transport, mut events) = start(&shell("while read line; do echo \"$line\"; done; echo '[\"bye\"]'")).await;
    let pid = transport.pid().unwrap();
    transport.send(outgoing("[1]")).await.unwrap();
    in_time(async { tokio::join!(transport.close(), transport.close()) }).await;
    assert!(!std::fs::exists(format!("/proc/{pid}")).unwrap(), "it was waited for");
    assert_eq!(in_time(transport.send(outgoing("[2]"))).await, Err(RequestError::unsent(Failure::Closed)));
    in_time(transport.close()).await;
    let messages = ["[1]", "[\"bye\"]"].map(str::to_owned);
    assert_eq!(events.rest().await, (messages.to_vec(), RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn closing_lets_what_waits_be_written_first() {
    let (transport, mut events) = start(&program("cat", &[])).await;
    let text = format!("[\"{}\"]", "x".repeat(1 << 20));
    let (sent, ()) = in_time(async { tokio::join!(transport.send(outgoing(text.clone())), transport.close()) }).await;
    sent.unwrap();
    assert_eq!(events.rest().await, (vec![text], RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn a_server_that_ignores_its_input_is_terminated() {
    let script = "trap 'echo \"[15]\"; exit' TERM; echo '[]'; sleep 1000 & wait";
    let (transport, mut events) = start(&with_grace(Duration::from_secs(1), shell(script))).await;
    assert_eq!(events.message().await, "[]");
    in_time(transport.close()).await;
    assert_eq!(events.rest().await, (vec!["[15]".to_owned()], RequestError::sent(Failure::Closed)));
}

#[tokio::test]
async fn closing_ends_a_family_that_ignores_every_hint() {
    let script = "trap '' TERM; sh -c 'sleep 1000 & echo \"[$$, $!]\"; wait' & while :; do sleep 1000; done";
    let (transport, mut events) = start(&with_grace(SOON, shell(script))).await;
    let family = [numbers(&events.message().await), vec![transport.pid().unwrap()]].concat();
    in_time(transport.close()).await;
    until_ended(&family).await;
    assert_eq!(events.end().await, RequestError::sent(Failure::Closed));
}

/// A server with a child in its group and one in a session of its own; prints their ids.
const STRAYS: &str = "
import os, subprocess, sys, time
pipe = None if sys.argv[1:] == ['holding'] else subprocess.DEVNULL
near = subprocess.Popen(['sleep', '1000'], stdout=pipe)
far = subprocess.Popen(['sleep', '1000'], stdout=pipe, start_new_session=True)
print([os.getpid(), near.pid, far.pid])
sys.stdin.read()
";

#[tokio::test]
async fn closing_ends_descendants_that_left_the_group() {
    for how in ["holding", "letting go"] {
        let (transport, mut events) = start(&with_grace(SOON, program("python3", &["-u", "-c", STRAYS, how]))).await;
        let pids = numbers(&events.message().await);
        in_time(transport.close()).await;
        until_ended(&pids).await;
        assert_eq!(events.end().await, RequestError::sent(Failure::Closed));
    }
}

#[tokio::test]
async fn dropping_the_handle_kills_all_and_leaves_no_zombie() {
    let (transport, mut events) = start(&python(STRAYS)).await;
    let pids = numbers(&events.message().await);
    drop(transport);
    until_ended(&pids).await;
    until("no zombie", || !std::fs::exists(format!("/proc/{}", pids[0])).unwrap()).await;
    assert!(in_time(events.0.recv()).await.is_none(), "the tasks have gone");
}

#[test]
fn dropping_the_handle_needs_no_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (transport, pids) = first.block_on(async {
        let (transport, mut events) = start(&python(STRAYS)).await;
        (transport, numbers(&events.message().await))
    });
    drop(first);
    drop(transport);
    runtime().block_on(until_ended(&pids));
}

#[tokio::test]
async fn dropping_the_close_of_a_stubborn_server_and_the_handle_kills_it() {
    let (transport, mut events) = start(&shell("trap '' TERM; echo '[]'; while :; do sleep 1000; done")).await;
    let pid = transport.pid().unwrap();
    assert_eq!(events.message().await, "[]");
    let mut close = transport.close();
    tokio::select! {
        biased;
        () = &mut close => panic!("it does not end by itself"),
        () = tokio::task::yield_now() => {}
    }
    drop(close);
    drop(transport);
    until_ended(&[pid]).await;
}
