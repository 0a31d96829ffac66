//! One message on its way through the client behind the door.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::channel::Channel;
use super::load::Slot;
use super::session::InUse;
use crate::gateway::client::Answer;
use crate::transport::BoxFuture;

/// What the client behind the door does with a message.
pub(super) type Work = BoxFuture<'static, Option<Answer>>;

/// A message that is being answered. Dropped before it is, it is cancelled, or goes on within its session.
pub(super) struct Call {
    work: Option<Work>,
    channel: Arc<Channel>,
    session: Option<InUse>,
    slot: Option<Slot>,
}

/// How an answer begins.
pub(super) enum Beginning {
    /// With the answer itself; nothing was sent before it.
    Answer(Option<Answer>),
    /// With other messages, so that it is a stream.
    Stream,
}

impl Call {
    pub(super) fn new(work: Work, channel: Arc<Channel>, session: Option<InUse>, slot: Slot) -> Self {
        Call { work: Some(work), channel, session, slot: Some(slot) }
    }

    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    pub(super) fn slot(&mut self) -> Option<Slot> {
        self.slot.take()
    }

    /// Waits for how the answer begins. One that is not there after `quiet` becomes a stream, so that nobody on the
    /// way takes the connection for dead; how long the whole may take is for the client behind the door to say.
    ///
    /// Where a stream is wanted, an answer becomes one: within a session at once, else when it is there and is no
    /// refusal, which has a status.
    pub(super) async fn begin(&mut self, quiet: Duration, stream: bool) -> Beginning {
        let at_once = stream && self.session.is_some();
        let streamed = |answer: &Option<Answer>| stream && answer.as_ref().is_some_and(|answer| answer.status == 200);
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        let beginning = poll_fn(|cx| {
            match self.poll(cx) {
                Poll::Ready(answer) if !self.channel.has_begun() && !streamed(&answer) => {
                    return Poll::Ready(Beginning::Answer(answer));
                }
                Poll::Ready(answer) => {
                    self.channel.finish(answer.map(|answer| answer.text));
                    return Poll::Ready(Beginning::Stream);
                }
                Poll::Pending => {}
            }
            if at_once || self.channel.poll_begun(cx).is_ready() {
                return Poll::Ready(Beginning::Stream);
            }
            timer.get_or_insert_with(|| Box::pin(sleep(quiet))).as_mut().poll(cx).map(|()| Beginning::Stream)
        });
        let beginning = beginning.await;
        if let (Beginning::Stream, Some(session)) = (&beginning, &self.session) {
            session.session().keep(self.channel.clone());
        }
        beginning
    }

    /// Goes on with a call that has become a stream; its answer is the last event.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) {
        if self.work.is_some()
            && let Poll::Ready(answer) = self.poll(cx)
        {
            self.channel.finish(answer.map(|answer| answer.text));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let work = self.work.as_mut().expect("it is not polled again after its answer");
        let answer = work.as_mut().poll(cx);
        if answer.is_ready() {
            self.work = None;
        }
        answer
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        if let Some(session) = self.session.take() {
            if !self.channel.has_begun() {
                // Nobody knows an id to come back with.
                self.channel.close();
            }
            session.adopt(work, self.channel.clone(), self.slot.take());
        } else {
            self.channel.close();
        }
    }
}
