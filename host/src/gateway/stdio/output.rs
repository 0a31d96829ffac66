//! What is written to the client, and how much of it waits to be read.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::gateway::client::{Outlet, Unsent};
use crate::gateway::http::Load;
use crate::transport::BoxFuture;

/// The way to the client.
pub(super) struct Output {
    /// No line is the last.
    lines: mpsc::UnboundedSender<Option<String>>,
    load: Arc<Load>,
    /// Tells that the client has read on.
    read: Arc<Notify>,
}

impl Output {
    /// The way to a client at this end, and who writes.
    pub(super) fn open(
        end: impl AsyncWrite + Unpin + Send + 'static,
        load: Arc<Load>,
    ) -> (Arc<Self>, JoinHandle<io::Result<()>>) {
        let (lines, receiver) = mpsc::unbounded_channel();
        let read = Arc::new(Notify::new());
        let writer = tokio::spawn(write(receiver, end, Arc::clone(&load), Arc::clone(&read)));
        (Arc::new(Output { lines, load, read }), writer)
    }

    /// Sends the answer to a request, however much waits.
    pub(super) fn answer(&self, text: String) {
        self.push(text);
    }

    /// Nothing more will be sent.
    pub(super) fn end(&self) {
        let _ = self.lines.send(None);
    }

    /// Whether so much waits to be read that nothing is to be added which can be left out.
    pub(super) fn is_behind(&self) -> bool {
        self.load.is_behind()
    }

    /// Waits until the client has read something.
    pub(super) async fn read_on(&self) {
        self.read.notified().await;
    }

    fn push(&self, text: String) -> bool {
        let bytes = text.len();
        self.load.force_event(None, bytes);
        let sent = self.lines.send(Some(text)).is_ok();
        if !sent {
            self.load.forget_events(None, bytes);
        }
        sent
    }
}

impl Outlet for Output {
    fn send(&self, text: String) -> Result<(), Unsent> {
        if self.is_behind() {
            self.load.run_short();
            return Err(Unsent::Full(text));
        }
        if self.push(text) { Ok(()) } else { Err(Unsent::Gone) }
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.load.room())
    }
}

/// Writes lines as they come, up to the last; of what has come meanwhile, much is written at once.
async fn write(
    mut lines: mpsc::UnboundedReceiver<Option<String>>,
    mut end: impl AsyncWrite + Unpin,
    load: Arc<Load>,
    read: Arc<Notify>,
) -> io::Result<()> {
    let mut open = true;
    while let (true, Some(Some(line))) = (open, lines.recv().await) {
        let mut bytes = line.len();
        let mut batch = line.into_bytes();
        batch.push(b'\n');
        while let (true, Ok(line)) = (open && batch.len() < BATCH, lines.try_recv()) {
            match line {
                Some(line) => {
                    bytes += line.len();
                    batch.extend_from_slice(line.as_bytes());
                    batch.push(b'\n');
                }
                None => open = false,
            }
        }
        end.write_all(&batch).await?;
        end.flush().await?;
        let behind = load.is_behind();
        load.forget_events(None, bytes);
        if behind {
            read.notify_one();
        }
    }
    Ok(())
}

/// As much is written at once, and the rest of a line.
const BATCH: usize = 64 * 1024;
