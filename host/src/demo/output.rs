//! The demo server's output: one line for each answer, or one for a whole batch.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The output, shared by the reading loop and the sleeps.
#[derive(Clone)]
pub(super) struct DemoOutput(Arc<Mutex<dyn Write + Send>>);

impl DemoOutput {
    pub(super) fn new(output: impl Write + Send + 'static) -> DemoOutput {
        DemoOutput(Arc::new(Mutex::new(output)))
    }

    /// Writes one complete line.
    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(format!("{text}\n").as_bytes())?;
        output.flush()
    }
}

/// Where the answer to one request goes.
#[derive(Clone)]
pub(super) enum ReplyTarget {
    /// The output, at once.
    Line(DemoOutput),
    /// The other answers of its batch.
    Batch(Arc<BatchReply>),
}

impl ReplyTarget {
    pub(super) fn send(&self, text: String) -> io::Result<()> {
        match self {
            ReplyTarget::Line(output) => output.line(&text),
            ReplyTarget::Batch(batch) => {
                batch.answers.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                Ok(())
            }
        }
    }
}

/// The answers of a batch, written as one array when the last of its requests drops this.
pub(super) struct BatchReply {
    output: DemoOutput,
    answers: Mutex<Vec<String>>,
}

impl BatchReply {
    pub(super) fn new(output: DemoOutput) -> Arc<BatchReply> {
        Arc::new(BatchReply { output, answers: Mutex::default() })
    }
}

impl Drop for BatchReply {
    fn drop(&mut self) {
        let answers = self.answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A batch of notifications gets no answer.
        if !answers.is_empty() {
            // The reading loop finds a broken output with its next answer.
            let _ = self.output.line(&format!("[{}]", answers.join(",")));
        }
    }
}
