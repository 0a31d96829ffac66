//! Reading, in a test, what its own thread logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::Subscriber;
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default, set_global_default};

/// Gives this subscriber all that this thread logs, for as long as the guard lives.
pub(crate) fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    // With only one subscriber in the process, tracing asks just the thread that comes to a line first whether anybody
    // listens to it, and keeps the answer: a test beside this one would silence the line. With two, it asks them all.
    let _ = set_global_default(NoSubscriber::new());
    set_default(subscriber)
}

/// Captures everything that this thread logs, at every level, for as long as the guard lives.
pub(crate) fn capture() -> (Arc<Mutex<Vec<u8>>>, DefaultGuard) {
    #[derive(Clone)]
    struct Into(Arc<Mutex<Vec<u8>>>);
    impl Write for Into {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let into = Into(log.clone());
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || into.clone());
    (log, listen(subscriber.finish()))
}

#[test]
fn a_line_that_another_thread_logs_first_is_heard_all_the_same() {
    let log = || tracing::warn!("from both threads");
    let (written, _guard) = capture();
    std::thread::spawn(log).join().unwrap();
    log();
    let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
    assert_eq!(written.matches("from both threads").count(), 1, "{written}");
}
