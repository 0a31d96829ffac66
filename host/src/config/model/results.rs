//! The settings for long results: `summarizer` and `spill`.

use std::time::Duration;

use super::{FilePosition, UnexpandedText};

/// The summarizer of long results. `Debug` shows no value that may be a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct SummarizerRules {
    /// The position of the section.
    pub place: FilePosition,
    /// The program or endpoint.
    pub how: SummarizerKind,
    /// How long a summary may take.
    pub timeout: Duration,
    /// The most bytes of text to pass to the summarizer.
    pub max_input_bytes: u64,
}

/// The kind of summarizer.
#[derive(Clone, Debug, PartialEq)]
pub enum SummarizerKind {
    /// A program that reads the text from standard input and writes the summary to standard output.
    Command {
        /// The program, by name or path.
        program: UnexpandedText,
        /// The program's arguments.
        args: Vec<UnexpandedText>,
    },
    /// An endpoint of an OpenAI-compatible API.
    Http {
        /// The base URL.
        url: UnexpandedText,
        /// The model to ask.
        model: UnexpandedText,
        /// The API key, if one is needed.
        api_key: Option<UnexpandedText>,
    },
}

/// Which summarizer a server's results go to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ServerSummarizer {
    /// The summarizer for all servers, if there is one.
    #[default]
    Shared,
    /// None: the results are never summarized.
    Off,
    /// One of the server's own.
    Own(Box<SummarizerRules>),
}

/// Where to keep the full text of results that were cut.
#[derive(Clone, Debug, PartialEq)]
pub struct SpillSettings {
    /// The folder; `None` means the user's default folder.
    pub dir: Option<UnexpandedText>,
    /// The largest size of all files together.
    pub max_bytes: u64,
    /// How long to keep each file.
    pub max_age: Duration,
}

impl Default for SpillSettings {
    fn default() -> Self {
        SpillSettings { dir: None, max_bytes: 256 * 1024 * 1024, max_age: Duration::from_secs(24 * 60 * 60) }
    }
}
