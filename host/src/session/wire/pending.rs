//! The requests that wait for their answers.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::message::Reply;
use crate::failure::{Failed, Failure};
use crate::transport::RequestId;

/// How far a request has come, by the server's own account.
#[derive(Debug, Clone)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// Out of how much.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
    /// All that the server said of it, as it wrote it.
    pub params: Box<RawValue>,
}

/// Takes the progress of one request.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// After the last sign of life: the request itself, or progress.
    pub quiet: Duration,
    /// In all.
    pub total: Duration,
}

impl Patience {
    /// This long and no longer.
    pub fn of(time: Duration) -> Self {
        Patience { quiet: time, total: time }
    }
}

/// All requests of a connection that wait.
#[derive(Default)]
pub struct Pending(Mutex<Table>);

#[derive(Default)]
struct Table {
    waiting: HashMap<RequestId, Waiting>,
    /// Why the connection is over.
    over: Option<Failed>,
    /// Those that nobody waits for any more, the latest last: their answers are no surprise.
    forgotten: VecDeque<RequestId>,
}

struct Waiting {
    answer: oneshot::Sender<Result<Reply, Failed>>,
    progress: Option<OnProgress>,
    heard: Option<Instant>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Somebody waited for it.
    Taken,
    /// Somebody had waited for it.
    Late,
    /// Nobody ever asked.
    Unknown,
}

impl Pending {
    /// Enters a request; an error says why the connection is over.
    pub fn enter(
        &self,
        id: RequestId,
        progress: Option<OnProgress>,
    ) -> Result<oneshot::Receiver<Result<Reply, Failed>>, Failed> {
        let mut table = self.table();
        if let Some(why) = &table.over {
            return Err(Failed::unsent(why.failure.clone()));
        }
        let (answer, receiver) = oneshot::channel();
        table.waiting.insert(id, Waiting { answer, progress, heard: None });
        Ok(receiver)
    }

    /// Nobody waits for this one any more; says whether it was still waited for.
    pub fn forget(&self, id: RequestId) -> bool {
        let mut table = self.table();
        let waited = table.waiting.remove(&id).is_some();
        if waited {
            if table.forgotten.len() == FORGOTTEN {
                table.forgotten.pop_front();
            }
            table.forgotten.push_back(id);
        }
        waited
    }

    /// Hands the answer to whoever waits for it.
    pub fn resolve(&self, id: RequestId, outcome: Result<Reply, Failed>) -> Match {
        let mut table = self.table();
        match table.waiting.remove(&id) {
            Some(waiting) => {
                drop(table);
                // Whoever waited may have gone this moment.
                let _ = waiting.answer.send(outcome);
                Match::Taken
            }
            None if table.forgotten.contains(&id) => Match::Late,
            None => Match::Unknown,
        }
    }

    /// Fails the requests that an error without an id can belong to, and says how many these are. The only one that waits
    /// has its answer; of several, nobody knows which was answered and which still runs.
    pub fn fail_all(&self, error: &Failure) -> usize {
        let waiting = std::mem::take(&mut self.table().waiting);
        let count = waiting.len();
        let failure = match count {
            0 | 1 => error.clone(),
            _ => Failure::Protocol(format!("an error without an id came while {count} requests waited: {error}")),
        };
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(Failed::sent(failure.clone())));
        }
        count
    }

    /// The connection is over; all that wait fail, and so does whatever comes later. Whether a request had left is
    /// known to who sends it, not here: they are told `sent: false`.
    pub fn close(&self, why: Failed) {
        let mut table = self.table();
        let waiting = std::mem::take(&mut table.waiting);
        let why = table.over.get_or_insert(why).clone();
        drop(table);
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(Failed::unsent(why.failure.clone())));
        }
    }

    /// Why the connection is over, once it is.
    pub fn over(&self) -> Option<Failed> {
        self.table().over.clone()
    }

    /// Notes a sign of life; says whether it is for a request that waits.
    pub fn heard(&self, id: RequestId, progress: impl FnOnce() -> Progress) -> bool {
        let mut table = self.table();
        let Some(waiting) = table.waiting.get_mut(&id) else { return false };
        waiting.heard = Some(Instant::now());
        let listener = waiting.progress.clone();
        drop(table);
        if let Some(listener) = listener {
            listener(progress());
        }
        true
    }

    /// When the last sign of life of a request came.
    pub fn last_heard(&self, id: RequestId) -> Option<Instant> {
        self.table().waiting.get(&id).and_then(|waiting| waiting.heard)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // The table is whole after each statement, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests waiting", self.table().waiting.len())
    }
}

/// How many late answers are told from answers to nothing.
const FORGOTTEN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_an_id_is_the_answer_of_the_only_one_that_waits() {
        let error = Failure::Rpc(crate::failure::RpcError::new(-32000, "no"));
        let pending = Pending::default();
        let mut only = pending.enter(1, None).unwrap();
        assert_eq!(pending.fail_all(&error), 1);
        assert_eq!(only.try_recv().unwrap().unwrap_err().failure, error);
        let mut several = [pending.enter(2, None).unwrap(), pending.enter(3, None).unwrap()];
        assert_eq!(pending.fail_all(&error), 2);
        for waiting in &mut several {
            assert!(matches!(waiting.try_recv().unwrap().unwrap_err().failure, Failure::Protocol(_)));
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_late_ones_are_known() {
        let pending = Pending::default();
        let failed = || Err(Failed::sent(Failure::Closed));
        let mut first = pending.enter(1, None).unwrap();
        let _second = pending.enter(2, None).unwrap();
        assert_eq!(pending.resolve(1, failed()), Match::Taken);
        assert!(first.try_recv().unwrap().is_err());
        assert_eq!(pending.resolve(1, failed()), Match::Unknown);
        assert!(pending.forget(2));
        assert!(!pending.forget(2));
        assert_eq!(pending.resolve(2, failed()), Match::Late);
    }

    #[test]
    fn a_closed_connection_fails_all_that_wait_and_all_that_come() {
        let pending = Pending::default();
        let mut waiting = pending.enter(1, None).unwrap();
        pending.close(Failed::sent(Failure::Closed));
        assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Failed::unsent(Failure::Closed));
        assert_eq!(pending.enter(3, None).unwrap_err(), Failed::unsent(Failure::Closed));
    }
}
