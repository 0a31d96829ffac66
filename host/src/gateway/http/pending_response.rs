//! One message on its way through the client behind the door.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::channel::EventChannel;
use super::load::RequestSlot;
use super::session::SessionGuard;
use crate::gateway::client::GatewayResponse;
use crate::transport::BoxFuture;

/// What the client behind the door does with a message.
pub(super) type ResponseFuture = BoxFuture<'static, Option<GatewayResponse>>;

/// A message that is being answered. Dropped before it is, it is cancelled, or goes on within its session.
pub(super) struct PendingResponse {
    future: Option<ResponseFuture>,
    channel: Arc<EventChannel>,
    session: Option<SessionGuard>,
    slot: Option<RequestSlot>,
}

/// How an answer begins.
pub(super) enum ResponseStart {
    /// With the answer itself; nothing was sent before it.
    Complete(Option<GatewayResponse>),
    /// With other messages, so that it is a stream.
    Stream,
}

impl PendingResponse {
    pub(super) fn new(
        work: ResponseFuture,
        channel: Arc<EventChannel>,
        session: Option<SessionGuard>,
        slot: RequestSlot,
    ) -> Self {
        PendingResponse { future: Some(work), channel, session, slot: Some(slot) }
    }

    pub(super) fn channel(&self) -> &Arc<EventChannel> {
        &self.channel
    }

    pub(super) fn take_slot(&mut self) -> Option<RequestSlot> {
        self.slot.take()
    }

    /// Waits for how the answer begins. One that is not there after `quiet` becomes a stream, so that nobody on the
    /// way takes the connection for dead; how long the whole may take is for the client behind the door to say.
    ///
    /// Where a stream is wanted, an answer becomes one: within a session at once, else when it is there and is no
    /// refusal, which has a status.
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
            session.session().keep(self.channel.clone());
        }
        beginning
    }

    /// Goes on with a call that has become a stream; its answer is the last event.
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
            if !self.channel.has_begun() {
                // Nobody knows an id to come back with.
                self.channel.close();
            }
            session.continue_call(work, self.channel.clone(), self.slot.take());
        } else {
            self.channel.close();
        }
    }
}
