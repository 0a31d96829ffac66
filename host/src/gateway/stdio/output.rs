//! Writes lines to the client, and tracks how much of them it has not read yet.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::gateway::client::{ClientSink, SinkError};
use crate::gateway::load::LoadLimiter;
use crate::json;
use crate::lock::lock;
use crate::transport::BoxFuture;

/// The output to the client.
pub(super) struct ClientOutput(Arc<OutputShared>);

/// The state that is shared with the writer task.
struct OutputShared {
    queue: Mutex<OutputQueue>,
    load: Arc<LoadLimiter>,
    /// Wakes the writer task.
    changed: Notify,
    /// Signals that the client has read something.
    drained: Notify,
}

/// The lines that wait to be written, each with its line break.
struct OutputQueue {
    /// The output stream, until it is closed.
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// No more lines are accepted.
    ended: bool,
    lines: VecDeque<String>,
    /// The bytes that are being written.
    batch: Vec<u8>,
    /// How many bytes of the batch are written.
    written: usize,
}

impl ClientOutput {
    /// Opens the output, and spawns the task that writes what cannot be written at once.
    pub(super) fn open(
        end: impl AsyncWrite + Unpin + Send + 'static,
        limiter: Arc<LoadLimiter>,
    ) -> (Arc<Self>, JoinHandle<io::Result<()>>) {
        let (lines, batch) = (VecDeque::new(), Vec::new());
        let queue = Mutex::new(OutputQueue { writer: Some(Box::new(end)), ended: false, lines, batch, written: 0 });
        let shared = Arc::new(OutputShared { queue, load: limiter, changed: Notify::new(), drained: Notify::new() });
        let writer = Arc::clone(&shared);
        (Arc::new(ClientOutput(shared)), tokio::spawn(async move { writer.write().await }))
    }

    /// Sends the response to a request, however much waits.
    pub(super) fn answer(&self, text: String) {
        // While other requests run, responses collect and are written together.
        self.push(text, self.0.load.is_idle());
    }

    /// Ends the output; lines that already wait are still written.
    pub(super) fn end(&self) {
        lock(&self.0.queue).ended = true;
        self.0.changed.notify_one();
    }

    /// Closes the output stream and drops the lines that wait.
    pub(super) fn close(&self) {
        lock(&self.0.queue).writer = None;
        self.end();
    }

    /// Reports whether so much waits to be read that optional messages must not be added.
    pub(super) fn is_behind(&self) -> bool {
        self.0.load.events.is_behind()
    }

    /// Waits until the client has read something.
    pub(super) async fn wait_for_reader(&self) {
        self.0.drained.notified().await;
    }

    /// Queues a line, or writes it at once if `now` is set and nothing waits; returns false if the output has ended.
    fn push(&self, text: String, now: bool) -> bool {
        let line = json::line(text);
        let shared = &*self.0;
        let mut queue = lock(&shared.queue);
        if queue.ended {
            return false;
        }
        // If something waits already, the writer task waits for the stream, and nothing may overtake it.
        let now = now && queue.is_empty();
        shared.load.events.add(None, line.len());
        queue.lines.push_back(line);
        let mut nobody = Context::from_waker(Waker::noop());
        let written = now && matches!(shared.drain(&mut queue, &mut nobody), Poll::Ready(Ok(())));
        drop(queue);
        if !written {
            shared.changed.notify_one();
        }
        true
    }
}

impl Drop for ClientOutput {
    fn drop(&mut self) {
        self.end();
    }
}

impl ClientSink for ClientOutput {
    fn send(&self, text: String) -> Result<(), SinkError> {
        if self.is_behind() {
            self.0.load.events.request_room();
            return Err(SinkError::Full(text));
        }
        if self.push(text, false) { Ok(()) } else { Err(SinkError::Closed) }
    }

    fn wait_for_room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.load.events.wait_for_room())
    }
}

impl OutputShared {
    /// Writes lines as they come, until the output ends.
    async fn write(&self) -> io::Result<()> {
        loop {
            poll_fn(|context| self.drain(&mut lock(&self.queue), context)).await?;
            if lock(&self.queue).ended {
                return Ok(());
            }
            self.changed.notified().await;
        }
    }

    /// Writes everything that waits, in large batches.
    fn drain(&self, queue: &mut OutputQueue, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while queue.has_batch() {
            if let Err(error) = ready!(queue.poll_batch(context)) {
                queue.ended = true;
                return Poll::Ready(Err(error));
            }
            let behind = self.load.events.is_behind();
            self.load.events.subtract(None, std::mem::take(&mut queue.batch).len());
            if behind {
                self.drained.notify_one();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl OutputQueue {
    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.lines.is_empty()
    }

    /// Reports whether there is something to write, and builds the next batch if needed.
    fn has_batch(&mut self) -> bool {
        if !self.batch.is_empty() {
            return true;
        }
        let Some(line) = self.lines.pop_front() else { return false };
        (self.batch, self.written) = (line.into_bytes(), 0);
        while self.batch.len() < BATCH
            && let Some(line) = self.lines.pop_front()
        {
            self.batch.extend_from_slice(line.as_bytes());
        }
        true
    }

    /// Writes the rest of the batch.
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let OutputQueue { writer: Some(end), batch, written, .. } = self else {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        };
        while *written < batch.len() {
            match ready!(Pin::new(&mut *end).poll_write(context, &batch[*written..]))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        Pin::new(end).poll_flush(context)
    }
}

/// The size of a batch, which the last line may exceed.
const BATCH: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;
    use crate::gateway::client::Principal;
    use crate::gateway::limits::GatewayLimits;

    struct Client {
        output: Arc<ClientOutput>,
        writer: JoinHandle<io::Result<()>>,
        end: DuplexStream,
        load: Arc<LoadLimiter>,
    }

    impl Client {
        /// Creates a client whose pipe holds `room` unread bytes.
        fn new(room: usize) -> Self {
            let (ours, end) = duplex(room);
            let limiter = LoadLimiter::new(&GatewayLimits::default(), false);
            let (output, writer) = ClientOutput::open(ours, Arc::clone(&limiter));
            Client { output, writer, end, load: limiter }
        }

        /// Reads what is there before any task has run.
        fn read_now(&mut self) -> String {
            let mut bytes = [0; 100];
            let count = self.end.read(&mut bytes).now_or_never().map_or(0, Result::unwrap);
            String::from_utf8(bytes[..count].to_vec()).unwrap()
        }

        /// Reads everything up to the end.
        async fn read_all(&mut self) -> String {
            let mut all = String::new();
            self.end.read_to_string(&mut all).await.unwrap();
            all
        }
    }

    #[tokio::test]
    async fn the_answer_to_the_only_request_is_written_at_once_and_others_gather() {
        let mut client = Client::new(100);
        client.output.answer("first".to_owned());
        assert_eq!((client.read_now().as_str(), client.load.stats().event_bytes), ("first\n", 0));
        let principal = Arc::new(Principal::local());
        let slot = client.load.admit(&principal).unwrap();
        client.output.answer("second".to_owned());
        drop(slot);
        // A response that could be written at once must not overtake it.
        client.output.answer("third".to_owned());
        assert_eq!(client.read_now(), "");
        tokio::task::yield_now().await;
        assert_eq!((client.read_now().as_str(), client.load.stats().event_bytes), ("second\nthird\n", 0));
    }

    #[tokio::test]
    async fn what_a_client_does_not_take_yet_is_written_as_it_reads_on() {
        let mut client = Client::new(4);
        client.output.answer("an answer".to_owned());
        client.output.answer("é".repeat(BATCH));
        client.output.send("news".to_owned()).unwrap();
        assert_eq!(client.read_now(), "an a");
        assert!(client.load.stats().event_bytes > 2 * BATCH);
        client.output.end();
        assert!(matches!(client.output.send("too late".to_owned()), Err(SinkError::Closed)));
        let close = async {
            (&mut client.writer).await.unwrap().unwrap();
            client.output.close();
        };
        let mut all = String::new();
        let (read, ()) = tokio::join!(client.end.read_to_string(&mut all), close);
        read.unwrap();
        assert!(all == format!("nswer\n{}\nnews\n", "é".repeat(BATCH)));
        assert_eq!(client.load.stats().event_bytes, 0);
    }

    #[tokio::test]
    async fn who_writes_ends_where_nobody_reads_any_more() {
        let Client { output, writer, end, .. } = Client::new(100);
        drop(end);
        output.answer("for nobody".to_owned());
        assert_eq!(writer.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(matches!(output.send("more".to_owned()), Err(SinkError::Closed)));
    }

    #[tokio::test]
    async fn what_was_sent_is_written_where_nobody_can_send_any_more() {
        let mut client = Client::new(4);
        client.output.answer("the last".to_owned());
        client.output = Client::new(1).output;
        assert_eq!(client.read_all().await, "the last\n");
    }
}
