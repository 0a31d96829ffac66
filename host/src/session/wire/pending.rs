//! The requests that wait for their answers.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::failure::{Failure, RequestError};
use crate::rpc::Reply;
use crate::spin_wait::{OpenRequest, SpinWait};
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
pub struct RequestTimeouts {
    /// After the last sign of life: the request itself, or progress.
    pub idle: Duration,
    /// In all.
    pub total: Duration,
}

impl RequestTimeouts {
    /// This long and no longer.
    pub fn of(time: Duration) -> Self {
        RequestTimeouts { idle: time, total: time }
    }

    /// As long as there may be news, which have no end of their own.
    pub fn unlimited() -> Self {
        RequestTimeouts::of(NEWS_LIMIT)
    }
}

/// The time that a request has.
#[derive(Debug, Clone, Copy)]
pub struct RequestClock {
    /// When it was made.
    pub started: Instant,
    /// How long to wait.
    pub timeouts: RequestTimeouts,
    /// When its last sign of life came.
    pub last_progress: Option<Instant>,
}

impl RequestClock {
    /// When it is over. A server that waits for an answer of ours, of a person maybe, is not silent: `talk` says when it
    /// last did.
    pub fn deadline(&self, talk: Option<Instant>) -> Instant {
        let last = [self.last_progress, talk].into_iter().flatten().fold(self.started, Instant::max);
        (last + self.timeouts.idle.min(NEWS_LIMIT)).min(self.started + self.timeouts.total.min(NEWS_LIMIT))
    }

    /// Whether the server is to do something at once, and not to answer when there are news.
    pub fn has_deadline(&self) -> bool {
        self.timeouts.total < NEWS_LIMIT
    }
}

/// All requests of a connection that wait.
#[derive(Default)]
pub struct PendingRequests {
    table: Mutex<RequestTable>,
    /// Told after each message of the server, and after each request that nobody waits for any more.
    changed: Notify,
    /// Knows whether an answer is about to come.
    spin_wait: OnceLock<Arc<SpinWait>>,
}

#[derive(Default)]
struct RequestTable {
    waiting: HashMap<RequestId, PendingRequest, FxBuildHasher>,
    /// Why the connection is over.
    close_reason: Option<RequestError>,
    /// Those that nobody waits for any more, the latest last: their answers are no surprise.
    forgotten: VecDeque<RequestId>,
    /// How many messages the server has sent.
    messages: u64,
    /// The first of those that were given up unanswered since the last message: the server may be at work on it.
    given_up: Option<(RequestId, RequestClock)>,
    /// Why we end the connection ourselves.
    abandoned: Option<String>,
}

struct PendingRequest {
    answer: oneshot::Sender<Result<Reply, RequestError>>,
    progress: Option<OnProgress>,
    clock: RequestClock,
    /// Somebody stays awake for the answer.
    _open: Option<OpenRequest>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMatch {
    /// Somebody waited for it.
    Delivered,
    /// Somebody had waited for it.
    Late,
    /// Nobody ever asked.
    Unknown,
}

impl PendingRequests {
    /// From now on somebody may stay awake for answers, who learns here when one is awaited and when it has come.
    pub fn spin_wait(&self) -> Arc<SpinWait> {
        Arc::clone(self.spin_wait.get_or_init(|| Arc::new(SpinWait::for_answers())))
    }

    /// Enters a request; an error says why the connection is over.
    pub fn enter(
        &self,
        id: RequestId,
        clock: RequestClock,
        progress: Option<OnProgress>,
    ) -> Result<oneshot::Receiver<Result<Reply, RequestError>>, RequestError> {
        let mut table = self.table();
        if let Some(why) = &table.close_reason {
            return Err(RequestError::unsent(why.failure.clone()));
        }
        let (answer, receiver) = oneshot::channel();
        let awaited = self.spin_wait.get().filter(|_| clock.has_deadline()).map(SpinWait::start_request);
        table.waiting.insert(id, PendingRequest { answer, progress, clock, _open: awaited });
        Ok(receiver)
    }

    /// Nobody waits for this one any more, and the server may still be at work on it, or has it no longer; says whether it
    /// was still waited for.
    pub fn forget(&self, id: RequestId, at_work: bool) -> bool {
        let mut table = self.table();
        let Some(PendingRequest { clock, .. }) = table.waiting.remove(&id) else { return false };
        if table.forgotten.len() == FORGOTTEN {
            table.forgotten.pop_front();
        }
        table.forgotten.push_back(id);
        if at_work && clock.has_deadline() && table.given_up.is_none_or(|(first, _)| id < first) {
            table.given_up = Some((id, clock));
        }
        drop(table);
        self.changed.notify_waiters();
        true
    }

    /// The server has sent a message, which was seen to.
    pub fn note_message(&self) {
        let mut table = self.table();
        table.messages += 1;
        table.given_up = None;
        drop(table);
        self.changed.notify_waiters();
    }

    /// How many messages the server has sent.
    pub fn messages(&self) -> u64 {
        self.table().messages
    }

    /// The time of what the server may be at work on: the first that it was asked and has not answered. What nobody waits for
    /// any more counts until the server speaks; by then it may have been told so.
    pub fn oldest_request(&self) -> Option<RequestClock> {
        let table = self.table();
        let waiting = table.waiting.iter().map(|(id, waiting)| (*id, waiting.clock));
        let asked = waiting.filter(|(_, time)| time.has_deadline()).chain(table.given_up);
        asked.min_by_key(|(id, _)| *id).map(|(_, time)| time)
    }

    /// Waits for the next message, or for the next request that nobody waits for any more, and no longer than until then.
    pub async fn wait_for_change(&self, seen: u64, until: Instant) {
        // Before the look, so that nothing is missed between the look and the wait.
        let changed = self.changed.notified();
        if self.messages() == seen {
            let _ = tokio::time::timeout_at(until, changed).await;
        }
    }

    /// We are about to end the connection, for this reason.
    pub fn abandon(&self, why: String) {
        self.table().abandoned = Some(why);
    }

    /// A failure with the reason why we ended the connection, where that is what it comes from.
    pub fn explain(&self, failed: RequestError) -> RequestError {
        match (&failed.failure, &self.table().abandoned) {
            (Failure::Closed | Failure::Exited(_), Some(why)) => {
                RequestError { failure: Failure::Abandoned(why.clone()), ..failed }
            }
            _ => failed,
        }
    }

    /// Hands the answer to whoever waits for it.
    pub fn resolve(&self, id: RequestId, outcome: Result<Reply, RequestError>) -> ResponseMatch {
        let mut table = self.table();
        match table.waiting.remove(&id) {
            Some(waiting) => {
                drop(table);
                // Whoever waited may have gone this moment.
                let _ = waiting.answer.send(outcome);
                ResponseMatch::Delivered
            }
            None if table.forgotten.contains(&id) => ResponseMatch::Late,
            None => ResponseMatch::Unknown,
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
            let _ = waiting.answer.send(Err(RequestError::sent(failure.clone())));
        }
        count
    }

    /// The connection is over; all that wait fail, and so does whatever comes later. Whether a request had left is
    /// known to who sends it, not here: they are told `sent: false`.
    pub fn close(&self, why: RequestError) {
        let mut table = self.table();
        let waiting = std::mem::take(&mut table.waiting);
        let why = table.close_reason.get_or_insert(why).clone();
        drop(table);
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(RequestError::unsent(why.failure.clone())));
        }
    }

    /// Why the connection is over, once it is.
    pub fn close_reason(&self) -> Option<RequestError> {
        self.table().close_reason.clone()
    }

    /// Notes a sign of life; says whether it is for a request that waits.
    pub fn note_progress(&self, id: RequestId, progress: impl FnOnce() -> Progress) -> bool {
        let mut table = self.table();
        let Some(waiting) = table.waiting.get_mut(&id) else { return false };
        waiting.clock.last_progress = Some(Instant::now());
        let listener = waiting.progress.clone();
        drop(table);
        if let Some(listener) = listener {
            listener(progress());
        }
        true
    }

    /// When the last sign of life of a request came.
    pub fn last_progress(&self, id: RequestId) -> Option<Instant> {
        self.table().waiting.get(&id).and_then(|waiting| waiting.clock.last_progress)
    }

    fn table(&self) -> MutexGuard<'_, RequestTable> {
        // The table is whole after each statement, so a panic elsewhere leaves nothing half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PendingRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests waiting", self.table().waiting.len())
    }
}

/// News have no end of their own; a year is none that anyone meets.
const NEWS_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many late answers are told from answers to nothing.
const FORGOTTEN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> RequestClock {
        time(RequestTimeouts::of(Duration::from_secs(60)))
    }

    fn time(timeouts: RequestTimeouts) -> RequestClock {
        RequestClock { started: Instant::now(), timeouts, last_progress: None }
    }

    #[test]
    fn a_server_is_at_work_on_the_first_that_it_has_not_answered() {
        let pending = PendingRequests::default();
        let end = || pending.oldest_request().map(|time| time.timeouts.idle.as_secs());
        let enter =
            |id, seconds| pending.enter(id, time(RequestTimeouts::of(Duration::from_secs(seconds))), None).unwrap();
        let _news = pending.enter(1, time(RequestTimeouts::unlimited()), None).unwrap();
        assert_eq!(end(), None, "it owes no news");
        let _answers = [enter(2, 20), enter(3, 30), enter(4, 40)];
        assert_eq!(end(), Some(20));
        // That nobody waits for it does not end the work; that it was never taken does.
        pending.forget(2, true);
        assert_eq!(end(), Some(20));
        pending.forget(3, false);
        pending.note_message();
        assert_eq!(end(), Some(40));
        pending.resolve(4, Err(RequestError::sent(Failure::Closed)));
        assert_eq!((end(), pending.messages()), (None, 1));
    }

    #[test]
    fn time_is_counted_from_the_last_sign_of_life_and_has_an_end() {
        let (idle, total) = (Duration::from_secs(10), Duration::from_secs(25));
        let time = time(RequestTimeouts { idle, total });
        let after = |seconds: u64| Some(time.started + Duration::from_secs(seconds));
        for (last_progress, talk, end) in
            [(None, None, 10), (after(4), None, 14), (after(4), after(7), 17), (None, after(20), 25)]
        {
            assert_eq!(Some(RequestClock { last_progress, ..time }.deadline(talk)), after(end));
        }
    }

    #[test]
    fn an_error_without_an_id_is_the_answer_of_the_only_one_that_waits() {
        let error = Failure::Rpc(crate::failure::RpcError::new(-32000, "no"));
        let pending = PendingRequests::default();
        let mut only = pending.enter(1, soon(), None).unwrap();
        assert_eq!(pending.fail_all(&error), 1);
        assert_eq!(only.try_recv().unwrap().unwrap_err().failure, error);
        let mut several = [pending.enter(2, soon(), None).unwrap(), pending.enter(3, soon(), None).unwrap()];
        assert_eq!(pending.fail_all(&error), 2);
        for waiting in &mut several {
            assert!(matches!(waiting.try_recv().unwrap().unwrap_err().failure, Failure::Protocol(_)));
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_late_ones_are_known() {
        let pending = PendingRequests::default();
        let failed = || Err(RequestError::sent(Failure::Closed));
        let mut first = pending.enter(1, soon(), None).unwrap();
        let _second = pending.enter(2, soon(), None).unwrap();
        assert_eq!(pending.resolve(1, failed()), ResponseMatch::Delivered);
        assert!(first.try_recv().unwrap().is_err());
        assert_eq!(pending.resolve(1, failed()), ResponseMatch::Unknown);
        assert!(pending.forget(2, true));
        assert!(!pending.forget(2, true));
        assert_eq!(pending.resolve(2, failed()), ResponseMatch::Late);
    }

    #[test]
    fn nobody_stays_awake_any_more_once_an_answer_has_come_or_is_not_awaited() {
        let pending = PendingRequests::default();
        let spin_wait = pending.spin_wait();
        let enter = |id| pending.enter(id, soon(), None).unwrap();
        let _answers = [enter(1), enter(2), enter(3), enter(4)];
        let _news = pending.enter(5, time(RequestTimeouts::unlimited()), None).unwrap();
        assert_eq!(spin_wait.open(), 4);
        // Whoever waits has not even looked.
        pending.resolve(1, Err(RequestError::sent(Failure::Closed)));
        assert_eq!(spin_wait.open(), 3);
        pending.forget(2, true);
        assert_eq!(spin_wait.open(), 2);
        pending.close(RequestError::sent(Failure::Closed));
        assert_eq!(spin_wait.open(), 0);
    }

    #[test]
    fn a_closed_connection_fails_all_that_wait_and_all_that_come() {
        let pending = PendingRequests::default();
        let mut waiting = pending.enter(1, soon(), None).unwrap();
        pending.close(RequestError::sent(Failure::Closed));
        assert_eq!(waiting.try_recv().unwrap().unwrap_err(), RequestError::unsent(Failure::Closed));
        assert_eq!(pending.enter(3, soon(), None).unwrap_err(), RequestError::unsent(Failure::Closed));
    }
}
