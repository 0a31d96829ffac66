//! Writes the answers to a line of input.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::lock::lock;

/// Writes one line of output.
pub(super) type WriteLine = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Takes the answers to one line of input; those of a batch are written as one array when the last request drops this.
pub(super) struct Replies {
    pub(super) output: WriteLine,
    /// The answers so far, if the input is a batch.
    batch: Option<Mutex<Vec<String>>>,
}

impl Replies {
    pub(super) fn new(output: &WriteLine, is_batch: bool) -> Arc<Replies> {
        Arc::new(Replies { output: Arc::clone(output), batch: is_batch.then(Mutex::default) })
    }

    pub(super) fn send(&self, answer: String) -> io::Result<()> {
        match &self.batch {
            None => (self.output)(&answer),
            Some(answers) => {
                lock(answers).push(answer);
                Ok(())
            }
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let Some(answers) = &mut self.batch else { return };
        let answers = answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A batch of notifications gets no answer.
        if !answers.is_empty() {
            // The reading loop finds a broken output with its next answer.
            let _ = (self.output)(&format!("[{}]", answers.join(",")));
        }
    }
}
