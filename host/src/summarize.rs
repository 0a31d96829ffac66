//! Summaries of long results, by a program or an OpenAI-compatible endpoint.
//!
//! The text is already masked. Neither the text nor a key appears in an error or in `Debug`.

mod command;
mod http;

use std::borrow::Cow;
use std::io;
use std::time::Duration;

pub(crate) use command::SummaryCommand;
pub(crate) use http::SummaryEndpoint;

/// The configured source of summaries.
#[derive(Debug)]
pub(crate) enum Summarizer {
    /// A program that reads the text and writes its summary.
    Command(SummaryCommand, SummaryLimits),
    /// A model behind an OpenAI-compatible endpoint.
    Http(SummaryEndpoint, SummaryLimits),
}

/// The limits of one summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SummaryLimits {
    /// How long it may take.
    pub timeout: Duration,
    /// How much of the text is passed on; a longer text is cut, with a note.
    pub max_input_bytes: usize,
}

/// A text to summarise.
#[derive(Clone, Copy)]
pub(crate) struct SummaryTask<'a> {
    /// The server that the text came from.
    pub server: &'a str,
    /// The tool that produced the text.
    pub tool: &'a str,
    /// The text, masked.
    pub text: &'a str,
}

/// The reason why there is no summary.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SummarizeError {
    /// The configuration is invalid.
    #[error("summarizer: {0}")]
    Settings(String),
    /// The summary took too long.
    #[error("summarizer: no summary within {after:?}")]
    Timeout {
        /// How long it waited.
        after: Duration,
    },
    /// The program does not start.
    #[error("summarizer: {command:?} could not be started")]
    Start {
        /// The program.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The pipes to the program broke.
    #[error("summarizer: cannot read the output of {command:?}")]
    Read {
        /// The program.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The program failed.
    #[error("summarizer: {command:?} ended with {how}{}", after_colon(last_words))]
    Failed {
        /// The program.
        command: String,
        /// Its exit code, or the signal that killed it, as text.
        how: String,
        /// The last line of its standard error, without secrets.
        last_words: String,
    },
    /// The endpoint cannot be reached, or closed the connection.
    #[error("summarizer: {url}: {why}")]
    Connect {
        /// The URL, without login and query.
        url: String,
        /// What went wrong, as text.
        why: String,
    },
    /// The endpoint returned an error status.
    #[error("summarizer: {url}: HTTP {status}{}", after_colon(reason))]
    Status {
        /// The URL, without login and query.
        url: String,
        /// The status code.
        status: u16,
        /// The kind of error, if the endpoint gives it in one word or the status implies it.
        reason: String,
    },
    /// The endpoint did not return a chat completion.
    #[error("summarizer: {url}: the answer is not a chat completion: {why}")]
    Answer {
        /// The URL, without login and query.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The summary is too long.
    #[error("summarizer: an answer of more than {max} bytes")]
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// The summary is empty.
    #[error("summarizer: an empty summary")]
    Empty,
}

impl Summarizer {
    /// Makes a summary; dropping the future kills the program or closes the connection.
    pub(crate) async fn summarize(&self, task: SummaryTask<'_>) -> Result<String, SummarizeError> {
        let (Summarizer::Command(_, limits) | Summarizer::Http(_, limits)) = self;
        let text = cut(task.text, limits.max_input_bytes);
        let task = SummaryTask { text: &text, ..task };
        let work = async {
            match self {
                Summarizer::Command(command, _) => command.run(task).await,
                Summarizer::Http(http, _) => http.ask(task).await,
            }
        };
        let made = tokio::time::timeout(limits.timeout, work).await;
        let summary = made.unwrap_or(Err(SummarizeError::Timeout { after: limits.timeout }))?;
        let summary = summary.trim();
        if summary.is_empty() { Err(SummarizeError::Empty) } else { Ok(summary.to_owned()) }
    }
}

/// Cuts the text at a character boundary, and adds a note.
fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let kept = &text[..text.floor_char_boundary(max)];
    Cow::Owned(format!("{kept}\n\n[CUT: these are the first {} of {} bytes]", kept.len(), text.len()))
}

fn after_colon(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_with_a_note() {
        assert_eq!(cut("", 0), "");
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 5), "äö\n\n[CUT: these are the first 4 of 6 bytes]");
        assert_eq!(cut("äöü", 0), "\n\n[CUT: these are the first 0 of 6 bytes]");
    }

    #[test]
    fn a_summary_can_be_made_on_any_thread() {
        fn check<T: Send>(_: impl FnOnce(&'static Summarizer, SummaryTask<'static>) -> T) {}
        check(|summarizer, task| summarizer.summarize(task));
    }
}
