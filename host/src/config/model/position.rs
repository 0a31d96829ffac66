//! Positions in a file, and the notices and problems about them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A position in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct FilePosition {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl FilePosition {
    /// Creates a position; one beyond the range of numbers is the last one.
    pub(crate) fn new(file: &Arc<Path>, line: usize, column: usize) -> Self {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        FilePosition { file: Arc::clone(file), line: narrow(line), column: narrow(column) }
    }
}

/// Text from the file, not yet expanded. `Debug` shows its position, not its content.
#[derive(Clone, PartialEq, Eq)]
pub struct UnexpandedText {
    /// The text as written.
    pub text: String,
    /// The position of the text.
    pub place: FilePosition,
    /// The name of the value within its server, such as `env.API_KEY` or `args[2]`.
    pub field: String,
}

/// A notice for the author of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The position it is about.
    pub place: FilePosition,
    /// The message.
    pub text: String,
}

/// An error that makes one server or setting unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The position it is about.
    pub place: FilePosition,
    /// The path in the file, such as `servers.jira.args[2]`.
    pub field: Option<String>,
    /// The message; it never contains a value that may be a secret.
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
