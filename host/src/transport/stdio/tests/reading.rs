//! Reading from a server.

use std::fmt::Write;
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::{Level, Metadata, Subscriber, span};

use super::*;
use crate::listening::listen;

#[tokio::test]
async fn messages_are_lines_that_begin_like_json() {
    let script = r#"printf '{"a":1}\r\n\n  \t\n[1]\n  {"b":2}  \nServer started\n"text"\n{"last":true}'"#;
    let (_transport, mut events) = start(&shell(script)).await;
    let messages = [r#"{"a":1}"#, "[1]", r#"  {"b":2}"#, r#"{"last":true}"#].map(str::to_owned);
    assert_eq!(events.rest().await, (messages.to_vec(), RequestError::sent(exited(0, ""))));
}

#[tokio::test]
async fn half_a_message_at_the_end_is_none() {
    for half in [r#"{"id":1,"result":{"a":"#, "[1,", "{"] {
        let script = format!("printf '[0]\\n%s' '{half}'; echo last words >&2; exit 3");
        let (_transport, mut events) = start(&shell(&script)).await;
        assert_eq!(
            events.rest().await,
            (vec!["[0]".to_owned()], RequestError::sent(exited(3, "last words"))),
            "{half}"
        );
    }
}

#[tokio::test]
async fn a_byte_order_mark_is_no_part_of_a_message() {
    let (_transport, mut events) = start(&shell(r"printf '\357\273\277[1]\n[2]\n'")).await;
    assert_eq!(events.rest().await.0, ["[1]", "[2]"]);
}

#[tokio::test]
async fn noise_is_a_warning_but_not_for_ever() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let script = r"printf '\033[1mhello\033[0m %01000d\n' 7; for i in $(seq 100); do echo noise $i; done; echo '{}'";
    let (_transport, mut events) = start(&shell(script)).await;
    assert_eq!(events.message().await, "{}");
    let warnings = log.of(Level::WARN);
    assert_eq!(warnings.len(), 21, "{warnings:#?}");
    assert!(warnings[0].contains(r"\u{1b}[1mhello\u{1b}[0m 000"), "{}", warnings[0]);
    assert!(warnings[0].chars().count() < 350 && !warnings[0].contains('7'), "{}", warnings[0]);
    assert!(warnings[19].contains("noise 19"), "{}", warnings[19]);
    assert!(warnings[20].contains("not logged"), "{}", warnings[20]);
}

#[tokio::test]
async fn what_is_not_utf8_is_replaced_with_a_warning() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let (_transport, mut events) = start(&shell(r#"printf '{"a":"\377"}\n'"#)).await;
    assert_eq!(events.message().await, "{\"a\":\"\u{fffd}\"}");
    assert_eq!(log.of(Level::WARN).len(), 1);
}

#[tokio::test]
async fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let script = |size: usize| python(&format!("print('[' + '1' * {} + ']')", size - 2));
    for (limit, size, passes) in [(10, 10, true), (10, 11, false), (100_000, 100_000, true), (100_000, 100_001, false)]
    {
        let (_transport, mut events) = start(&Program { max_message_bytes: limit, ..script(size) }).await;
        let (messages, why) = events.rest().await;
        assert_eq!(messages.len(), usize::from(passes), "{size} bytes of {limit}");
        let words = format!("a line of more than {limit} bytes; raise max_message_bytes to allow it");
        let expected = if passes { exited(0, "") } else { Failure::Protocol(words) };
        assert_eq!(why, RequestError::sent(expected));
    }
}

#[tokio::test]
async fn a_line_of_70_mib_ends_a_connection_that_allows_64() {
    let script =
        "import sys, time; sys.stdout.write('[\"' + 'x' * (70 << 20) + '\"]\\n'); sys.stdout.flush(); time.sleep(1000)";
    let (transport, mut events) = start(&python(script)).await;
    let pid = transport.pid().unwrap();
    let why = events.end().await;
    assert!(matches!(&why.failure, Failure::Protocol(how) if how.contains("67108864")), "{why:?}");
    until_ended(&[pid]).await;

    let (_transport, mut events) = start(&Program { max_message_bytes: 80 << 20, ..python(script) }).await;
    let message = events.message().await;
    assert_eq!(message.len(), (70 << 20) + 4);
    assert!(message.ends_with("x\"]"));
}

#[tokio::test]
async fn lines_of_all_sizes_in_pieces_of_all_sizes_arrive_whole_and_in_order() {
    let script = "
import os, random
random.seed(7)
sizes = [random.choice([0, 1, 50, 4096, 65533, 65534, 65535, 65536, 131072, 300000]) for _ in range(300)]
text = b''.join(b'[%d,\"%s\"]\\n' % (n, b'x' * size) for n, size in enumerate(sizes))
while text:
    count = random.choice([1, 100, 5000, 65536, 200000])
    while count and text:
        written = os.write(1, text[:count])
        text, count = text[written:], count - written
";
    let (_transport, mut events) = start(&python(script)).await;
    let (messages, why) = events.rest().await;
    assert_eq!(why, RequestError::sent(exited(0, "")));
    assert_eq!(messages.len(), 300);
    for (index, message) in messages.iter().enumerate() {
        let (number, text): (usize, String) = serde_json::from_str(message).unwrap();
        assert!(number == index && text.bytes().all(|byte| byte == b'x'));
    }
}

#[tokio::test]
async fn standard_error_goes_to_the_log_and_its_tail_is_kept() {
    let log = Log::default();
    let _guard = listen(log.clone());
    let (transport, mut events) = start(&shell("echo one >&2; printf 'tw' >&2; echo o >&2; exit 3")).await;
    assert_eq!(events.end().await, RequestError::sent(exited(3, "one\ntwo")));
    assert_eq!(transport.stderr_tail(), "one\ntwo");
    let lines = log.of(Level::DEBUG);
    assert!(
        lines.iter().any(|line| line.contains("\"one\"")) && lines.iter().any(|line| line.contains("\"two\"")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_server_may_close_its_standard_error_and_live_on() {
    let (transport, mut events) = start(&shell("exec 2>&-; echo '[1]'; exec cat")).await;
    assert_eq!(events.message().await, "[1]");
    transport.send(outgoing("[2]")).await.unwrap();
    assert_eq!(events.message().await, "[2]");
}

/// A log that tests can read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    fn of(&self, level: Level) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|(found, _)| *found == level).map(|(_, text)| text.clone()).collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().contains("stdio")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                write!(self.0, "{field}={value:?} ").unwrap();
            }
            fn record_str(&mut self, field: &Field, value: &str) {
                write!(self.0, "{field}=\"{value}\" ").unwrap();
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
