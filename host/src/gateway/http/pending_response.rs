//! A message that is being answered: as one response, or as a stream of events.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::channel::EventChannel;
use super::session::SessionGuard;
use crate::gateway::client::{GatewayResponse, ResponseFuture};
use crate::gateway::load::RequestSlot;

/// A message that is being answered; if dropped early, it continues in its session or, without one, is cancelled.
pub(super) struct PendingResponse {
    /// The work on the message, until it is answered.
    pub(super) future: Option<ResponseFuture>,
    pub(super) channel: Arc<EventChannel>,
    pub(super) session: Option<SessionGuard>,
    /// Whether the client gets an event id at the start of a stream, before any event.
    pub(super) is_primed: bool,
    /// Whether the session keeps the stream, so that the client can come back to it.
    pub(super) is_kept: bool,
    pub(super) slot: Option<RequestSlot>,
}

/// The form that a response takes.
pub(super) enum ResponseStart {
    /// The complete response, before which nothing was sent.
    Complete(Option<GatewayResponse>),
    /// A stream of events.
    Stream,
}

impl PendingResponse {
    /// Waits until the form of the response is known. After `quiet`, the response becomes a stream, so that no proxy
    /// takes the connection for dead; the client handler limits the total time.
    ///
    /// If `stream` is set, the response is a stream: at once within a session, otherwise once it is ready and its
    /// status is 200.
    pub(super) async fn begin(&mut self, quiet: Duration, stream: bool) -> ResponseStart {
        let at_once = stream && self.session.is_some();
        let streamed =
            |answer: &Option<GatewayResponse>| stream && answer.as_ref().is_some_and(|answer| answer.status == 200);
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        let beginning = poll_fn(|cx| {
            match self.poll(cx) {
                Poll::Ready(answer) if !self.channel.has_begun() && !streamed(&answer) => {
                    return Poll::Ready(ResponseStart::Complete(answer));
                }
                Poll::Ready(answer) => {
                    self.channel.finish(answer.map(|answer| answer.text));
                    return Poll::Ready(ResponseStart::Stream);
                }
                Poll::Pending => {}
            }
            if at_once || self.channel.poll_begun(cx).is_ready() {
                return Poll::Ready(ResponseStart::Stream);
            }
            timer.get_or_insert_with(|| Box::pin(sleep(quiet))).as_mut().poll(cx).map(|()| ResponseStart::Stream)
        });
        let beginning = beginning.await;
        if let (ResponseStart::Stream, Some(session)) = (&beginning, &self.session) {
            session.0.keep(self.channel.clone());
            self.is_kept = true;
        }
        beginning
    }

    /// Advances a call whose response is a stream; the result is the last event.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) {
        if self.future.is_some()
            && let Poll::Ready(answer) = self.poll(cx)
        {
            self.channel.finish(answer.map(|answer| answer.text));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<GatewayResponse>> {
        let work = self.future.as_mut().expect("it is not polled again after its answer");
        let answer = work.as_mut().poll(cx);
        if answer.is_ready() {
            self.future = None;
        }
        answer
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        let Some(work) = self.future.take() else { return };
        if let Some(session) = self.session.take() {
            if !(self.is_kept && (self.is_primed || self.channel.has_begun())) {
                // The client has no event id to reconnect with.
                self.channel.close();
            }
            session.continue_call(work, self.channel.clone(), self.slot.take());
        } else {
            self.channel.close();
        }
    }
}
