//! Time limits for each phase of a connection. One timer covers all phases, and a request reads the clock only twice.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::gateway::limits::ConnectionTimeouts;

/// The current phase of a connection and when it began.
#[derive(Debug)]
pub(super) struct ConnectionTimer {
    start: Instant,
    limits: ConnectionTimeouts,
    phase: AtomicU8,
    /// When the phase began, in nanoseconds after the start.
    since: AtomicU64,
    /// When the client stopped reading, in nanoseconds after the start; `u64::MAX` while it reads.
    stalled: AtomicU64,
    /// The body of the request is late; the code that reads the body refuses the request.
    body_late: AtomicBool,
    /// A request has identified its client; until then, a shorter limit applies.
    identified: AtomicBool,
}

impl ConnectionTimer {
    pub(super) fn new(limits: &ConnectionTimeouts) -> Arc<Self> {
        Arc::new(ConnectionTimer {
            start: Instant::now(),
            limits: limits.clone(),
            phase: AtomicU8::new(NEW),
            since: AtomicU64::new(0),
            stalled: AtomicU64::new(u64::MAX),
            body_late: AtomicBool::new(false),
            identified: AtomicBool::new(false),
        })
    }

    /// Starts the body phase, after the head of a request has been read.
    pub(super) fn start_request(self: &Arc<Self>) -> BusyGuard {
        self.body_late.store(false, Relaxed);
        self.phase.store(BODY, Relaxed);
        BusyGuard(self.clone())
    }

    /// Ends the body phase; from now on the client waits for the gateway.
    pub(super) fn mark_body_read(&self) {
        self.phase.store(WORK, Relaxed);
    }

    /// Records that a request has identified its client.
    pub(super) fn mark_identified(&self) {
        self.identified.store(true, Relaxed);
    }

    /// Reports whether the connection serves no request: the client is silent or sends a head.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase.load(Relaxed), IDLE | NEW | HEAD)
    }

    /// Reports whether the client has sent nothing yet.
    pub(super) fn is_new(&self) -> bool {
        self.phase.load(Relaxed) == NEW
    }

    /// Reports whether the client has sent a part of a head.
    pub(super) fn is_in_head(&self) -> bool {
        self.phase.load(Relaxed) == HEAD
    }

    pub(super) fn is_body_late(&self) -> bool {
        self.body_late.load(Relaxed)
    }

    /// Compares the current phase with its limit; returns when to check again, or why to close the connection.
    pub(super) fn check(&self, now: Instant) -> Result<Instant, &'static str> {
        let elapsed = |since: u64| now.saturating_duration_since(self.start + Duration::from_nanos(since));
        let ConnectionTimeouts { idle, unidentified, header, body, write, .. } = self.limits;
        // The phase began with the head.
        let body = header.saturating_add(body);
        // The timer must be checked as often as the shortest limit.
        let mut next = idle.min(header).min(body).min(write).min(unidentified);
        let stalled = self.stalled.load(Relaxed);
        if stalled != u64::MAX {
            match write.checked_sub(elapsed(stalled)) {
                None | Some(Duration::ZERO) => return Err("the client does not read the response"),
                Some(left) => next = next.min(left),
            }
        }
        let of_known = |limit: Duration| match self.identified.load(Relaxed) {
            true => limit,
            false => limit.min(unidentified),
        };
        let (limit, verdict) = match self.phase.load(Relaxed) {
            IDLE if stalled == u64::MAX => (of_known(idle), Err("idle for too long")),
            NEW | HEAD => (of_known(header), Err("the client takes too long to send a request head")),
            BODY if !self.is_body_late() => (body, Ok(now + next)),
            _ => return Ok(now + next),
        };
        match limit.checked_sub(elapsed(self.since.load(Relaxed))) {
            None | Some(Duration::ZERO) => {
                self.body_late.store(true, Relaxed);
                verdict
            }
            Some(left) => Ok(now + next.min(left)),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1)
    }
}

/// A guard that marks the connection as serving a request until it is dropped.
pub(super) struct BusyGuard(Arc<ConnectionTimer>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.since.store(self.0.now(), Relaxed);
        self.0.phase.store(IDLE, Relaxed);
    }
}

/// A stream that reports reads and writes to the connection's timer.
pub(super) struct TimedStream<T> {
    pub(super) io: T,
    pub(super) timer: Arc<ConnectionTimer>,
}

impl<T> TimedStream<T> {
    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let stalled = self.timer.stalled.load(Relaxed);
        match (&result, stalled) {
            (Poll::Pending, u64::MAX) => self.timer.stalled.store(self.timer.now(), Relaxed),
            (Poll::Ready(_), since) if since != u64::MAX => {
                self.timer.stalled.store(u64::MAX, Relaxed);
                // A client that still reads the last response is not idle.
                self.timer.since.fetch_max(self.timer.now(), Relaxed);
            }
            _ => {}
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedStream<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        match self.timer.phase.load(Relaxed) {
            IDLE if result.is_ready() => {
                self.timer.since.store(self.timer.now(), Relaxed);
                self.timer.phase.store(HEAD, Relaxed);
            }
            // A new connection should send a request at once, so its head began with it.
            NEW if result.is_ready() => self.timer.phase.store(HEAD, Relaxed),
            _ => {}
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedStream<T> {
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

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BODY: u8 = 2;
const WORK: u8 = 3;
const NEW: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_limit() {
        let seconds = Duration::from_secs;
        let limits = ConnectionTimeouts {
            idle: seconds(100),
            header: seconds(10),
            body: seconds(20),
            write: seconds(30),
            unidentified: seconds(7),
            ..ConnectionTimeouts::default()
        };
        let stranger = ConnectionTimer::new(&limits);
        assert_eq!(stranger.check(stranger.start + seconds(6)), Ok(stranger.start + seconds(7)));
        assert!(stranger.check(stranger.start + seconds(7)).is_err());
        drop(stranger.start_request());
        assert!(stranger.check(stranger.start + seconds(8)).is_err());
        let limits = ConnectionTimeouts { unidentified: seconds(10), ..limits };
        let timer = ConnectionTimer::new(&limits);
        timer.mark_identified();
        let at = |after| timer.start + seconds(after);
        assert_eq!(timer.check(at(9)), Ok(at(10)));
        assert!(timer.check(at(10)).is_err());
        let busy = timer.start_request();
        assert_eq!(timer.check(at(10)), Ok(at(20)));
        assert_eq!(timer.check(at(25)), Ok(at(30)));
        assert!(!timer.is_body_late());
        assert_eq!(timer.check(at(30)), Ok(at(40)));
        assert!(timer.is_body_late());
        timer.mark_body_read();
        assert_eq!(timer.check(at(1000)), Ok(at(1010)));
        drop(busy);
        assert!(timer.check(at(5)).is_ok());
        assert!(timer.check(at(101)).is_err());
        drop(timer.start_request());
        timer.stalled.store(seconds(50).as_nanos() as u64, Relaxed);
        assert!(timer.check(at(79)).is_ok());
        assert!(timer.check(at(80)).is_err());
    }
}
