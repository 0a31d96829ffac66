//! Reads lines from a server: messages go to the receiver, other lines become warnings.

use std::mem;
use std::sync::Arc;

use memchr::memchr;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::excerpt;
use crate::config::secrets::Secrets;
use crate::transport::connection::Receive;
use crate::transport::endpoint::Program;

/// The standard output of a server.
pub(super) struct StdoutReader {
    pipe: pipe::Receiver,
    /// Bytes that are not a complete line yet.
    buffer: Vec<u8>,
    limit: usize,
    secrets: Secrets,
    /// The receiver; `None` once it was told that the connection is over.
    receiver: Option<Arc<dyn Receive>>,
    warnings: u32,
}

/// The reason why no more lines come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputEnd {
    /// The output was closed.
    Closed,
    /// A line exceeds this limit.
    TooLong(usize),
}

impl StdoutReader {
    pub(super) fn new(pipe: pipe::Receiver, program: &Program, receiver: Arc<dyn Receive>) -> Self {
        let Program { max_message_bytes: limit, secrets, .. } = program;
        let (limit, secrets) = (*limit, secrets.clone());
        StdoutReader { pipe, buffer: Vec::new(), limit, secrets, receiver: Some(receiver), warnings: 0 }
    }

    /// Reads until no more lines come. It can be cancelled at any time and called again without losing a byte.
    pub(super) async fn read(&mut self) -> OutputEnd {
        loop {
            self.buffer.reserve(READ);
            let searched = self.buffer.len();
            let count = match self.pipe.read_buf(&mut self.buffer).await {
                Ok(count) => count,
                Err(error) => {
                    tracing::debug!(%error, "reading the server's standard output failed");
                    0
                }
            };
            if count == 0 {
                self.deliver_last();
                return OutputEnd::Closed;
            }
            if let Err(end) = self.split(searched) {
                return end;
            }
            if count == READ {
                // A server that writes without end must not delay timers and signals.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Discards further output, which is still read so that the server can go on and end.
    pub(super) fn discard_output(&mut self) {
        self.receiver = None;
    }

    /// Delivers all complete lines; there is no line end before `searched`.
    fn split(&mut self, mut searched: usize) -> Result<(), OutputEnd> {
        let mut start = 0;
        while let Some(ahead) = memchr(b'\n', &self.buffer[searched..]) {
            let end = searched + ahead;
            if end - start > self.limit {
                return Err(OutputEnd::TooLong(self.limit));
            }
            self.deliver(self.buffer[start..end].to_vec());
            searched = end + 1;
            start = searched;
        }
        self.buffer.drain(..start);
        if start > READ {
            // Free the space of a long line, so that an idle connection does not keep it.
            self.buffer.shrink_to(READ);
        }
        if self.buffer.len() > self.limit { Err(OutputEnd::TooLong(self.limit)) } else { Ok(()) }
    }

    /// Delivers a last line without a line end only if it is complete: if the server died while writing it, its exit
    /// says more than half a message.
    fn deliver_last(&mut self) {
        let last = mem::take(&mut self.buffer);
        let begun = matches!(last.trim_ascii_start().first(), Some(b'{' | b'['));
        if begun && serde_json::from_slice::<serde::de::IgnoredAny>(&last).is_err() {
            let line = excerpt::of(&last, SHOWN, &self.secrets);
            return self.warn(|| tracing::warn!(line, "standard output ended in the middle of a message"));
        }
        self.deliver(last);
    }

    fn deliver(&mut self, mut line: Vec<u8>) {
        let Some(receiver) = self.receiver.clone() else { return };
        line.truncate(line.trim_ascii_end().len());
        // Some runtimes start their output with a byte order mark.
        if line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        match line.trim_ascii_start().first() {
            None => return,
            Some(b'{' | b'[') => {}
            Some(_) => {
                let line = excerpt::of(&line, SHOWN, &self.secrets);
                return self.warn(|| tracing::warn!(line, "skipped a line of standard output that is not a message"));
            }
        }
        let text = String::from_utf8(line).unwrap_or_else(|error| {
            let line = excerpt::of(error.as_bytes(), SHOWN, &self.secrets);
            self.warn(|| tracing::warn!(line, "replaced invalid UTF-8 in a message"));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        receiver.receive(text.into(), None);
    }

    /// Logs a warning; a server that is noisy for days must not fill the log.
    fn warn(&mut self, warn: impl FnOnce()) {
        self.warnings = self.warnings.saturating_add(1);
        if self.warnings <= MOST_WARNINGS {
            warn();
        } else if self.warnings == MOST_WARNINGS + 1 {
            tracing::warn!("further such lines of this connection are not logged");
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const READ: usize = 64 * 1024;
const SHOWN: usize = 200;
const MOST_WARNINGS: u32 = 20;
