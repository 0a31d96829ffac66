//! The body of a response: empty, one text, or a stream of events.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use super::channel::{EventReader, encode, retry_hint};
use super::page_handler::PageEvent;
use super::pending_response::PendingResponse;
use crate::gateway::load::RequestSlot;
use crate::gateway::refusal::RequestRefusal;
use crate::transport::BoxFuture;

/// The body of a response.
pub(super) enum ResponseBody {
    Empty,
    Full(Bytes),
    Events(Box<EventStream>),
}

impl ResponseBody {
    /// Builds a response without a body.
    pub(super) fn empty(status: StatusCode) -> Response<Self> {
        let mut response = Response::new(ResponseBody::Empty);
        *response.status_mut() = status;
        response
    }

    /// Builds a response that is one JSON text.
    pub(super) fn json(self, status: StatusCode) -> Response<Self> {
        let mut response = Response::new(self);
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// Builds the response to a request that is refused; MCP clients read JSON-RPC, and clients of pages do not.
    pub(super) fn refusal(refusal: RequestRefusal, for_mcp: bool) -> Response<Self> {
        let text = if for_mcp { refusal.answer(None) } else { refusal.page_answer() };
        let mut response = ResponseBody::Full(Bytes::from(text)).json(refusal.status);
        response.headers_mut().extend(refusal.header);
        response
    }

    /// Creates a body of one text that holds its request slot until it is written.
    pub(super) fn tracked(text: String, slot: Option<RequestSlot>) -> Self {
        let Some(mut slot) = slot else { return ResponseBody::Full(Bytes::from(text)) };
        slot.replace(text.len());
        ResponseBody::Full(Bytes::from_owner(TrackedText { text, _slot: slot }))
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            ResponseBody::Empty => Poll::Ready(None),
            ResponseBody::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = ResponseBody::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            ResponseBody::Events(events) => events.poll_next(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Events(_) => SizeHint::default(),
        }
    }
}

/// A stream of events from one source, with a comment as keep-alive when the source is silent.
pub(super) struct EventStream {
    source: EventSource,
    /// Written before the first event.
    pub(super) opening: Option<Bytes>,
    /// The call that writes the events; polling the stream advances it.
    pub(super) pending: Option<PendingResponse>,
    /// Completes when the stream must end, which it does with a hint when to reconnect.
    pub(super) stopped: Option<BoxFuture<'static, ()>>,
    has_ended: bool,
    silence: Pin<Box<Sleep>>,
    keep_alive: Duration,
    /// Slots and guards that the stream holds until it ends.
    _held: Box<dyn Any + Send>,
}

/// The source of the events.
pub(super) enum EventSource {
    /// An MCP stream.
    Stream(EventReader),
    /// A page.
    Page(mpsc::Receiver<PageEvent>),
}

impl EventStream {
    /// Creates a stream that keeps what it `held` until it ends.
    pub(super) fn new(source: EventSource, keep_alive: Duration, held: impl Any + Send) -> Self {
        let silence = Box::pin(sleep(keep_alive));
        let (opening, pending, stopped) = (None, None, None);
        EventStream { source, opening, pending, stopped, has_ended: false, silence, keep_alive, _held: Box::new(held) }
    }

    /// Builds the response that carries the events.
    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::Events(Box::new(self)));
        let headers: &mut HeaderMap = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        // Without this header, nginx buffers the events.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(opening));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        let mut next = self.source.poll_next(cx);
        if let (Poll::Pending, Some(call)) = (&next, &mut self.pending) {
            call.advance(cx);
            next = self.source.poll_next(cx);
        }
        if let (Poll::Pending | Poll::Ready(None), Some(stopped)) = (&next, &mut self.stopped)
            && stopped.as_mut().poll(cx).is_ready()
        {
            self.has_ended = true;
            return Poll::Ready(Some(retry_hint()));
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

impl EventSource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            EventSource::Stream(reader) => reader.poll_next(cx),
            EventSource::Page(events) => {
                events.poll_recv(cx).map(|event| event.map(|event| encode(None, event.name.as_deref(), &event.data)))
            }
        }
    }
}

struct TrackedText {
    text: String,
    _slot: RequestSlot,
}

impl AsRef<[u8]> for TrackedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

const COMMENT: &[u8] = b": still here\n\n";
