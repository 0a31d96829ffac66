//! Running sleeps, each on a thread of its own, so that other requests need not wait.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::era::{CacheHint, DemoEra};
use super::output::Replies;
use super::tools::text_result;
use crate::json::JsonObject;
use crate::rpc;

/// A requested sleep.
pub(super) struct SleepRequest {
    pub(super) duration: Duration,
    /// The era of the request.
    pub(super) era: DemoEra,
    /// The token for its progress notifications.
    pub(super) token: Option<Box<RawValue>>,
}

/// A running sleep; dropping it ends it without an answer.
pub(super) struct RunningSleep {
    waker: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl RunningSleep {
    pub(super) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for RunningSleep {
    fn drop(&mut self) {
        // A sleeper that has ended or panicked need not be woken.
        let _ = self.waker.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl SleepRequest {
    /// Starts the sleep, which sends its own answer at the end.
    pub(super) fn start(self, id: String, replies: &Arc<Replies>) -> io::Result<RunningSleep> {
        let (waker, woken) = mpsc::channel();
        let replies = Arc::clone(replies);
        let thread = thread::Builder::new().name("sleep".to_owned()).spawn(move || {
            // If the output is broken, the reading loop finds out too, and ends.
            let _ = self.run(&woken, &id, &replies);
        })?;
        Ok(RunningSleep { waker, thread: Some(thread) })
    }

    fn run(&self, woken: &Receiver<()>, id: &str, replies: &Replies) -> io::Result<()> {
        let began = Instant::now();
        let mut passed = Duration::ZERO;
        loop {
            let Err(RecvTimeoutError::Timeout) = woken.recv_timeout((self.duration - passed).min(TICK)) else {
                return Ok(());
            };
            passed = began.elapsed().min(self.duration);
            if let Some(token) = &self.token {
                (replies.output)(&progress(token, passed, self.duration))?;
            }
            if passed == self.duration {
                break;
            }
        }
        let result = text_result(&format!("slept for {} seconds", self.duration.as_secs_f64()));
        replies.send(rpc::result(id, self.era.format_result(&result, CacheHint::Never)))
    }
}

fn progress(token: &RawValue, passed: Duration, total: Duration) -> String {
    let (passed, total) = (passed.as_secs_f64(), total.as_secs_f64());
    let mut params = JsonObject::default();
    params.set("progressToken", token);
    params.set("progress", &passed);
    params.set("total", &total);
    params.set("message", &format!("{passed:.1} of {total} seconds"));
    rpc::notification("notifications/progress", Some(&params.to_text()))
}

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);
