//! What is done with results that are long.

use std::time::Duration;

use super::{FilePosition, UnexpandedText};

/// Who makes a long result short. Its `Debug` shows no value that may be a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct SummarizerRules {
    /// Where its section stands.
    pub place: FilePosition,
    /// How it is reached.
    pub how: SummarizerKind,
    /// How long it may take.
    pub timeout: Duration,
    /// The most text that it is given.
    pub max_input_bytes: u64,
}

/// How a summarizer is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum SummarizerKind {
    /// A program: the text on its input, the summary on its output.
    Command {
        /// The program, by name or path.
        program: UnexpandedText,
        /// Its arguments.
        args: Vec<UnexpandedText>,
    },
    /// An endpoint that speaks the API of OpenAI.
    Http {
        /// Its address.
        url: UnexpandedText,
        /// The model to ask.
        model: UnexpandedText,
        /// The key, where it wants one.
        api_key: Option<UnexpandedText>,
    },
}

/// Where results that are cut are kept whole.
#[derive(Clone, Debug, PartialEq)]
pub struct SpillSettings {
    /// The folder; none means one of the user's own.
    pub dir: Option<UnexpandedText>,
    /// The most bytes of all files in it.
    pub max_bytes: u64,
    /// How long a file is kept.
    pub max_age: Duration,
}

impl Default for SpillSettings {
    fn default() -> Self {
        SpillSettings { dir: None, max_bytes: 256 * 1024 * 1024, max_age: Duration::from_secs(24 * 60 * 60) }
    }
}
