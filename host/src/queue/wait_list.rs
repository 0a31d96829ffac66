//! The list of waiting calls, for one queue or several at once.
//!
//! A call gets all its slots at once or none, so it holds no slot of one queue while it waits for another. Of the calls
//! that can run, the oldest runs first; a call that cannot run yet is overtaken. The limits of its queues and the
//! call's own timeout bound its wait.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{QueueError, QueueLimits, QueuePermit, QueueStats};

/// All calls that wait in queues that can be entered together. It is locked for every change of a queue.
#[derive(Debug, Default)]
pub(super) struct WaitList(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    /// The next ticket; a lower one came earlier, in any queue.
    next: u64,
    waiting: HashMap<u64, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    queues: Vec<Arc<QueueInner>>,
    /// Notified once the call has all its slots.
    admit: oneshot::Sender<()>,
}

/// The shared state of one queue.
#[derive(Debug)]
pub(super) struct QueueInner {
    pub(super) name: String,
    wait_list: Arc<WaitList>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many calls may wait.
    max_waiting: usize,
    timeout: Option<Duration>,
    /// The tickets of the waiting calls.
    tickets: BTreeSet<u64>,
    stats: QueueStats,
}

/// The immediate outcome of entering.
pub(super) enum EnterOutcome {
    /// The call runs.
    Entered(QueuePermit),
    /// The call waits.
    Waiting(QueueWait),
}

/// A place in the wait list; abandoned when dropped.
pub(super) struct QueueWait {
    /// The queues; `None` once the place is left.
    queues: Option<Vec<Arc<QueueInner>>>,
    ticket: u64,
    admission: oneshot::Receiver<()>,
    since: Instant,
}

/// Lets a call enter, or adds it to the wait list of all its queues; an error if one of them is full.
pub(super) fn enter_or_wait(queues: Vec<Arc<QueueInner>>) -> Result<EnterOutcome, QueueError> {
    let Some(wait_list) = queues.first().map(|line| Arc::clone(&line.wait_list)) else {
        return Ok(EnterOutcome::Entered(QueuePermit { queues, waited: Duration::ZERO }));
    };
    let mut waiters = wait_list.waiters();
    // Calls that wait in these queues need a slot of another one, so this overtakes nobody who could run.
    if queues.iter().all(|line| line.state().has_slot()) {
        for line in &queues {
            let mut state = line.state();
            state.stats.running += 1;
            state.stats.entered += 1;
        }
        return Ok(EnterOutcome::Entered(QueuePermit { queues, waited: Duration::ZERO }));
    }
    for line in &queues {
        let mut state = line.state();
        if !state.has_slot() && state.tickets.len() >= state.max_waiting {
            state.stats.refused += 1;
            return Err(QueueError::Full { name: line.name.clone(), waiting: state.max_waiting });
        }
    }
    let ticket = waiters.next;
    waiters.next += 1;
    for line in &queues {
        line.state().tickets.insert(ticket);
    }
    let (admit, admission) = oneshot::channel();
    waiters.waiting.insert(ticket, Waiter { queues: queues.clone(), admit });
    Ok(EnterOutcome::Waiting(QueueWait { queues: Some(queues), ticket, admission, since: Instant::now() }))
}

impl WaitList {
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    /// Gives the free slots of a queue to the calls that waited longest and can run.
    fn admit(&mut self, line: &QueueInner) {
        let mut from = 0;
        while line.state().has_slot() {
            let Some(ticket) = line.state().tickets.range(from..).next().copied() else { return };
            from = ticket + 1;
            let can_run = |waiter: &Waiter| waiter.queues.iter().all(|line| line.state().has_slot());
            if !self.waiting.get(&ticket).is_some_and(can_run) {
                continue;
            }
            let Some(waiter) = self.leave(ticket) else { continue };
            for line in &waiter.queues {
                line.state().stats.running += 1;
            }
            // A call that has just given up releases its slots again.
            let _ = waiter.admit.send(());
        }
    }

    /// Removes a call from the wait list; `None` if it has its slots already.
    fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiting.remove(&ticket)?;
        for line in &waiter.queues {
            line.state().tickets.remove(&ticket);
        }
        Some(waiter)
    }

    /// Releases slots, and gives them to waiting calls.
    fn free(&mut self, lines: &[Arc<QueueInner>]) {
        for line in lines {
            line.state().stats.running -= 1;
        }
        for line in lines {
            self.admit(line);
        }
    }
}

impl QueueInner {
    pub(super) fn new(wait_list: Arc<WaitList>, limits: QueueLimits) -> Arc<Self> {
        let stats = QueueStats { name: limits.name.clone(), ..QueueStats::default() };
        let state = State { max_waiting: 0, timeout: None, tickets: BTreeSet::new(), stats };
        let line = QueueInner { name: limits.name.clone(), wait_list, state: Mutex::new(state) };
        line.state().set(&limits);
        Arc::new(line)
    }

    pub(super) fn resize(&self, limits: QueueLimits) {
        let mut waiters = self.wait_list.waiters();
        self.state().set(&limits);
        waiters.admit(self);
    }

    pub(super) fn stats(&self) -> QueueStats {
        let state = self.state();
        QueueStats { waiting: state.tickets.len(), ..state.stats.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&mut self, limits: &QueueLimits) {
        self.stats.slots = limits.slots.max(1);
        (self.max_waiting, self.timeout) = (limits.waiting, limits.timeout);
    }

    fn has_slot(&self) -> bool {
        self.stats.running < self.stats.slots
    }
}

impl QueueWait {
    /// Returns how long the call may wait, if its queues limit that.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.queues.iter().flatten().filter_map(|line| line.state().timeout).min()
    }

    /// Waits for the slots.
    pub(super) async fn wait_admission(&mut self) {
        (&mut self.admission).await.expect("a call leaves the wait list only when it is admitted");
    }

    /// Enters with the slots that the call has got.
    pub(super) fn enter(mut self) -> QueuePermit {
        let (queues, waited) = (self.queues.take().expect("a place is left only once"), self.since.elapsed());
        for line in &queues {
            let mut state = line.state();
            let seen = &mut state.stats;
            seen.entered += 1;
            seen.longest_wait = seen.longest_wait.max(waited);
            seen.total_wait = seen.total_wait.saturating_add(waited);
        }
        QueuePermit { queues, waited }
    }

    /// Gives up waiting, unless the call has just got its slots.
    pub(super) fn time_out(mut self, after: Duration) -> Result<QueuePermit, QueueError> {
        let lines = self.queues.take().expect("a place is left only once");
        if lines[0].wait_list.waiters().leave(self.ticket).is_none() {
            self.queues = Some(lines);
            return Ok(self.enter());
        }
        for line in &lines {
            line.state().stats.timed_out += 1;
        }
        let full = lines.iter().find(|line| !line.state().has_slot()).unwrap_or(&lines[0]);
        Err(QueueError::Timeout { name: full.name.clone(), after })
    }
}

impl Drop for QueueWait {
    fn drop(&mut self) {
        let Some(lines) = self.queues.take() else { return };
        let mut waiters = lines[0].wait_list.waiters();
        for line in &lines {
            line.state().stats.abandoned += 1;
        }
        if waiters.leave(self.ticket).is_none() {
            waiters.free(&lines);
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let Some(wait_list) = self.queues.first().map(|line| Arc::clone(&line.wait_list)) else { return };
        wait_list.waiters().free(&self.queues);
    }
}
