//! Spins briefly while a message is expected soon, instead of parking the thread.
//!
//! Parking and waking a thread takes longer than a small call. If the peer answered within 200 µs last time, it is
//! likely to do so again, so the thread spins; for slower peers, such as people, models and most tools, it parks.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Switches spinning on or off for the whole process.
pub(crate) fn set_enabled(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Decides whether to spin for the next message.
pub(crate) struct SpinWait {
    timing: Mutex<PeerTiming>,
    /// Notified when spinning should start.
    spin_now: Notify,
}

impl SpinWait {
    /// Creates one for a side that answers requests, and waits for the next one when none is open.
    pub(crate) fn for_requests() -> Self {
        SpinWait::new(0)
    }

    /// Creates one for a side that sends requests, and waits for the answer while one is open.
    pub(crate) fn for_answers() -> Self {
        SpinWait::new(1)
    }

    fn new(awaits_at: usize) -> Self {
        SpinWait { timing: Mutex::new(PeerTiming::new(awaits_at, Instant::now())), spin_now: Notify::new() }
    }

    /// Notes that a request starts, until the returned guard is dropped.
    pub(crate) fn start_request(self: &Arc<Self>) -> OpenRequest {
        self.update(PeerTiming::request_started);
        OpenRequest(Arc::clone(self))
    }

    /// Keeps the thread awake while a message is expected soon.
    pub(crate) async fn run(&self) -> Infallible {
        // On a single core, the peer needs it to produce the message.
        if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
            std::future::pending::<()>().await;
        }
        self.spin().await
    }

    async fn spin(&self) -> Infallible {
        loop {
            self.spin_now.notified().await;
            while ENABLED.load(Ordering::Relaxed) && self.timing().should_spin(Instant::now()) {
                // The peer may be waiting for this very core.
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
        }
    }

    fn update(&self, step: impl FnOnce(&mut PeerTiming, Instant)) {
        let (mut pace, now) = (self.timing(), Instant::now());
        step(&mut pace, now);
        if pace.should_spin(now) {
            self.spin_now.notify_one();
        }
    }

    /// Returns how many requests have no answer yet.
    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.timing().open
    }

    fn timing(&self) -> MutexGuard<'_, PeerTiming> {
        self.timing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request without an answer yet; drop it as soon as it has one or fails.
pub(crate) struct OpenRequest(Arc<SpinWait>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.update(PeerTiming::request_ended);
    }
}

/// How quickly the peer reacted last time.
struct PeerTiming {
    /// The number of open requests at which it is the peer's turn.
    wait_at_open: usize,
    open: usize,
    /// Whether there was never more than one open request since there was none; with several, other work needs the
    /// core.
    one_at_a_time: bool,
    /// When the first open request started; if none is open, when the last one ended.
    since: Instant,
    is_quick: bool,
}

impl PeerTiming {
    fn new(wait_at_open: usize, now: Instant) -> Self {
        PeerTiming { wait_at_open, open: 0, one_at_a_time: true, since: now, is_quick: false }
    }

    fn request_started(&mut self, now: Instant) {
        self.one_at_a_time = self.open == 0;
        if self.one_at_a_time {
            self.switch_side(now);
        }
        self.open += 1;
    }

    fn request_ended(&mut self, now: Instant) {
        if self.open == 1 {
            self.switch_side(now);
        }
        self.open = self.open.saturating_sub(1);
    }

    /// Notes that it is the other side's turn now.
    fn switch_side(&mut self, now: Instant) {
        if self.open == self.wait_at_open {
            self.is_quick = now - self.since < QUICK;
        }
        self.since = now;
    }

    fn should_spin(&self, now: Instant) -> bool {
        self.is_quick && self.one_at_a_time && self.open == self.wait_at_open && now - self.since < QUICK
    }
}

/// A peer that takes longer is not quick, and spinning stops.
const QUICK: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake, Waker};

    use super::*;

    const ASKED: bool = true;
    const ANSWERED: bool = false;

    /// Reports after each step, given in microseconds after the last one, whether it spins.
    fn awake(awaits_at: usize, steps: &[(u64, bool)]) -> Vec<bool> {
        let mut now = Instant::now();
        let mut pace = PeerTiming::new(awaits_at, now);
        let step = |(after, asked): &(u64, bool)| {
            now += Duration::from_micros(*after);
            if *asked {
                pace.request_started(now)
            } else {
                pace.request_ended(now)
            }
            assert!(!pace.should_spin(now + QUICK), "it falls asleep");
            pace.should_spin(now)
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn who_was_quick_is_awaited_awake_and_nobody_else_is() {
        let hurry = [(5_000, ASKED), (90, ANSWERED), (20, ASKED), (90, ANSWERED), (20, ASKED), (90, ANSWERED)];
        assert_eq!(awake(0, &hurry), [false, false, false, true, false, true]);
        assert_eq!(awake(1, &hurry), [false, false, true, false, true, false]);
        let thinking = [(5_000, ASKED), (90, ANSWERED), (5_000, ASKED), (90, ANSWERED), (5_000, ASKED)];
        assert_eq!(awake(0, &thinking), [false; 5]);
        assert_eq!(awake(1, &thinking), [false, false, true, false, true]);
        let work = [(20, ASKED), (5_000, ANSWERED), (20, ASKED), (5_000, ANSWERED), (20, ASKED)];
        assert_eq!(awake(0, &work), [false, true, false, true, false]);
        assert_eq!(awake(1, &work), [false; 5]);
    }

    #[test]
    fn where_several_requests_are_open_nobody_stays_awake() {
        let alone = [(20, ASKED), (90, ANSWERED), (20, ASKED)];
        let crowd =
            [(1, ASKED), (90, ANSWERED), (20, ANSWERED), (20, ASKED), (1, ASKED), (90, ANSWERED), (20, ANSWERED)];
        let steps = [&alone[..], &crowd, &alone].concat();
        assert_eq!(awake(0, &steps), [&[false, true, false], &[false; 7][..], &[false, true, false]].concat());
        // The first of several requests is alone until the next one starts.
        let first = [false, false, false, true, false, false, false];
        assert_eq!(awake(1, &steps), [&[false, false, true], &first[..], &[true, false, true]].concat());
    }

    /// A waker that notes whether the polled future wants to be polled again at once.
    #[derive(Default)]
    struct Restless(AtomicBool);

    impl Wake for Restless {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_vigil_begins_where_somebody_quick_is_awaited_and_ends_in_time() {
        let (spin_wait, restless) = (Arc::new(SpinWait::for_requests()), Arc::<Restless>::default());
        let waker = Waker::from(Arc::clone(&restless));
        let mut watch = pin!(spin_wait.spin());
        let mut is_restless = || {
            assert!(watch.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            restless.0.swap(false, Ordering::Relaxed)
        };
        assert!(!is_restless(), "nobody was quick");
        let asked = spin_wait.start_request();
        spin_wait.timing().is_quick = true;
        drop(asked);
        let moment = |since| spin_wait.timing().since = since;
        // However long the test takes, the message still counts as expected soon.
        moment(Instant::now() + Duration::from_secs(3600));
        assert!(is_restless() && is_restless(), "it stays awake");
        moment(Instant::now() - QUICK);
        assert!(!is_restless() && !is_restless(), "the moment is over");
    }
}
