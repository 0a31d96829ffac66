//! Running sleeps, each on a thread of its own, so that other requests need not wait.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::RawValue;

use super::era::{CacheHint, DemoEra};
use super::message::{json, response_line};
use super::output::{DemoOutput, ReplyTarget};
use super::tools::DemoToolResult;

/// A requested sleep.
pub(super) struct SleepRequest {
    pub(super) duration: Duration,
    /// The era of the request.
    pub(super) era: DemoEra,
    /// The token for its progress notifications.
    pub(super) token: Option<Box<RawValue>>,
}

/// The running sleeps by request id; dropping them ends them without an answer.
#[derive(Default)]
pub(super) struct RunningSleeps(HashMap<String, SleepThread>);

struct SleepThread {
    /// Dropping it wakes the sleeper.
    waker: Sender<()>,
    thread: JoinHandle<()>,
}

impl RunningSleeps {
    /// Reports whether another sleep may run, since each needs a thread.
    pub(super) fn have_room(&mut self) -> bool {
        self.0.retain(|_, running| !running.thread.is_finished());
        self.0.len() < MOST
    }

    /// Starts a sleep, which sends its own answer at the end.
    pub(super) fn start(
        &mut self,
        id: Box<RawValue>,
        sleep: SleepRequest,
        outlet: ReplyTarget,
        output: DemoOutput,
    ) -> io::Result<()> {
        let (waker, woken) = mpsc::channel();
        let key = id.get().to_owned();
        let thread = thread::Builder::new().name("sleep".to_owned()).spawn(move || {
            // If the output is broken, the reading loop finds out too, and ends.
            let _ = sleep.run(&woken, &id, &outlet, &output);
        })?;
        if let Some(older) = self.0.insert(key, SleepThread { waker, thread }) {
            older.end();
        }
        Ok(())
    }

    /// Ends the sleep of this request without an answer.
    pub(super) fn cancel(&mut self, id: &RawValue) {
        if let Some(running) = self.0.remove(id.get()) {
            running.end();
        }
    }
}

impl Drop for RunningSleeps {
    fn drop(&mut self) {
        self.0.drain().for_each(|(_, running)| running.end());
    }
}

impl SleepThread {
    fn end(self) {
        drop(self.waker);
        // A sleeper that panicked has ended too.
        let _ = self.thread.join();
    }
}

impl SleepRequest {
    fn run(&self, woken: &Receiver<()>, id: &RawValue, outlet: &ReplyTarget, output: &DemoOutput) -> io::Result<()> {
        let began = Instant::now();
        let mut passed = Duration::ZERO;
        loop {
            let Err(RecvTimeoutError::Timeout) = woken.recv_timeout((self.duration - passed).min(TICK)) else {
                return Ok(());
            };
            passed = began.elapsed().min(self.duration);
            if let Some(token) = &self.token {
                output.line(&progress(token, passed, self.duration))?;
            }
            if passed == self.duration {
                break;
            }
        }
        let result = DemoToolResult::text(format!("slept for {} seconds", self.duration.as_secs_f64()));
        outlet.send(response_line(Some(id), &Ok(self.era.wrap_result(result, CacheHint::Never))))
    }
}

fn progress(token: &RawValue, passed: Duration, total: Duration) -> String {
    #[derive(Serialize)]
    struct ProgressNotification<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: ProgressParams<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ProgressParams<'a> {
        progress_token: &'a RawValue,
        progress: f64,
        total: f64,
        message: String,
    }
    let (passed, total) = (passed.as_secs_f64(), total.as_secs_f64());
    let message = format!("{passed:.1} of {total} seconds");
    let params = ProgressParams { progress_token: token, progress: passed, total, message };
    json(&ProgressNotification { jsonrpc: "2.0", method: "notifications/progress", params }).get().to_owned()
}

/// How many sleeps may run at once.
const MOST: usize = 1000;

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);
