//! The requests of a connection that wait for an answer.

use std::collections::{HashMap, VecDeque};
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

/// The progress of a request, as the server reports it.
#[derive(Debug, Clone)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// The total amount of work.
    pub total: Option<f64>,
    /// A message for people.
    pub message: Option<String>,
    /// The parameters of the notification, as the server wrote them.
    pub params: Box<RawValue>,
}

/// Receives the progress of one request.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// The time since the last activity: the request itself, or progress.
    pub idle: Duration,
    /// The total time.
    pub total: Duration,
}

impl RequestTimeouts {
    /// Returns timeouts with the same idle and total time.
    pub fn of(time: Duration) -> Self {
        RequestTimeouts { idle: time, total: time }
    }

    /// Returns timeouts for subscriptions, which have no end of their own.
    pub fn unlimited() -> Self {
        RequestTimeouts::of(NEWS_LIMIT)
    }
}

/// The clock of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestClock {
    /// When the request was sent.
    pub started: Instant,
    /// How long to wait.
    pub timeouts: RequestTimeouts,
    /// When its last progress came.
    pub last_progress: Option<Instant>,
}

impl RequestClock {
    /// Returns the deadline. A server that waits for an answer from us, or from a person, is not idle; `talk` is the
    /// last time that it did.
    pub(super) fn deadline(&self, talk: Option<Instant>) -> Instant {
        let last = [self.last_progress, talk].into_iter().flatten().fold(self.started, Instant::max);
        (last + self.timeouts.idle.min(NEWS_LIMIT)).min(self.started + self.timeouts.total.min(NEWS_LIMIT))
    }

    /// Reports whether the request has a deadline, as all but subscriptions do.
    pub(super) fn has_deadline(&self) -> bool {
        self.timeouts.total < NEWS_LIMIT
    }
}

/// All requests of a connection that wait for an answer.
#[derive(Default)]
pub(super) struct PendingRequests {
    table: Mutex<RequestTable>,
    /// Notified after each message from the server, and after each request that is given up.
    changed: Notify,
    /// Spins for answers that are about to come, if enabled.
    spin_wait: OnceLock<Arc<SpinWait>>,
}

#[derive(Default)]
struct RequestTable {
    waiting: HashMap<RequestId, PendingRequest, FxBuildHasher>,
    /// Why the connection was closed.
    close_reason: Option<RequestError>,
    /// The requests that were given up, latest last; their answers are expected and ignored.
    forgotten: VecDeque<RequestId>,
    /// How many messages the server has sent.
    messages: u64,
    /// The first request given up since the last message from the server, which may still work on it.
    given_up: Option<(RequestId, RequestClock)>,
    /// Why the gate itself closes the connection.
    abandoned: Option<String>,
}

struct PendingRequest {
    answer: oneshot::Sender<Result<Reply, RequestError>>,
    progress: Option<OnProgress>,
    clock: RequestClock,
    /// Keeps [`SpinWait`] spinning for the answer.
    _open: Option<OpenRequest>,
}

/// What happened to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseMatch {
    /// It was delivered to its request.
    Delivered,
    /// Its request was given up before.
    Late,
    /// No request has this id.
    Unknown,
}

impl PendingRequests {
    /// Enables spinning for answers, and returns the object that tracks open requests.
    pub(super) fn spin_wait(&self) -> Arc<SpinWait> {
        Arc::clone(self.spin_wait.get_or_init(|| Arc::new(SpinWait::for_answers())))
    }

    /// Adds a request; fails with the reason if the connection is closed.
    pub(super) fn enter(
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

    /// Gives up a request; reports whether it was still waiting. `at_work` says whether the server may still work on
    /// it.
    pub(super) fn forget(&self, id: RequestId, at_work: bool) -> bool {
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

    /// Counts a message from the server, after it was handled.
    pub(super) fn note_message(&self) {
        let mut table = self.table();
        table.messages += 1;
        table.given_up = None;
        drop(table);
        self.changed.notify_waiters();
    }

    /// Returns how many messages the server has sent.
    pub(super) fn messages(&self) -> u64 {
        self.table().messages
    }

    /// Returns the clock of the oldest request that the server may be working on. A request that was given up counts
    /// until the server's next message.
    pub(super) fn oldest_request(&self) -> Option<RequestClock> {
        let table = self.table();
        let waiting = table.waiting.iter().map(|(id, waiting)| (*id, waiting.clock));
        let asked = waiting.filter(|(_, time)| time.has_deadline()).chain(table.given_up);
        asked.min_by_key(|(id, _)| *id).map(|(_, time)| time)
    }

    /// Waits until there are more than `seen` messages, a request is given up, or `until` is reached.
    pub(super) async fn wait_for_change(&self, seen: u64, until: Instant) {
        // Created before the check, so that no change in between is missed.
        let changed = self.changed.notified();
        if self.messages() == seen {
            let _ = tokio::time::timeout_at(until, changed).await;
        }
    }

    /// Sets the reason why the gate is about to close the connection.
    pub(super) fn abandon(&self, why: String) {
        self.table().abandoned = Some(why);
    }

    /// Replaces the failure of a closed connection with the reason why the gate closed it, if it did.
    pub(super) fn explain(&self, failed: RequestError) -> RequestError {
        match (&failed.failure, &self.table().abandoned) {
            (Failure::Closed | Failure::Exited(_), Some(why)) => {
                RequestError { failure: Failure::Abandoned(why.clone()), ..failed }
            }
            _ => failed,
        }
    }

    /// Delivers an answer to the request that waits for it.
    pub(super) fn resolve(&self, id: RequestId, outcome: Result<Reply, RequestError>) -> ResponseMatch {
        let mut table = self.table();
        match table.waiting.remove(&id) {
            Some(waiting) => {
                drop(table);
                // The caller may have given up at this moment.
                let _ = waiting.answer.send(outcome);
                ResponseMatch::Delivered
            }
            None if table.forgotten.contains(&id) => ResponseMatch::Late,
            None => ResponseMatch::Unknown,
        }
    }

    /// Fails the requests that an error without an id can belong to, and returns their number. A single request gets
    /// the error itself; of several, it is unknown which one was answered.
    pub(super) fn fail_all(&self, error: &Failure) -> usize {
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

    /// Closes the connection: all waiting and later requests fail. They get `sent: false`, because only the sender
    /// knows whether a request was sent.
    pub(super) fn close(&self, why: RequestError) {
        let mut table = self.table();
        let waiting = std::mem::take(&mut table.waiting);
        let why = table.close_reason.get_or_insert(why).clone();
        drop(table);
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(RequestError::unsent(why.failure.clone())));
        }
    }

    /// Returns why the connection was closed, if it was.
    pub(super) fn close_reason(&self) -> Option<RequestError> {
        self.table().close_reason.clone()
    }

    /// Records progress; reports whether it is for a waiting request.
    pub(super) fn note_progress(&self, id: RequestId, progress: impl FnOnce() -> Progress) -> bool {
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

    /// Returns when the last progress of a request came.
    pub(super) fn last_progress(&self, id: RequestId) -> Option<Instant> {
        self.table().waiting.get(&id).and_then(|waiting| waiting.clock.last_progress)
    }

    fn table(&self) -> MutexGuard<'_, RequestTable> {
        // The table is consistent after each statement, so a panic elsewhere cannot corrupt it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time limit of subscriptions: practically none.
const NEWS_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// The maximum number of remembered requests that were given up.
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
        // Giving it up does not end the server's work; if it never arrived, there is none.
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
        // The caller has not yet received the answer.
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
