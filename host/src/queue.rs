//! Named queues, which limit how many calls run at a time and let the others wait in order.

mod wait_list;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::timeout;

use wait_list::{EnterOutcome, QueueInner, WaitList};

/// The limits of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The queue's name.
    pub name: String,
    /// How many calls run at a time; zero counts as one.
    pub slots: usize,
    /// How many calls may wait for a slot; with zero, a call enters only if a slot is free.
    pub waiting: usize,
    /// How long a call may wait.
    pub timeout: Option<Duration>,
}

/// The limits of queues that are not configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDefaults {
    /// How many calls run at a time.
    pub slots: usize,
    /// How many calls may wait for a slot.
    pub waiting: usize,
    /// How long a call may wait.
    pub timeout: Option<Duration>,
}

/// A first-in, first-out queue for a number of slots.
#[derive(Debug)]
pub struct Queue(Arc<QueueInner>);

/// A slot in each queue of a call, released when this is dropped.
#[derive(Debug)]
#[must_use = "the slots are free again when this is dropped"]
pub struct QueuePermit {
    queues: Vec<Arc<QueueInner>>,
    waited: Duration,
}

/// The reason why a call did not get a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueError {
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

/// Statistics of a queue. Every attempt is waiting, or counted once as entered, refused, timed out or abandoned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// The queue's name.
    pub name: String,
    /// How many calls run at a time.
    pub slots: usize,
    /// The calls that run now.
    pub running: usize,
    /// The calls that wait now.
    pub waiting: usize,
    /// The calls that got a slot.
    pub entered: u64,
    /// The calls that found the queue full.
    pub refused: u64,
    /// The calls that waited too long.
    pub timed_out: u64,
    /// The calls whose callers stopped waiting.
    pub abandoned: u64,
    /// The longest wait of a call that entered.
    pub longest_wait: Duration,
    /// The total wait of all calls that entered.
    pub total_wait: Duration,
}

/// The queues that all servers share.
///
/// Names come from the configuration, never from a call, so the number of queues is bounded.
#[derive(Debug)]
pub struct Queues {
    defaults: QueueDefaults,
    wait_list: Arc<WaitList>,
    named: Mutex<BTreeMap<String, Arc<Queue>>>,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Queue(QueueInner::new(Arc::default(), limits))
    }

    /// Returns the queue's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Waits for a slot; dropping the future leaves the queue.
    pub async fn enter(&self) -> Result<QueuePermit, QueueError> {
        enter(vec![Arc::clone(&self.0)]).await
    }

    /// Changes the limits. Running calls go on even if there are fewer slots now, and waiting calls keep their order.
    pub fn resize(&self, limits: QueueLimits) {
        self.0.resize(limits);
    }

    /// Returns the statistics of the queue.
    pub fn stats(&self) -> QueueStats {
        self.0.stats()
    }
}

impl QueuePermit {
    /// Returns how long the call waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// Waits until all these queues, which must belong to the same `Queues`, have a free slot at the same time. A call that
/// waits for one queue holds no slot of another, so no slot is idle while a call could run.
pub async fn enter_all(queues: &[Arc<Queue>]) -> Result<QueuePermit, QueueError> {
    enter(queues.iter().map(|queue| Arc::clone(&queue.0)).collect()).await
}

async fn enter(lines: Vec<Arc<QueueInner>>) -> Result<QueuePermit, QueueError> {
    let mut place = match wait_list::enter_or_wait(lines)? {
        EnterOutcome::Entered(turn) => return Ok(turn),
        EnterOutcome::Waiting(place) => place,
    };
    match place.limit() {
        None => place.wait_admission().await,
        Some(limit) => match timeout(limit, place.wait_admission()).await {
            Ok(()) => {}
            Err(_) => return place.time_out(limit),
        },
    }
    Ok(place.enter())
}

impl std::error::Error for QueueError {}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueError::Full { name, waiting: 0 } => write!(f, "queue {name:?} is full: no call may wait"),
            QueueError::Full { name, waiting: 1 } => write!(f, "queue {name:?} is full: 1 call waits already"),
            QueueError::Full { name, waiting } => write!(f, "queue {name:?} is full: {waiting} calls wait already"),
            QueueError::Timeout { name, after } => write!(f, "queue {name:?}: no free slot within {after:?}"),
        }
    }
}

impl Queues {
    /// Creates the configured queues; others get the defaults when they are first used.
    pub fn new(defaults: QueueDefaults, configured: impl IntoIterator<Item = QueueLimits>) -> Self {
        let queues = Queues { defaults, wait_list: Arc::default(), named: Mutex::default() };
        queues.reconfigure(configured);
        queues
    }

    /// Returns the queue with this name.
    pub fn get(&self, name: &str) -> Arc<Queue> {
        let mut named = self.named();
        let queue = named.entry(name.to_owned()).or_insert_with(|| self.create_unnamed(self.defaults.named(name)));
        Arc::clone(queue)
    }

    /// Creates a queue that has no entry in the table of names; it can be entered together with the others.
    pub fn create_unnamed(&self, limits: QueueLimits) -> Arc<Queue> {
        Arc::new(Queue(QueueInner::new(Arc::clone(&self.wait_list), limits)))
    }

    /// Applies a new configuration: existing queues keep their running and waiting calls, and those it no longer names
    /// get the defaults while somebody uses them.
    pub fn reconfigure(&self, configured: impl IntoIterator<Item = QueueLimits>) {
        let mut configured: BTreeMap<_, _> =
            configured.into_iter().map(|limits| (limits.name.clone(), limits)).collect();
        let mut named = self.named();
        named.retain(|name, queue| configured.contains_key(name) || Arc::strong_count(queue) > 1);
        for (name, queue) in &*named {
            queue.resize(configured.remove(name).unwrap_or_else(|| self.defaults.named(name)));
        }
        named.extend(configured.into_iter().map(|(name, limits)| (name, self.create_unnamed(limits))));
    }

    /// Returns the statistics of each queue, in the order of their names.
    pub fn stats(&self) -> Vec<QueueStats> {
        self.named().values().map(|queue| queue.stats()).collect()
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Queue>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueDefaults {
    /// Returns these limits for a queue with this name.
    pub fn named(&self, name: &str) -> QueueLimits {
        QueueLimits { name: name.to_owned(), slots: self.slots, waiting: self.waiting, timeout: self.timeout }
    }
}

impl Default for QueueDefaults {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        QueueDefaults { slots: cores.saturating_mul(2).min(MOST_SLOTS), waiting: WAITING, timeout: None }
    }
}

/// The default number of slots never exceeds this, however many cores there are.
const MOST_SLOTS: usize = 64;
/// How many calls may wait by default.
const WAITING: usize = 1000;

#[cfg(test)]
mod tests;
