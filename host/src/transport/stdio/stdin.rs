//! Writes lines to a server: directly if they fit into the pipe, otherwise by a task.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::unix::pipe;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::json;
use crate::lock::lock;

/// The standard input of a server.
pub(super) struct StdinWriter {
    queue: Mutex<WriteQueue>,
    /// One permit for each byte that may wait in the queue; senders wait here if it is full.
    room: Arc<Semaphore>,
    /// Notified when the queue changes.
    changed: Notify,
    /// Notified when the pipe breaks: the server has ended or closed its input.
    pub(super) broken: Notify,
}

/// The reason why a line was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The input is being closed on request.
    Closing,
    /// The pipe broke.
    Broken {
        /// Whether part of the line was written.
        partly_written: bool,
    },
}

/// The queue of lines; the first one is being written, so nobody else may write while there is one.
struct WriteQueue {
    pipe: Option<PipeWriter>,
    lines: VecDeque<QueuedLine>,
    closing: bool,
    /// The number of bytes written.
    written: u64,
    /// Whether the server had read nothing when the pipe broke.
    broken_unread: bool,
}

/// Reports whether a queued line was written.
type Outcome = oneshot::Receiver<Result<(), WriteError>>;

struct QueuedLine {
    bytes: Vec<u8>,
    written: usize,
    done: oneshot::Sender<Result<(), WriteError>>,
    /// Its part of the room.
    _room: Option<OwnedSemaphorePermit>,
}

impl StdinWriter {
    /// Wraps a non-blocking pipe.
    pub(super) fn new(pipe: PipeWriter) -> Self {
        StdinWriter {
            queue: Mutex::new(WriteQueue {
                pipe: Some(pipe),
                lines: VecDeque::new(),
                closing: false,
                written: 0,
                broken_unread: false,
            }),
            room: Arc::new(Semaphore::new(MOST_WAITING)),
            changed: Notify::new(),
            broken: Notify::new(),
        }
    }

    /// Writes a line and waits until it is written. If the future is dropped, the line is still written whole or not at
    /// all.
    pub(super) async fn write(&self, text: String) -> Result<(), WriteError> {
        let line = json::line(text).into_bytes();
        // A line longer than the whole queue takes all of it; the semaphore is never closed.
        let permits = line.len().min(MOST_WAITING) as u32;
        let room = self.room.clone().acquire_many_owned(permits).await.ok();
        match self.write_or_queue(line, room)? {
            Some(done) => done.await.unwrap_or(Err(WriteError::Broken { partly_written: true })),
            None => Ok(()),
        }
    }

    /// Writes queued lines as the pipe has room, until it is aborted.
    pub(super) async fn run(&self) {
        loop {
            self.changed.notified().await;
            if let Err(error) = self.drain().await {
                self.breaks(lock(&self.queue), &error);
            }
        }
    }

    /// Closes the input once the queue is written; new lines are rejected.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closing = true;
        queue.close_if_done();
    }

    /// Reports whether the server has read nothing. Linux still tells after the server's end; elsewhere this is false
    /// if anything was written.
    pub(super) fn is_unread(&self) -> bool {
        lock(&self.queue).is_unread()
    }

    /// Fails all queued lines and closes the pipe.
    pub(super) fn fail(&self) {
        lock(&self.queue).fail();
        // The task must release its copy of the pipe.
        self.changed.notify_one();
    }

    /// Writes a line if no other waits, and queues what does not fit into the pipe; returns what reports its end.
    fn write_or_queue(&self, line: Vec<u8>, room: Option<OwnedSemaphorePermit>) -> Result<Option<Outcome>, WriteError> {
        let mut queue = lock(&self.queue);
        if queue.closing {
            return Err(WriteError::Closing);
        }
        let Some(pipe) = &queue.pipe else { return Err(WriteError::Broken { partly_written: false }) };
        let mut written = 0;
        if queue.lines.is_empty() {
            match none_if_full((&*pipe).write(&line)) {
                Ok(count) => {
                    queue.written += count as u64;
                    if count == line.len() {
                        return Ok(None);
                    }
                    written = count;
                }
                Err(error) => {
                    self.breaks(queue, &error);
                    return Err(WriteError::Broken { partly_written: false });
                }
            }
        }
        let (done, outcome) = oneshot::channel();
        queue.lines.push_back(QueuedLine { bytes: line, written, done, _room: room });
        drop(queue);
        self.changed.notify_one();
        Ok(Some(outcome))
    }

    async fn drain(&self) -> io::Result<()> {
        let pipe = match &*lock(&self.queue) {
            WriteQueue { pipe: Some(pipe), lines, .. } if !lines.is_empty() => pipe.try_clone()?,
            _ => return Ok(()),
        };
        // Registered only while lines wait: otherwise each line that the server reads would wake the runtime.
        let pipe = pipe::Sender::from_owned_fd_unchecked(OwnedFd::from(pipe))?;
        while self.advance(&pipe)? {
            tokio::select! {
                ready = pipe.writable() => ready?,
                () = self.changed.notified() => {}
            }
        }
        Ok(())
    }

    /// Writes more of the first line; returns whether anything is left.
    fn advance(&self, pipe: &pipe::Sender) -> io::Result<bool> {
        let mut queue = lock(&self.queue);
        // Lines whose senders gave up before writing began are not sent.
        while queue.lines.front().is_some_and(|line| line.written == 0 && line.done.is_closed()) {
            queue.lines.pop_front();
            queue.close_if_done();
        }
        let Some(line) = queue.lines.front_mut() else { return Ok(false) };
        let count = none_if_full(pipe.try_write(&line.bytes[line.written..]))?;
        line.written += count;
        let is_done = line.written == line.bytes.len();
        queue.written += count as u64;
        if is_done && let Some(line) = queue.lines.pop_front() {
            // The sender may have stopped waiting.
            let _ = line.done.send(Ok(()));
            queue.close_if_done();
        }
        Ok(!queue.lines.is_empty())
    }

    fn breaks(&self, mut queue: MutexGuard<'_, WriteQueue>, error: &io::Error) {
        tracing::debug!(%error, "writing to the server's standard input failed");
        queue.fail();
        drop(queue);
        self.broken.notify_one();
    }
}

impl WriteQueue {
    fn close_if_done(&mut self) {
        if self.closing && self.lines.is_empty() {
            self.pipe = None;
        }
    }

    fn is_unread(&self) -> bool {
        let Some(pipe) = &self.pipe else { return self.broken_unread };
        // An error means that the system does not tell.
        rustix::io::ioctl_fionread(pipe).is_ok_and(|unread| unread == self.written)
    }

    fn fail(&mut self) {
        self.broken_unread = self.is_unread();
        self.pipe = None;
        for line in self.lines.drain(..) {
            let _ = line.done.send(Err(WriteError::Broken { partly_written: line.written > 0 }));
        }
    }
}

/// Treats a full pipe as zero bytes written, not as an error.
fn none_if_full(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        written => written,
    }
}

const MOST_WAITING: usize = 64 << 20;
