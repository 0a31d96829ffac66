use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use tokio::task::{JoinSet, coop, yield_now};
use tokio::time::{Instant, advance, sleep};

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn limits(slots: usize, waiting: usize) -> QueueLimits {
    QueueLimits { name: "heavy".to_owned(), slots, waiting, timeout: None }
}

fn queue(slots: usize, waiting: usize) -> Queue {
    Queue::new(limits(slots, waiting))
}

type Entering<'a> = Pin<Box<dyn Future<Output = Result<QueuePermit, QueueError>> + Send + 'a>>;

/// A caller that has just arrived, and its immediate outcome.
fn arrive(queue: &Queue) -> (Entering<'_>, Option<Result<QueuePermit, QueueError>>) {
    let mut entering: Entering = Box::pin(queue.enter());
    let answer = ask(&mut entering);
    (entering, answer)
}

fn ask(entering: &mut Entering) -> Option<Result<QueuePermit, QueueError>> {
    match entering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn take(queue: &Queue) -> QueuePermit {
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
        // Poll the last one first: the order of waking up must not matter.
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
    assert!(matches!(arrive(&queue).1, Some(Err(QueueError::Full { .. }))));
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
    // It may wait, although the other has not woken up yet and still seems to wait.
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
        assert_eq!(refused, QueueError::Full { name: "heavy".to_owned(), waiting });
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
    let queue = Queue::new(QueueLimits { timeout: Some(limit), ..limits(1, 2) });
    let turn = take(&queue);
    let since = Instant::now();
    let mut first = pin!(queue.enter());
    assert!(timeout(limit - MILLISECOND, &mut first).await.is_err(), "refused too early");
    let mut second = wait(&queue);
    let refused = first.await.unwrap_err();
    assert_eq!(since.elapsed(), limit);
    assert_eq!(refused, QueueError::Timeout { name: "heavy".to_owned(), after: limit });
    assert_eq!(refused.to_string(), r#"queue "heavy": no free slot within 30s"#);
    drop(turn);
    assert!(matches!(ask(&mut second), Some(Ok(_))));
    let QueueStats { entered, timed_out, abandoned, running, waiting, .. } = queue.stats();
    assert_eq!((entered, timed_out, abandoned, running, waiting), (2, 1, 0, 0, 0));
}

#[test]
fn a_free_slot_is_taken_without_a_timer() {
    // Outside a runtime a timer would panic.
    let queue = Queue::new(QueueLimits { timeout: Some(MILLISECOND), ..limits(1, 0) });
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
    for (seed, slots, waiting, limit) in [(1, 1, 20, None), (2, 1, 5, Some(9)), (3, 7, 60, Some(12)), (4, 64, 0, None)]
    {
        let timeout = limit.map(|limit| limit * MILLISECOND);
        let queue = Arc::new(Queue::new(QueueLimits { timeout, ..limits(slots, waiting) }));
        run_at_random(fastrand::Rng::with_seed(seed), &queue).await;
        let stats = queue.stats();
        let QueueStats { entered, refused, timed_out, abandoned, .. } = stats;
        assert_eq!(entered + refused + timed_out + abandoned, CALLS, "{stats:?}");
        assert_eq!((stats.running, stats.waiting), (0, 0), "{stats:?}");
        // Otherwise the schedule is too tame to prove anything.
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

/// Calls that arrive, work and give up at random.
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
            // With more slots, a call that wakes up late only seems to be overtaken.
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
    assert_eq!(queue.stats().slots, usize::MAX);
    let _turn = take(&queue);
}

#[test]
fn a_queue_has_the_default_limits_unless_it_is_configured() {
    let defaults = QueueDefaults { slots: 3, waiting: 0, timeout: None };
    let queues = Queues::new(defaults.clone(), [QueueLimits { slots: 1, ..defaults.named("heavy") }]);
    assert!(Arc::ptr_eq(&queues.get("light"), &queues.get("light")));
    let turn = take(&queues.get("heavy"));
    queues.get("average");
    let all = queues.stats();
    let seen: Vec<_> = all.iter().map(|stats| (stats.name.as_str(), stats.slots, stats.running)).collect();
    assert_eq!(seen, [("average", 3, 0), ("heavy", 1, 1), ("light", 3, 0)]);
    drop(turn);
}

#[test]
fn the_default_limits_follow_the_cores() {
    let QueueDefaults { slots, waiting, timeout } = QueueDefaults::default();
    assert!((2..=64).contains(&slots) && slots.is_multiple_of(2), "{slots} slots");
    assert_eq!((waiting, timeout), (1000, None));
}

#[test]
fn who_waits_for_one_queue_keeps_no_slot_of_another() {
    let queues = Queues::new(QueueDefaults { slots: 1, waiting: 9, timeout: None }, []);
    let (server, slow) = (queues.get("server"), queues.get("slow"));
    let both = [&server, &slow];
    let enter = |queues: &[&Arc<Queue>]| -> Entering<'static> {
        let queues: Vec<_> = queues.iter().map(|queue| Arc::clone(queue)).collect();
        Box::pin(async move { enter_all(&queues).await })
    };
    let elsewhere = take(&slow);
    let mut first = enter(&both);
    assert!(ask(&mut first).is_none(), "the slow queue is full");
    // It waits for the slow queue, so the server is free for the others.
    for _ in 0..3 {
        drop(take(&server));
    }
    let running = take(&server);
    drop(elsewhere);
    assert!(ask(&mut first).is_none(), "now the server is busy");
    // The slow queue is free for calls that need nothing else.
    drop(take(&slow));
    drop(running);
    let turn = ask(&mut first).expect("both are free").unwrap();
    assert!(ask(&mut enter(&[&server])).is_none() && ask(&mut enter(&[&slow])).is_none(), "both are taken");
    drop(turn);
    let all: Vec<_> = queues.stats().iter().map(|seen| (seen.running, seen.waiting, seen.abandoned)).collect();
    assert_eq!(all, [(0, 0, 1), (0, 0, 1)]);
}

#[test]
fn of_those_who_wait_for_the_same_queues_the_first_is_next() {
    let queues = Queues::new(QueueDefaults { slots: 1, waiting: 9, timeout: None }, []);
    let (server, slow) = (queues.get("server"), queues.get("slow"));
    let turn = take(&slow);
    let both = [Arc::clone(&server), Arc::clone(&slow)];
    let mut waiters: Vec<Entering> = (0..3).map(|_| Box::pin(enter_all(&both)) as Entering).collect();
    assert!(waiters.iter_mut().all(|waiter| ask(waiter).is_none()));
    let mut last = wait(&slow);
    drop(turn);
    for expected in 0..3 {
        let come: Vec<_> = waiters.iter_mut().map(ask).collect();
        assert_eq!(come.iter().position(Option::is_some), Some(0), "{expected}");
        assert!(ask(&mut last).is_none());
        drop(waiters.remove(0));
        drop(come);
    }
    assert!(matches!(ask(&mut last), Some(Ok(_))));
}

#[test]
fn a_full_queue_among_several_is_the_one_that_is_named() {
    let defaults = QueueDefaults { slots: 1, waiting: 0, timeout: None };
    let queues = Queues::new(defaults.clone(), [QueueLimits { waiting: 5, ..defaults.named("server") }]);
    let (server, slow) = (queues.get("server"), queues.get("slow"));
    let _turn = take(&slow);
    let both = [server, Arc::clone(&slow)];
    let refused = ask(&mut (Box::pin(enter_all(&both)) as Entering)).unwrap().unwrap_err();
    assert_eq!(refused, QueueError::Full { name: "slow".to_owned(), waiting: 0 });
    assert_eq!((both[0].stats().refused, slow.stats().refused), (0, 1));
}

#[test]
fn a_queue_that_gets_more_slots_lets_those_in_who_wait_and_one_with_fewer_nobody() {
    let queue = queue(1, 10);
    let turn = take(&queue);
    let mut waiters: Vec<_> = (0..3).map(|_| wait(&queue)).collect();
    queue.resize(limits(3, 10));
    let mut turns: Vec<_> = waiters.iter_mut().filter_map(ask).map(Result::unwrap).collect();
    assert_eq!((turns.len(), queue.stats().running, queue.stats().waiting), (2, 3, 1));
    queue.resize(limits(1, 1));
    assert!(matches!(arrive(&queue).1, Some(Err(QueueError::Full { waiting: 1, .. }))));
    drop(turn);
    drop(turns.pop());
    assert!(ask(&mut waiters[2]).is_none(), "one runs already");
    drop(turns.pop());
    assert!(matches!(ask(&mut waiters[2]), Some(Ok(_))));
}

#[test]
fn a_new_configuration_resizes_queues_in_place_and_forgets_those_that_nobody_uses() {
    let defaults = QueueDefaults { slots: 3, waiting: 0, timeout: None };
    let named = |name: &str, slots| QueueLimits { slots, ..QueueDefaults::default().named(name) };
    let queues = Queues::new(defaults, [named("kept", 1), named("used", 1), named("gone", 1)]);
    let used = queues.get("used");
    let turn = take(&queues.get("kept"));
    queues.reconfigure([named("kept", 2), named("new", 7)]);
    let seen: Vec<_> = queues.stats().into_iter().map(|stats| (stats.name, stats.slots, stats.running)).collect();
    assert_eq!(seen, [("kept".to_owned(), 2, 1), ("new".to_owned(), 7, 0), ("used".to_owned(), 3, 0)]);
    assert!(Arc::ptr_eq(&used, &queues.get("used")));
    drop(turn);
}
