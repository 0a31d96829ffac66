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
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::{Context, Poll, Waker};

    use tokio::task::{JoinSet, coop, yield_now};
    use tokio::time::{advance, sleep};

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn limits(slots: usize, waiting: usize) -> Limits {
        Limits { name: "heavy".to_owned(), slots, waiting, timeout: None }
    }

    fn queue(slots: usize, waiting: usize) -> Queue {
        Queue::new(limits(slots, waiting))
    }

    type Entering<'a> = Pin<Box<dyn Future<Output = Result<Turn, Refused>> + Send + 'a>>;

    /// A caller that has just come, and what it was told at once.
    fn arrive(queue: &Queue) -> (Entering<'_>, Option<Result<Turn, Refused>>) {
        let mut entering: Entering = Box::pin(queue.enter());
        let answer = ask(&mut entering);
        (entering, answer)
    }

    fn ask(entering: &mut Entering) -> Option<Result<Turn, Refused>> {
        match entering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    fn take(queue: &Queue) -> Turn {
        arrive(queue).1.expect("an answer at once").unwrap()
    }

    fn wait(queue: &Queue) -> Entering<'_> {
        let (entering, answer) = arrive(queue);
        assert!(answer.is_none(), "told at once: {answer:?}");
        entering
    }

    #[test]
    fn calls_enter_in_the_order_in_which_they_came_though_some_give_up() {
        let queue = queue(1, 10);
        let mut turn = Some(take(&queue));
        let mut waiters: Vec<_> = (0..6).map(|_| Some(wait(&queue))).collect();
        waiters[1] = None;
        waiters[2] = None;
        waiters[4] = None;
        for expected in [0, 3, 5] {
            turn.take();
            // The last one is asked first: who wakes up first must not matter.
            for (index, waiter) in waiters.iter_mut().enumerate().rev() {
                if let Some(answer) = waiter.as_mut().and_then(ask) {
                    assert_eq!(index, expected);
                    turn = Some(answer.unwrap());
                    *waiter = None;
                }
            }
            assert!(turn.is_some(), "{expected} did not enter");
        }
        let QueueStats { entered, abandoned, running, waiting, .. } = queue.stats();
        assert_eq!((entered, abandoned, running, waiting), (4, 3, 1, 0));
    }

    #[test]
    fn a_waiter_that_gives_up_frees_its_place() {
        let queue = queue(1, 1);
        let _turn = take(&queue);
        let waiter = wait(&queue);
        assert!(matches!(arrive(&queue).1, Some(Err(Refused::Full { .. }))));
        drop(waiter);
        let _another = wait(&queue);
        let QueueStats { refused, abandoned, waiting, .. } = queue.stats();
        assert_eq!((refused, abandoned, waiting), (1, 1, 1));
    }

    #[test]
    fn a_waiter_that_gives_up_when_its_turn_has_come_passes_it_on() {
        let queue = queue(1, 2);
        let turn = take(&queue);
        let (first, mut second) = (wait(&queue), wait(&queue));
        drop(turn);
        assert!(ask(&mut second).is_none());
        drop(first);
        assert!(matches!(ask(&mut second), Some(Ok(_))));
    }

    #[test]
    fn a_newcomer_never_overtakes_a_waiter_whose_turn_has_come() {
        let queue = queue(1, 1);
        let turn = take(&queue);
        let mut waiter = wait(&queue);
        drop(turn);
        // It may wait, though the other has not woken up yet and seems to take the only place.
        let mut newcomer = wait(&queue);
        let turn = ask(&mut waiter).unwrap().unwrap();
        assert!(ask(&mut newcomer).is_none());
        drop(turn);
        assert!(matches!(ask(&mut newcomer), Some(Ok(_))));
    }

    #[tokio::test]
    async fn a_task_that_has_spent_its_budget_keeps_its_place() {
        let queue = queue(1, 2);
        let turn = take(&queue);
        while coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
        let mut first = wait(&queue);
        yield_now().await;
        let mut second = wait(&queue);
        drop(turn);
        assert!(ask(&mut second).is_none());
        assert!(matches!(ask(&mut first), Some(Ok(_))));
    }

    #[test]
    fn a_full_queue_refuses_at_once_and_says_so() {
        let check = |waiting, text: &str| {
            let queue = queue(2, waiting);
            let _turns = (take(&queue), take(&queue));
            let _waiters: Vec<_> = (0..waiting).map(|_| wait(&queue)).collect();
            let refused = arrive(&queue).1.expect("an answer at once").unwrap_err();
            assert_eq!(refused, Refused::Full { name: "heavy".to_owned(), waiting });
            assert_eq!(refused.to_string(), text);
            assert_eq!(queue.stats().refused, 1);
        };
        check(0, r#"queue "heavy" is full: no call may wait"#);
        check(1, r#"queue "heavy" is full: 1 call waits already"#);
        check(1000, r#"queue "heavy" is full: 1000 calls wait already"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_too_long_is_refused_and_the_next_one_moves_up() {
        let limit = Duration::from_secs(30);
        let queue = Queue::new(Limits { timeout: Some(limit), ..limits(1, 2) });
        let turn = take(&queue);
        let since = Instant::now();
        let mut first = pin!(queue.enter());
        assert!(timeout(limit - MILLISECOND, &mut first).await.is_err(), "refused too early");
        let mut second = wait(&queue);
        let refused = first.await.unwrap_err();
        assert_eq!(since.elapsed(), limit);
        assert_eq!(refused, Refused::Timeout { name: "heavy".to_owned(), after: limit });
        assert_eq!(refused.to_string(), r#"queue "heavy": no free slot within 30s"#);
        drop(turn);
        assert!(matches!(ask(&mut second), Some(Ok(_))));
        let QueueStats { entered, timed_out, abandoned, running, waiting, .. } = queue.stats();
        assert_eq!((entered, timed_out, abandoned, running, waiting), (2, 1, 0, 0, 0));
    }

    #[test]
    fn a_free_slot_is_taken_without_a_timer() {
        // Outside a runtime a timer would panic.
        let queue = Queue::new(Limits { timeout: Some(MILLISECOND), ..limits(1, 0) });
        assert_eq!(take(&queue).waited(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_says_how_long_it_waited() {
        let queue = queue(1, 2);
        let turn = take(&queue);
        let (mut first, mut second) = (wait(&queue), wait(&queue));
        advance(3 * MILLISECOND).await;
        drop(turn);
        assert_eq!(ask(&mut first).unwrap().unwrap().waited(), 3 * MILLISECOND);
        advance(4 * MILLISECOND).await;
        assert_eq!(ask(&mut second).unwrap().unwrap().waited(), 7 * MILLISECOND);
        let QueueStats { longest_wait, total_wait, .. } = queue.stats();
        assert_eq!((longest_wait, total_wait), (7 * MILLISECOND, 10 * MILLISECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_calls_run_than_there_are_slots_and_every_attempt_is_counted_once() {
        for (seed, slots, waiting, limit) in
            [(1, 1, 20, None), (2, 1, 5, Some(9)), (3, 7, 60, Some(12)), (4, 64, 0, None)]
        {
            let timeout = limit.map(|limit| limit * MILLISECOND);
            let queue = Arc::new(Queue::new(Limits { timeout, ..limits(slots, waiting) }));
            run_at_random(fastrand::Rng::with_seed(seed), &queue).await;
            let stats = queue.stats();
            let QueueStats { entered, refused, timed_out, abandoned, .. } = stats;
            assert_eq!(entered + refused + timed_out + abandoned, CALLS, "{stats:?}");
            assert_eq!((stats.running, stats.waiting), (0, 0), "{stats:?}");
            // Otherwise the schedule is not wild enough to prove anything.
            assert!(entered > 0 && refused > 0, "{stats:?}");
            assert_eq!((timed_out > 0, abandoned > 0), (timeout.is_some(), waiting > 0), "{stats:?}");
        }
    }

    const CALLS: u64 = 2000;

    #[derive(Default)]
    struct Course {
        running: AtomicUsize,
        arrived: AtomicUsize,
        entered: AtomicUsize,
    }

    /// Calls that come, work and lose their patience at random.
    async fn run_at_random(mut random: fastrand::Rng, queue: &Arc<Queue>) {
        let slots = queue.stats().slots;
        let course = Arc::new(Course::default());
        let mut calls = JoinSet::new();
        for _ in 0..CALLS {
            let mut span = |longest| Duration::from_millis(random.u64(0..=longest));
            let (arrival, work, patience) = (span(CALLS / slots as u64), span(4), span(60));
            let (queue, course) = (queue.clone(), course.clone());
            calls.spawn(async move {
                sleep(arrival).await;
                let ticket = course.arrived.fetch_add(1, SeqCst) + 1;
                let Ok(Ok(_turn)) = timeout(patience, queue.enter()).await else { return };
                // With more slots, one that wakes up late only seems to be overtaken.
                assert!(course.entered.swap(ticket, SeqCst) < ticket || slots > 1);
                assert!(course.running.fetch_add(1, SeqCst) < slots);
                assert!(queue.stats().running <= slots);
                sleep(work).await;
                course.running.fetch_sub(1, SeqCst);
            });
        }
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
    }

    #[test]
    fn the_slots_are_kept_among_threads_too() {
        let (queue, running) = (queue(2, 8), AtomicUsize::new(0));
        let calls = async || {
            for _ in 0..1000 {
                let turn = queue.enter().await.unwrap();
                assert!(running.fetch_add(1, SeqCst) < 2);
                assert!(queue.stats().running <= 2);
                yield_now().await;
                running.fetch_sub(1, SeqCst);
                drop(turn);
            }
        };
        let block_on = || tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(calls());
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(block_on))));
        let QueueStats { entered, running, waiting, .. } = queue.stats();
        assert_eq!((entered, running, waiting), (8000, 0, 0));
    }

    #[test]
    fn absurd_limits_are_brought_into_reach() {
        assert_eq!(queue(0, 0).stats().slots, 1);
        let queue = queue(usize::MAX, usize::MAX);
        assert_eq!(queue.stats().slots, Semaphore::MAX_PERMITS);
        let _turn = take(&queue);
    }

    #[test]
    fn a_queue_has_the_default_limits_unless_it_is_configured() {
        let defaults = Defaults { slots: 3, waiting: 0, timeout: None };
        let queues = Queues::new(defaults.clone(), [Limits { slots: 1, ..defaults.named("heavy") }]);
        assert!(Arc::ptr_eq(&queues.get("light"), &queues.get("light")));
        let turn = take(&queues.get("heavy"));
        queues.get("average");
        let all = queues.all();
        let seen: Vec<_> = all.iter().map(|stats| (stats.name.as_str(), stats.slots, stats.running)).collect();
        assert_eq!(seen, [("average", 3, 0), ("heavy", 1, 1), ("light", 3, 0)]);
        drop(turn);
    }

    #[test]
    fn the_default_limits_follow_the_cores() {
        let Defaults { slots, waiting, timeout } = Defaults::default();
        assert!((2..=64).contains(&slots) && slots.is_multiple_of(2), "{slots} slots");
        assert_eq!((waiting, timeout), (1000, None));
    }
}
