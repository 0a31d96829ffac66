//! Where something stands in a file, and what is said about that place.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A place in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct FilePosition {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// Text that the file gives, not yet expanded. Its `Debug` shows where it stands and not what it says.
#[derive(Clone, PartialEq, Eq)]
pub struct UnexpandedText {
    /// The text as written.
    pub text: String,
    /// Where it stands.
    pub place: FilePosition,
    /// What it is within the server, such as `env.API_KEY` or `args[2]`.
    pub field: String,
}

/// What the reader of a file should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub place: FilePosition,
    /// In words.
    pub text: String,
}

/// Why one server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is about.
    pub place: FilePosition,
    /// The same as a path in the file, such as `servers.jira.args[2]`.
    pub field: Option<String>,
    /// In words; never a value that may be a secret.
    pub text: String,
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{}: {field}: {}", self.place, self.text),
            None => write!(f, "{}: {}", self.place, self.text),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl fmt::Debug for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for UnexpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.field, self.place)
    }
}
