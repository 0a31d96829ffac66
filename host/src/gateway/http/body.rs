//! The content of an answer: nothing, one text, or events for as long as there are any.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use super::call::Call;
use super::channel::{Reader, encode};
use super::load::{Seat, Slot};
use super::pace::Busy;
use super::pages::PageEvent;
use super::places::Telling;
use super::session::InUse;
use crate::transport::BoxFuture;

/// The content of an answer.
pub(super) enum Body {
    Empty,
    Full(Bytes),
    Events(Box<Events>),
}

impl Body {
    /// A text that holds its slot until it is written.
    pub(super) fn held(text: String, slot: Option<Slot>) -> Self {
        let Some(mut slot) = slot else { return Body::Full(Bytes::from(text)) };
        slot.replace(text.len());
        Body::Full(Bytes::from_owner(Held { text, _slot: slot }))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Empty => Poll::Ready(None),
            Body::Full(_) => {
                let Body::Full(bytes) = std::mem::replace(&mut *self, Body::Empty) else { unreachable!("just seen") };
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Body::Events(events) => events.poll_next(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Events(_) => SizeHint::default(),
        }
    }
}

/// Events from one place, with a comment where it is silent for long.
pub(super) struct Events {
    source: Source,
    /// Written before the first event.
    opening: Option<Bytes>,
    /// What writes the events; it goes on when this is polled.
    call: Option<Call>,
    /// Ends the stream.
    stopped: Option<BoxFuture<'static, ()>>,
    silence: Pin<Box<Sleep>>,
    keep_alive: Duration,
    /// Who uses the session while the stream is open.
    _session: Option<InUse>,
    /// The place of one who listens without a session.
    _seat: Option<Seat>,
    /// The connection only tells news.
    _telling: Option<Telling>,
    /// The connection waits for us, not for the client.
    _busy: Busy,
}

/// Where events come from.
pub(super) enum Source {
    /// A stream of MCP.
    Stream(Reader),
    /// A page.
    Page(mpsc::Receiver<PageEvent>),
}

impl Events {
    pub(super) fn new(source: Source, keep_alive: Duration, busy: Busy) -> Self {
        Events {
            source,
            opening: None,
            call: None,
            stopped: None,
            silence: Box::pin(sleep(keep_alive)),
            keep_alive,
            _session: None,
            _seat: None,
            _telling: None,
            _busy: busy,
        }
    }

    pub(super) fn opening(mut self, opening: Bytes) -> Self {
        self.opening = Some(opening);
        self
    }

    pub(super) fn call(mut self, call: Call) -> Self {
        self.call = Some(call);
        self
    }

    pub(super) fn until(mut self, stopped: BoxFuture<'static, ()>) -> Self {
        self.stopped = Some(stopped);
        self
    }

    pub(super) fn using(mut self, session: InUse) -> Self {
        self._session = Some(session);
        self
    }

    pub(super) fn sitting(mut self, seat: Seat) -> Self {
        self._seat = Some(seat);
        self
    }

    pub(super) fn telling(mut self, telling: Telling) -> Self {
        self._telling = Some(telling);
        self
    }

    /// The answer that carries them.
    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::Events(Box::new(self)));
        let headers: &mut HeaderMap = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        // Otherwise nginx keeps the events until there are many.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(opening));
        }
        let mut next = self.source.poll_next(cx);
        if let (Poll::Pending, Some(call)) = (&next, &mut self.call) {
            call.advance(cx);
            next = self.source.poll_next(cx);
        }
        if let (Poll::Pending, Some(stopped)) = (&next, &mut self.stopped)
            && stopped.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        if next.is_pending() && self.silence.as_mut().poll(cx).is_ready() {
            next = Poll::Ready(Some(Bytes::from_static(COMMENT)));
        }
        if let Poll::Ready(Some(_)) = &next {
            self.silence.as_mut().reset(Instant::now() + self.keep_alive);
        }
        next
    }
}

impl Source {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Source::Stream(reader) => reader.poll_next(cx),
            Source::Page(events) => {
                events.poll_recv(cx).map(|event| event.map(|event| encode(None, event.name.as_deref(), &event.data)))
            }
        }
    }
}

struct Held {
    text: String,
    _slot: Slot,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

const COMMENT: &[u8] = b": still here\n\n";
