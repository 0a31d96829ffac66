//! Named queues: they bound how many calls run at a time, and let the others wait in the order in which they came.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How many calls a queue lets run and wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What the queue is called.
    pub name: String,
    /// How many calls run at a time; none is taken for one.
    pub slots: usize,
    /// How many calls may wait for a slot; with none, only free slots are taken.
    pub waiting: usize,
    /// How long a call may wait.
    pub timeout: Option<Duration>,
}

/// The limits of queues that were not configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// How many calls run at a time.
    pub slots: usize,
    /// How many calls may wait for a slot.
    pub waiting: usize,
    /// How long a call may wait.
    pub timeout: Option<Duration>,
}

/// A first-in, first-out queue before a number of slots.
#[derive(Debug)]
pub struct Queue(Arc<Shared>);

/// A slot of a queue, free again when this is dropped.
#[derive(Debug)]
#[must_use = "the slot is free again when this is dropped"]
pub struct Turn {
    queue: Arc<Shared>,
    waited: Duration,
}

/// Why a call did not get its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Every slot is taken, and no more calls may wait.
    Full {
        /// The queue.
        name: String,
        /// How many calls may wait there.
        waiting: usize,
    },
    /// No slot became free in time.
    Timeout {
        /// The queue.
        name: String,
        /// How long the call waited.
        after: Duration,
    },
}

/// What a queue has seen. Every attempt is waiting, or is counted once as entered, refused, timed out or abandoned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// What the queue is called.
    pub name: String,
    /// How many calls run at a time.
    pub slots: usize,
    /// The calls that run now.
    pub running: usize,
    /// The calls that wait now; one whose turn has come waits until its task wakes up.
    pub waiting: usize,
    /// The calls that got their turn.
    pub entered: u64,
    /// The calls that found the queue full.
    pub refused: u64,
    /// The calls that waited too long.
    pub timed_out: u64,
    /// The calls whose callers gave up waiting.
    pub abandoned: u64,
    /// The longest wait of a call that entered.
    pub longest_wait: Duration,
    /// The waits of all calls that entered.
    pub total_wait: Duration,
}

/// The queues that all servers share.
///
/// Names come from the configuration, never from a call: a queue stays once it is named.
#[derive(Debug)]
pub struct Queues {
    defaults: Defaults,
    named: Mutex<BTreeMap<String, Arc<Queue>>>,
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { slots: limits.slots.clamp(1, Semaphore::MAX_PERMITS), ..limits };
        let seen = QueueStats { name: limits.name.clone(), slots: limits.slots, ..QueueStats::default() };
        Queue(Arc::new(Shared { slots: Semaphore::new(limits.slots), limits, seen: Mutex::new(seen) }))
    }

    /// Waits for a slot. A caller that drops the future leaves the queue.
    pub async fn enter(&self) -> Result<Turn, Refused> {
        let place = match self.0.arrive()? {
            Arrival::Turn(turn) => return Ok(turn),
            Arrival::Place(place) => place,
        };
        let since = Instant::now();
        let slot = self.0.slots.acquire();
        let slot = match self.0.limits.timeout {
            None => slot.await,
            Some(limit) => match timeout(limit, slot).await {
                Ok(slot) => slot,
                Err(_) => return Err(place.time_out(limit)),
            },
        };
        slot.expect("nobody closes the semaphore").forget();
        Ok(place.enter(since.elapsed()))
    }

    /// What the queue has seen so far.
    pub fn stats(&self) -> QueueStats {
        self.0.seen().clone()
    }
}

impl Turn {
    /// How long the call waited for its turn.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // In this order, so that never more calls are counted than there are slots.
        self.queue.seen().running -= 1;
        self.queue.slots.add_permits(1);
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full { name, waiting: 0 } => write!(f, "queue {name:?} is full: no call may wait"),
            Refused::Full { name, waiting: 1 } => write!(f, "queue {name:?} is full: 1 call waits already"),
            Refused::Full { name, waiting } => write!(f, "queue {name:?} is full: {waiting} calls wait already"),
            Refused::Timeout { name, after } => write!(f, "queue {name:?}: no free slot within {after:?}"),
        }
    }
}

impl Queues {
    /// The configured queues; others begin with the defaults when they are first named.
    pub fn new(defaults: Defaults, configured: impl IntoIterator<Item = Limits>) -> Self {
        let named = configured.into_iter().map(|limits| (limits.name.clone(), Arc::new(Queue::new(limits))));
        Queues { defaults, named: Mutex::new(named.collect()) }
    }

    /// The queue of this name.
    pub fn get(&self, name: &str) -> Arc<Queue> {
        let mut named = self.named();
        if let Some(queue) = named.get(name) {
            return queue.clone();
        }
        let queue = Arc::new(Queue::new(self.defaults.named(name)));
        named.insert(name.to_owned(), queue.clone());
        queue
    }

    /// What each queue has seen, in the order of their names.
    pub fn all(&self) -> Vec<QueueStats> {
        self.named().values().map(|queue| queue.stats()).collect()
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Queue>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Defaults {
    /// These limits for a queue of this name.
    pub fn named(&self, name: &str) -> Limits {
        Limits { name: name.to_owned(), slots: self.slots, waiting: self.waiting, timeout: self.timeout }
    }
}

impl Default for Defaults {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Defaults { slots: cores.saturating_mul(2).min(MOST_SLOTS), waiting: WAITING, timeout: None }
    }
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    /// Keeps the order; it is fair.
    slots: Semaphore,
    /// Says who may come in, and what came of it.
    seen: Mutex<QueueStats>,
}

enum Arrival {
    Turn(Turn),
    Place(Place),
}

/// A place among those who wait; abandoned when dropped.
struct Place(Option<Arc<Shared>>);

impl Shared {
    fn arrive(self: &Arc<Self>) -> Result<Arrival, Refused> {
        let mut seen = self.seen();
        // The semaphore has no free permit while anyone stands in its line.
        if let Ok(slot) = self.slots.try_acquire() {
            slot.forget();
            seen.running += 1;
            seen.entered += 1;
            return Ok(Arrival::Turn(Turn { queue: self.clone(), waited: Duration::ZERO }));
        }
        // Who has a slot but did not wake up yet must not keep another from waiting, so both are counted together.
        if seen.running + seen.waiting >= self.limits.slots.saturating_add(self.limits.waiting) {
            seen.refused += 1;
            return Err(Refused::Full { name: self.limits.name.clone(), waiting: self.limits.waiting });
        }
        seen.waiting += 1;
        Ok(Arrival::Place(Place(Some(self.clone()))))
    }

    fn seen(&self) -> MutexGuard<'_, QueueStats> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn enter(self, waited: Duration) -> Turn {
        let queue = self.leave();
        let mut seen = queue.seen();
        seen.waiting -= 1;
        seen.running += 1;
        seen.entered += 1;
        seen.longest_wait = seen.longest_wait.max(waited);
        seen.total_wait = seen.total_wait.saturating_add(waited);
        drop(seen);
        Turn { queue, waited }
    }

    fn time_out(self, after: Duration) -> Refused {
        let queue = self.leave();
        let mut seen = queue.seen();
        seen.waiting -= 1;
        seen.timed_out += 1;
        Refused::Timeout { name: queue.limits.name.clone(), after }
    }

    fn leave(mut self) -> Arc<Shared> {
        self.0.take().expect("a place is left once")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            let mut seen = queue.seen();
            seen.waiting -= 1;
            seen.abandoned += 1;
        }
    }
}

/// More slots than this are not given by default, however many cores there are.
const MOST_SLOTS: usize = 64;
/// How many calls may wait by default.
const WAITING: usize = 1000;

#[cfg(test)]
mod tests;
