//! Why a configuration file cannot be used at all.

use std::io;
use std::path::PathBuf;

use super::model::{FilePosition, Problem};
use crate::ownership::OwnershipError;

/// Why a configuration file cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else can change the file.
    #[error("{}: not used: {source}", file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
        /// Who can, and how to mend it.
        source: OwnershipError,
    },
    /// There is a folder where a file should be.
    #[error("{}: this is a folder; name the file in it", .0.display())]
    Folder(PathBuf),
    /// There is something else where a file should be.
    #[error("{}: this is no regular file; name one, or /dev/stdin", .0.display())]
    NoFile(PathBuf),
    /// The file is too large to be a configuration.
    #[error("{}: larger than {limit} bytes, so it is hardly a configuration", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// The file has bytes that are no text.
    #[error("{place}: not UTF-8 text; save the file as UTF-8")]
    NotText {
        /// The first byte that is no text.
        place: FilePosition,
    },
    /// The file says nothing.
    #[error("{}: the file is empty; begin with `servers:`, or see `toolgate schema`", .0.display())]
    Empty(PathBuf),
    /// The file is no YAML, JSON or TOML.
    #[error("{place}: {text}")]
    Syntax {
        /// Where reading stopped.
        place: FilePosition,
        /// What is wrong there. The line itself is not shown, since it may hold a secret.
        text: String,
    },
    /// Something outside the servers is wrong.
    #[error("{0}")]
    Invalid(Problem),
}

impl ConfigError {
    /// Something is wrong with the file as a whole, or with a key outside the servers.
    pub(super) fn invalid(position: FilePosition, text: impl Into<String>) -> Self {
        ConfigError::Invalid(Problem { place: position, field: None, text: text.into() })
    }

    /// The text breaks the grammar of its format.
    pub(super) fn syntax(position: FilePosition, text: impl Into<String>) -> Self {
        ConfigError::Syntax { place: position, text: text.into() }
    }
}
