//! The events of one stream: any task may write them, one connection at a time reads them, and a resumable stream
//! keeps them for a while so that the client can reconnect.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;

use super::event_id::{EventId, StreamId};
use crate::gateway::client::{ClientSink, SinkError};
use crate::gateway::load::{LoadLimiter, PrincipalUsage};
use crate::lock::lock;
use crate::transport::BoxFuture;

/// The queue of events of one stream.
pub(super) struct EventChannel {
    /// The id of the stream; a stream without one keeps no events after they are read.
    pub(super) id: Option<StreamId>,
    /// The most events that the stream holds.
    most: usize,
    load: Arc<LoadLimiter>,
    /// The usage of its principal, which the events count against.
    usage: Option<Arc<PrincipalUsage>>,
    state: Mutex<State>,
    /// Wakes writers that found the stream full when an event is read.
    room: Notify,
    /// Wakes who waits for the end of the stream.
    end: Notify,
}

impl EventChannel {
    /// Creates a stream. Events of a stream with an id have ids and are kept after they are read.
    pub(super) fn new(
        id: Option<StreamId>,
        most: usize,
        limiter: Arc<LoadLimiter>,
        usage: Option<Arc<PrincipalUsage>>,
    ) -> Arc<Self> {
        let state = Mutex::new(State { first: 1, next: 1, open: true, ..State::default() });
        Arc::new(EventChannel {
            id,
            most: most.max(1),
            load: limiter,
            usage,
            state,
            room: Notify::new(),
            end: Notify::new(),
        })
    }

    /// Creates another stream of the same session, whose events are kept and count against this usage.
    pub(super) fn sibling(&self, id: StreamId, usage: Option<Arc<PrincipalUsage>>) -> Arc<Self> {
        Self::new(Some(id), self.most, self.load.clone(), usage)
    }

    /// Reports whether any event has been sent.
    pub(super) fn has_begun(&self) -> bool {
        lock(&self.state).end() > 1
    }

    /// Reports whether the stream has ended.
    pub(super) fn is_over(&self) -> bool {
        !lock(&self.state).open
    }

    /// Polls for the first event.
    pub(super) fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.end() > 1 {
            return Poll::Ready(());
        }
        state.wait(cx);
        Poll::Pending
    }

    /// Reports whether the stream belongs to the principal with this usage.
    pub(super) fn is_of(&self, usage: Option<&PrincipalUsage>) -> bool {
        self.usage().map(std::ptr::from_ref) == usage.map(std::ptr::from_ref)
    }

    /// Reports whether the stream keeps events that have been read.
    pub(super) fn has_read_events(&self) -> bool {
        lock(&self.state).read > 0
    }

    /// Forgets read events, oldest first, until `enough` bytes are free, and returns the number of bytes freed.
    pub(super) fn forget_read(&self, enough: usize) -> usize {
        let (mut state, mut bytes) = (lock(&self.state), 0);
        while bytes < enough
            && let Some(forgotten) = self.forget(&mut state)
        {
            bytes += forgotten;
        }
        bytes
    }

    /// Sends the last event even if the stream is full, and ends the stream.
    pub(super) fn finish(&self, last: Option<String>) {
        if let Some(text) = last {
            // A closed stream has no client that waits for the response.
            let _ = self.push(&text, true);
        }
        let mut state = lock(&self.state);
        state.open = false;
        state.wake();
        self.notify_room(&mut state);
        self.end.notify_waiters();
    }

    /// Ends the stream.
    pub(super) fn close(&self) {
        self.finish(None);
    }

    /// Returns a reader that replaces the previous one and starts at the first unread event, or after event `after`.
    pub(super) fn attach(self: &Arc<Self>, after: Option<u64>) -> EventReader {
        let mut state = lock(&self.state);
        state.reader += 1;
        state.wake();
        if let Some(after) = after {
            state.next = after.saturating_add(1).clamp(state.first, state.end());
            let read = state.frames.iter().take(state.next_index()).map(Bytes::len).sum();
            self.note_read(&mut state, read);
        }
        EventReader { channel: self.clone(), turn: state.reader }
    }

    /// Reports whether the stream has ended and all events after `after` are forgotten.
    pub(super) fn has_forgotten(&self, after: u64) -> bool {
        let state = lock(&self.state);
        !state.open && state.frames.is_empty() && after.saturating_add(1) < state.first
    }

    /// Returns the first bytes of the stream: the retry time and, if `primed`, an event id without data.
    pub(super) fn opening(&self, primed: bool) -> Bytes {
        match &self.id {
            Some(id) if primed => {
                let last = id.event(lock(&self.state).next - 1);
                Bytes::from(format!("id: {last}\nretry: {RETRY}\ndata: \n\n"))
            }
            _ => retry_hint(),
        }
    }

    fn push(&self, text: &str, last: bool) -> Result<(), SinkError> {
        let mut forced = false;
        loop {
            let mut state = lock(&self.state);
            if !state.open {
                return Err(SinkError::Closed);
            }
            let frame = encode(self.id.as_ref().map(|id| id.event(state.end())), None, text);
            let crowded = |state: &State| {
                state.frames.len() >= self.most || (!state.frames.is_empty() && state.bytes + frame.len() > MOST_BYTES)
            };
            while crowded(&state) && self.forget(&mut state).is_some() {}
            if crowded(&state) && !last {
                state.refused = true;
                return Err(SinkError::Full(text.to_owned()));
            }
            if forced {
                self.load.events.add(self.usage(), frame.len());
            } else if let Err(full) = self.load.events.take(self.usage(), frame.len()) {
                // Other streams may forget events, but must not be locked while this one is.
                drop(state);
                let more = self.load.events.make_room(self.usage(), full, frame.len());
                if !more && self.forget(&mut lock(&self.state)).is_none() {
                    if !last {
                        lock(&self.state).refused = true;
                        self.load.events.request_room();
                        return Err(SinkError::Full(text.to_owned()));
                    }
                    forced = true;
                }
                continue;
            }
            state.bytes += frame.len();
            state.frames.push_back(frame);
            state.open = !last;
            state.wake();
            return Ok(());
        }
    }

    /// Forgets the oldest event if it has been read, and returns its size in bytes.
    fn forget(&self, state: &mut State) -> Option<usize> {
        if state.first >= state.next {
            return None;
        }
        let bytes = state.frames.pop_front()?.len();
        state.first += 1;
        state.bytes -= bytes;
        if self.id.is_some() {
            let read = state.read - bytes;
            self.note_read(state, read);
        }
        self.load.events.subtract(self.usage(), bytes);
        Some(bytes)
    }

    /// Records how many bytes of the kept events have been read.
    fn note_read(&self, state: &mut State, read: usize) {
        match read.checked_sub(state.read) {
            Some(0) => {}
            Some(more) => self.load.events.add_read(self.usage(), more),
            None => self.load.events.subtract_read(self.usage(), state.read - read),
        }
        state.read = read;
    }

    fn notify_room(&self, state: &mut State) {
        if std::mem::take(&mut state.refused) {
            self.room.notify_waiters();
        }
    }

    fn usage(&self) -> Option<&PrincipalUsage> {
        self.usage.as_deref()
    }
}

impl ClientSink for EventChannel {
    fn send(&self, text: String) -> Result<(), SinkError> {
        self.push(&text, false)
    }

    fn wait_for_room(&self) -> BoxFuture<'_, ()> {
        let (own, all) = (self.room.notified(), self.load.events.wait_for_room());
        Box::pin(async move {
            tokio::select! {
                () = own => {}
                () = all => {}
            }
        })
    }

    fn closed(&self) -> BoxFuture<'_, ()> {
        // From here on no notification is missed.
        let end = self.end.notified();
        Box::pin(async move {
            if !self.is_over() {
                end.await;
            }
        })
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        self.note_read(&mut state, 0);
        self.load.events.subtract(self.usage(), state.bytes);
    }
}

/// A sink that accepts nothing, for messages that expect no response and so have no stream.
pub(super) struct NullSink;

impl ClientSink for NullSink {
    fn send(&self, _: String) -> Result<(), SinkError> {
        Err(SinkError::Closed)
    }
}

/// The reader of a stream, until another reader replaces it.
pub(super) struct EventReader {
    channel: Arc<EventChannel>,
    turn: u64,
}

impl EventReader {
    /// Polls for the next encoded event; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = lock(&self.channel.state);
        if state.reader != self.turn {
            return Poll::Ready(None);
        }
        if let Some(frame) = state.frames.get(state.next_index()).cloned() {
            state.next += 1;
            if self.channel.id.is_some() {
                let read = state.read + frame.len();
                self.channel.note_read(&mut state, read);
            } else {
                self.channel.forget(&mut state);
            }
            self.channel.notify_room(&mut state);
            return Poll::Ready(Some(frame));
        }
        if !state.open {
            return Poll::Ready(None);
        }
        state.wait(cx);
        Poll::Pending
    }
}

/// Returns the bytes that tell a client when to reconnect.
pub(super) fn retry_hint() -> Bytes {
    Bytes::from(format!("retry: {RETRY}\n\n"))
}

/// Encodes one event as SSE.
pub(super) fn encode(id: Option<EventId<'_>>, name: Option<&str>, text: &str) -> Bytes {
    let mut frame = String::with_capacity(text.len() + 64);
    frame.push_str("event: ");
    frame.extend(name.unwrap_or("message").chars().filter(|letter| !letter.is_control()));
    if let Some(id) = id {
        write!(frame, "\nid: {id}").expect("a string takes everything");
    }
    // SSE needs one `data` line for each line of JSON.
    for line in text.split(['\n', '\r']).filter(|line| !line.is_empty()) {
        frame.push_str("\ndata: ");
        frame.push_str(line);
    }
    frame.push_str("\n\n");
    Bytes::from(frame)
}

#[derive(Default)]
struct State {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// How many of these bytes have been read; zero if the stream keeps no read events.
    read: usize,
    /// The number of the oldest event in `frames`; numbers start at 1.
    first: u64,
    /// The number of the next event to read.
    next: u64,
    open: bool,
    /// An event was refused because the stream was full.
    refused: bool,
    /// The number of the current reader.
    reader: u64,
    waker: Option<Waker>,
}

impl State {
    /// Returns the number that the next new event gets.
    fn end(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// Returns the index in `frames` of the next event to read.
    fn next_index(&self) -> usize {
        usize::try_from(self.next - self.first).expect("as many as there are frames at most")
    }

    fn wait(&mut self, cx: &mut Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// How long a client waits before it reconnects, in milliseconds.
const RETRY: u64 = 1000;
/// The most bytes that one stream holds, unless a single event is larger.
const MOST_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::limits::GatewayLimits;
    use crate::gateway::replica::ReplicaId;

    fn stream(number: u64) -> StreamId {
        StreamId::new(ReplicaId::draw(), number, None)
    }

    fn load(max_event_bytes: usize) -> Arc<LoadLimiter> {
        let mut limits = GatewayLimits::default();
        limits.streams.max_event_bytes = max_event_bytes;
        LoadLimiter::new(&limits, false)
    }

    fn read(reader: &mut EventReader) -> Vec<String> {
        let mut cx = Context::from_waker(Waker::noop());
        let next = || match reader.poll_next(&mut cx) {
            Poll::Ready(Some(frame)) => Some(String::from_utf8(frame.to_vec()).unwrap()),
            Poll::Ready(None) => None,
            Poll::Pending => None,
        };
        std::iter::from_fn(next).map(|frame| frame.split("data: ").nth(1).unwrap().trim().to_owned()).collect()
    }

    #[test]
    fn events_after_an_id_are_read_again_and_the_oldest_are_forgotten() {
        let channel = EventChannel::new(Some(stream(7)), 3, load(1 << 20), None);
        let mut reader = channel.attach(None);
        for number in 1..=5 {
            assert!(channel.send(number.to_string()).is_ok());
            assert_eq!(read(&mut reader), [number.to_string()]);
        }
        assert_eq!(read(&mut channel.attach(Some(4))), ["5"]);
        assert_eq!(read(&mut channel.attach(Some(1))), ["3", "4", "5"]);
        assert_eq!(read(&mut channel.attach(Some(99))), [""; 0]);
        assert_eq!(read(&mut channel.attach(None)), [""; 0]);
    }

    #[test]
    fn what_was_not_read_is_never_forgotten_so_more_is_refused() {
        let channel = EventChannel::new(Some(stream(0)), 2, load(1 << 20), None);
        assert!(channel.send("a".to_owned()).is_ok() && channel.send("b".to_owned()).is_ok());
        assert_eq!(channel.send("c".to_owned()), Err(SinkError::Full("c".to_owned())));
        channel.finish(Some("the answer".to_owned()));
        assert_eq!(channel.send("d".to_owned()), Err(SinkError::Closed));
        assert_eq!(read(&mut channel.attach(None)), ["a", "b", "the answer"]);
    }

    #[test]
    fn who_found_no_room_is_told_when_something_is_read() {
        let mut cx = Context::from_waker(Waker::noop());
        let (own, all) = (
            EventChannel::new(Some(stream(0)), 1, load(1 << 20), None),
            EventChannel::new(Some(stream(0)), 9, load(150), None),
        );
        for channel in [own, all] {
            assert!(channel.send("x".repeat(100)).is_ok());
            let mut room = channel.wait_for_room();
            assert!(channel.send("y".repeat(100)).is_err());
            assert!(room.as_mut().poll(&mut cx).is_pending());
            assert_eq!(read(&mut channel.attach(None)).len(), 1);
            assert!(room.as_mut().poll(&mut cx).is_ready());
            assert!(channel.send("y".repeat(100)).is_ok());
        }
    }

    #[test]
    fn a_new_reader_takes_the_place_of_the_old_one() {
        let channel = EventChannel::new(Some(stream(0)), 9, load(1 << 20), None);
        let mut old = channel.attach(None);
        let mut new = channel.attach(None);
        assert!(channel.send("a".to_owned()).is_ok());
        assert!(matches!(old.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
        assert_eq!(read(&mut new), ["a"]);
    }

    #[test]
    fn all_streams_share_the_room_for_events_and_give_it_back() {
        let limiter = load(200);
        let passing = EventChannel::new(None, 9, limiter.clone(), None);
        let kept = EventChannel::new(Some(stream(1)), 9, limiter.clone(), None);
        assert!(passing.send("x".repeat(100)).is_ok());
        assert!(kept.send("y".repeat(100)).is_err());
        assert_eq!(read(&mut passing.attach(None)).len(), 1);
        assert_eq!(limiter.stats().event_bytes, 0);
        assert!(kept.send("y".repeat(100)).is_ok());
        assert_eq!(read(&mut kept.attach(None)).len(), 1);
        assert!(limiter.stats().event_bytes > 0);
        // A read event makes room.
        assert!(kept.send("z".repeat(100)).is_ok());
        drop((passing, kept));
        assert_eq!(limiter.stats().event_bytes, 0);
    }

    #[test]
    fn an_event_is_written_on_as_many_lines_as_its_text_has() {
        assert_eq!(encode(None, None, "{}"), "event: message\ndata: {}\n\n");
        let stream = stream(3);
        assert_eq!(
            encode(Some(stream.event(17)), Some("a\nb"), "{\r\n \"a\":1}"),
            format!("event: ab\nid: {}-3-17\ndata: {{\ndata:  \"a\":1}}\n\n", stream.replica)
        );
    }
}
