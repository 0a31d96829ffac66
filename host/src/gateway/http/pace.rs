//! How long a client may take for each thing that it does on a connection. One clock watches all of them, and a
//! request costs it two looks at the time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::options::Limits;

/// What a client is doing on a connection, and since when.
#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    limits: Patience,
    phase: AtomicU8,
    /// Nanoseconds after the start.
    since: AtomicU64,
    /// When it stopped reading, in nanoseconds after the start; `u64::MAX` while it reads.
    stalled: AtomicU64,
    /// The content of the request is late; whoever reads it says so to the client.
    late: AtomicBool,
    /// A request has said who asks; before that there is little time.
    known: AtomicBool,
}

/// What follows from a look at the clock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Look again then.
    Fine(Instant),
    /// The content of a request is late.
    Late(Instant),
    /// Close the connection.
    Close(&'static str),
}

impl Pace {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let limits = Patience {
            idle: limits.idle_timeout,
            head: limits.header_timeout,
            body: limits.header_timeout.saturating_add(limits.body_timeout),
            write: limits.write_timeout,
            stranger: limits.stranger_timeout,
        };
        Arc::new(Pace {
            start: Instant::now(),
            limits,
            // A new connection is there to ask at once.
            phase: AtomicU8::new(HEAD),
            since: AtomicU64::new(0),
            stalled: AtomicU64::new(u64::MAX),
            late: AtomicBool::new(false),
            known: AtomicBool::new(false),
        })
    }

    /// The request has been read up to its content.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.late.store(false, Relaxed);
        self.phase.store(BODY, Relaxed);
        Busy(self.clone())
    }

    /// The content has been read; from now on it is the client who waits.
    pub(super) fn work(&self) {
        self.phase.store(WORK, Relaxed);
    }

    /// A request has said who asks.
    pub(super) fn know(&self) {
        self.known.store(true, Relaxed);
    }

    /// Whether no request is being served: the client is silent, or sends a head.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase.load(Relaxed), IDLE | HEAD)
    }

    pub(super) fn is_late(&self) -> bool {
        self.late.load(Relaxed)
    }

    /// Looks at the clock.
    pub(super) fn check(&self, now: Instant) -> Verdict {
        let elapsed = |since: u64| now.saturating_duration_since(self.start + Duration::from_nanos(since));
        let mut next = self.limits.shortest();
        let stalled = self.stalled.load(Relaxed);
        if stalled != u64::MAX {
            match self.limits.write.checked_sub(elapsed(stalled)) {
                None | Some(Duration::ZERO) => return Verdict::Close("it does not read what is written to it"),
                Some(left) => next = next.min(left),
            }
        }
        let of_known = |limit: Duration| match self.known.load(Relaxed) {
            true => limit,
            false => limit.min(self.limits.stranger),
        };
        let (limit, verdict) = match self.phase.load(Relaxed) {
            IDLE if stalled == u64::MAX => (of_known(self.limits.idle), Verdict::Close("it was silent for long")),
            HEAD => (of_known(self.limits.head), Verdict::Close("it takes too long to send the head of a request")),
            BODY if !self.is_late() => (self.limits.body, Verdict::Late(now + next)),
            _ => return Verdict::Fine(now + next),
        };
        match limit.checked_sub(elapsed(self.since.load(Relaxed))) {
            None | Some(Duration::ZERO) => {
                self.late.store(true, Relaxed);
                verdict
            }
            Some(left) => Verdict::Fine(now + next.min(left)),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1)
    }
}

/// A request is being served, until this is dropped.
pub(super) struct Busy(Arc<Pace>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.since.store(self.0.now(), Relaxed);
        self.0.phase.store(IDLE, Relaxed);
    }
}

/// A connection that is watched.
pub(super) struct Paced<T> {
    pub(super) io: T,
    pub(super) pace: Arc<Pace>,
}

impl<T> Paced<T> {
    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let stalled = self.pace.stalled.load(Relaxed);
        match (&result, stalled) {
            (Poll::Pending, u64::MAX) => self.pace.stalled.store(self.pace.now(), Relaxed),
            (Poll::Ready(_), since) if since != u64::MAX => {
                self.pace.stalled.store(u64::MAX, Relaxed);
                // Who still reads the last answer is not silent.
                self.pace.since.fetch_max(self.pace.now(), Relaxed);
            }
            _ => {}
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        if result.is_ready() && self.pace.phase.load(Relaxed) == IDLE {
            self.pace.since.store(self.pace.now(), Relaxed);
            self.pace.phase.store(HEAD, Relaxed);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[derive(Debug)]
struct Patience {
    idle: Duration,
    head: Duration,
    body: Duration,
    write: Duration,
    stranger: Duration,
}

impl Patience {
    /// Whoever looks at the clock so often misses nothing: no phase is shorter.
    fn shortest(&self) -> Duration {
        self.idle.min(self.head).min(self.body).min(self.write).min(self.stranger)
    }
}

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BODY: u8 = 2;
const WORK: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_limit() {
        let seconds = Duration::from_secs;
        let limits = Limits {
            idle_timeout: seconds(100),
            header_timeout: seconds(10),
            body_timeout: seconds(20),
            write_timeout: seconds(30),
            stranger_timeout: seconds(7),
            ..Limits::default()
        };
        let stranger = Pace::new(&limits);
        assert_eq!(stranger.check(stranger.start + seconds(6)), Verdict::Fine(stranger.start + seconds(7)));
        assert!(matches!(stranger.check(stranger.start + seconds(7)), Verdict::Close(_)));
        drop(stranger.begin());
        assert!(matches!(stranger.check(stranger.start + seconds(8)), Verdict::Close(_)));
        let limits = Limits { stranger_timeout: seconds(10), ..limits };
        let pace = Pace::new(&limits);
        pace.know();
        let at = |after| pace.start + seconds(after);
        assert_eq!(pace.check(at(9)), Verdict::Fine(at(10)));
        assert!(matches!(pace.check(at(10)), Verdict::Close(_)));
        let busy = pace.begin();
        assert_eq!(pace.check(at(10)), Verdict::Fine(at(20)));
        assert_eq!(pace.check(at(25)), Verdict::Fine(at(30)));
        assert!(!pace.is_late());
        assert_eq!(pace.check(at(30)), Verdict::Late(at(40)));
        assert!(pace.is_late());
        pace.work();
        assert_eq!(pace.check(at(1000)), Verdict::Fine(at(1010)));
        drop(busy);
        assert!(matches!(pace.check(at(5)), Verdict::Fine(_)));
        assert!(matches!(pace.check(at(101)), Verdict::Close(_)));
        drop(pace.begin());
        pace.stalled.store(seconds(50).as_nanos() as u64, Relaxed);
        assert!(matches!(pace.check(at(79)), Verdict::Fine(_)));
        assert!(matches!(pace.check(at(80)), Verdict::Close(_)));
    }
}
