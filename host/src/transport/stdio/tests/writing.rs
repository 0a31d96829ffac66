//! Writing to a server.

use std::future::poll_fn;
use std::task::Poll;

use super::*;
use crate::transport::Delivery;

/// Answers each line with its length and the part before its first dash.
const ECHO: &str = "import sys
for line in sys.stdin.buffer:
    print('[%d,\"%s\"]' % (len(line), line[:20].decode().split('-')[0]))";

#[tokio::test]
async fn a_message_comes_back_from_an_echo() {
    let (transport, mut events) = start(&program("cat", &[])).await;
    for size in [0, 1, 1000, 100_000, 1_000_000] {
        let text = format!("[\"{}\"]", "x".repeat(size));
        assert_eq!(in_time(transport.send(outgoing(text.clone()))).await, Ok(Delivery::Written));
        assert_eq!(events.message().await, text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_4000_senders_arrive_whole_and_in_order_per_sender() {
    let (transport, mut events) = start(&python(ECHO)).await;
    let size = |sender: usize, number: usize| [10, 300, 5_000, 70_000][(sender * 7 + number) % 4];
    let senders: Vec<_> = (0..1000)
        .map(|sender| {
            let transport = transport.clone();
            tokio::spawn(async move {
                for number in 0..4 {
                    let text = format!("{sender}:{number}-{}", "x".repeat(size(sender, number)));
                    transport.send(outgoing(text)).await.unwrap();
                }
            })
        })
        .collect();
    let mut next = vec![0; 1000];
    for _ in 0..4000 {
        let (length, start): (usize, String) = serde_json::from_str(&events.message().await).unwrap();
        let (sender, number) = start.split_once(':').unwrap();
        let (sender, number): (usize, usize) = (sender.parse().unwrap(), number.parse().unwrap());
        assert_eq!(number, next[sender], "of sender {sender}");
        assert_eq!(length, start.len() + 2 + size(sender, number));
        next[sender] += 1;
    }
    for sender in senders {
        in_time(sender).await.unwrap();
    }
}

/// Polls once, so that writing begins, and drops the future if the line is not written.
async fn give_up(send: impl Future<Output = Result<Delivery, RequestError>>) -> Option<Result<Delivery, RequestError>> {
    let mut send = Box::pin(send);
    poll_fn(|context| match send.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn senders_that_give_up_tear_no_line_and_what_is_not_begun_is_not_sent() {
    // The server reads nothing until it gets a signal.
    let wait = "import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('[]')
signal.sigwait([signal.SIGUSR1])
";
    let program = python(&format!("{wait}{ECHO}"));
    let (transport, mut events) = start(&program).await;
    assert_eq!(events.message().await, "[]");
    let mut given_up = 0;
    for number in 0..100 {
        let text = format!("{number}-{}", "x".repeat(number * 1000));
        given_up += usize::from(give_up(transport.send(outgoing(text))).await.is_none());
        // Lets the other tasks write what they can.
        tokio::task::yield_now().await;
    }
    assert!(given_up > 50, "the pipe is smaller than this");
    let pid = rustix::process::Pid::from_raw(transport.pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    transport.send(outgoing("end-".to_owned())).await.unwrap();
    let mut number = 0;
    loop {
        let (length, start): (usize, String) = serde_json::from_str(&events.message().await).unwrap();
        if start == "end" {
            break;
        }
        assert_eq!((start, length), (number.to_string(), number.to_string().len() + 2 + number * 1000));
        number += 1;
    }
    assert!((1..=101 - given_up).contains(&number), "{number} lines came, {given_up} were given up");
}

#[tokio::test]
async fn a_queue_that_is_full_makes_senders_wait_and_loses_nothing() {
    let send_all = |transport: &Arc<dyn Transport>| -> Vec<_> {
        let send = |number| {
            let transport = transport.clone();
            tokio::spawn(async move { transport.send(outgoing(format!("{number}-{}", "x".repeat(20 << 20)))).await })
        };
        (0..10).map(send).collect()
    };
    let (transport, mut events) = start(&shell("head -c 10 >/dev/null; exit 1")).await;
    let sends = send_all(&transport);
    let mut begun = 0;
    for send in sends {
        let failed = in_time(send).await.unwrap().unwrap_err();
        assert_eq!(failed.failure, exited_after_reading(1));
        begun += usize::from(failed.sent);
    }
    assert_eq!(begun, 1, "only the first had begun");
    assert_eq!(events.end().await, RequestError::sent(exited_after_reading(1)));

    let (transport, mut events) = start(&python(ECHO)).await;
    let sends = send_all(&transport);
    for number in 0..10 {
        assert_eq!(events.message().await, format!("[{},\"{number}\"]", (20 << 20) + 3));
    }
    for send in sends {
        assert_eq!(in_time(send).await.unwrap(), Ok(Delivery::Written));
    }
}

/// Returns the first failure. Some sends may succeed before it, because a process that another test is starting holds a
/// copy of the pipe for a moment.
async fn failure(transport: &dyn Transport) -> RequestError {
    loop {
        if let Err(failed) = in_time(transport.send(outgoing("{}"))).await {
            return failed;
        }
    }
}

#[tokio::test]
async fn what_a_dead_server_was_sent_fails_with_how_it_died() {
    let (transport, mut events) = start(&shell("echo 'no licence' >&2; exec 0<&-; echo '[]'; exit 7")).await;
    assert_eq!(events.message().await, "[]");
    assert_eq!(failure(&*transport).await, RequestError::unsent(exited(7, "no licence")));
    assert_eq!(events.end().await, RequestError::sent(exited(7, "no licence")));
    assert_eq!(give_up(transport.send(outgoing("{}"))).await, Some(Err(RequestError::unsent(exited(7, "no licence")))));
}

#[tokio::test]
async fn a_message_that_was_begun_may_have_been_acted_on() {
    let (transport, mut events) = start(&shell("head -c 10 >/dev/null; exit 1")).await;
    let big = outgoing("x".repeat(10 << 20));
    let failed = in_time(transport.send(big)).await.unwrap_err();
    assert_eq!(failed, RequestError::sent(exited_after_reading(1)));
    assert_eq!(events.end().await, RequestError::sent(exited_after_reading(1)));
}

#[tokio::test]
async fn a_server_that_closes_its_input_and_lives_is_ended() {
    let (transport, mut events) =
        start(&with_grace(Duration::ZERO, shell("exec 0<&-; echo '[]'; exec sleep 1000"))).await;
    let pid = transport.pid().unwrap();
    assert_eq!(events.message().await, "[]");
    assert_eq!(failure(&*transport).await, RequestError::unsent(Failure::Closed));
    assert_eq!(events.end().await, RequestError::sent(Failure::Closed));
    until_ended(&[pid]).await;
}
