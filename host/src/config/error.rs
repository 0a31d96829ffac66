//! Errors that make a whole configuration file unusable.

use std::io;
use std::path::PathBuf;

use super::model::{FilePosition, Problem};
use crate::ownership::OwnershipError;

/// An error that makes a whole configuration file unusable.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another user can change the file.
    #[error("{}: not used: {source}", file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
        /// Who can change the file, and how to fix that.
        source: OwnershipError,
    },
    /// The path is a folder.
    #[error("{}: this is a folder; name the file in it", .0.display())]
    Folder(PathBuf),
    /// The path is neither a file nor a folder.
    #[error("{}: this is not a regular file; name one, or /dev/stdin", .0.display())]
    NoFile(PathBuf),
    /// The file is too large to be a configuration.
    #[error("{}: larger than {limit} bytes, which is too large for a configuration", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The largest size that is read.
        limit: u64,
    },
    /// The file is not UTF-8.
    #[error("{place}: not UTF-8 text; save the file as UTF-8")]
    NotText {
        /// The position of the first invalid byte.
        place: FilePosition,
    },
    /// The file is empty.
    #[error("{}: the file is empty; begin with `servers:`, or see `toolgate schema`", .0.display())]
    Empty(PathBuf),
    /// The file is not valid YAML, JSON or TOML.
    #[error("{place}: {text}")]
    Syntax {
        /// The position where parsing stopped.
        place: FilePosition,
        /// What is wrong there. The line itself is not shown, because it may contain a secret.
        text: String,
    },
    /// Something outside the servers is invalid.
    #[error("{0}")]
    Invalid(Problem),
}

impl ConfigError {
    /// Creates an error about the file as a whole, or about a key outside the servers.
    pub(super) fn invalid(position: FilePosition, text: impl Into<String>) -> Self {
        ConfigError::Invalid(Problem { place: position, field: None, text: text.into() })
    }

    /// Creates an error about text that breaks the grammar of its format.
    pub(super) fn syntax(position: FilePosition, text: impl Into<String>) -> Self {
        ConfigError::Syntax { place: position, text: text.into() }
    }
}
