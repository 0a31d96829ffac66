//! What the threads of a backtest share.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::candidate::Candidate;
use super::super::line::LineDamage;
use super::super::reader::{LinePosition, LineState, SharedPartError, SharedParts};
use crate::gate::GateError;
use crate::logic::{Component, ComponentOptions, EMBEDDED_DIGEST, LogicError};

/// Selects the records to replay.
#[derive(Clone, Debug, Default)]
pub struct RecordFilter {
    /// Selects calls made at this time or later, in UTC, as RFC 3339 writes it.
    pub since: Option<String>,
    /// Selects calls of tools with a name, in any form, that equals or matches this glob.
    pub tool: Option<String>,
    /// Selects calls of this principal.
    pub principal: Option<String>,
}

/// The reason why nothing could be replayed.
#[derive(Debug, thiserror::Error)]
pub enum BacktestError {
    /// The folder cannot be read.
    #[error("cannot read the records in {}", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The folder has no records.
    #[error("there are no records in {}", .0.display())]
    Empty(PathBuf),
    /// The record of the call was changed after it was written.
    #[error("{spot}: {damage}")]
    Damaged {
        /// The position of the record.
        spot: LinePosition,
        /// The damage that was found.
        damage: LineDamage,
    },
    /// No gate can be opened with the candidate's configuration.
    #[error("the configuration cannot be used: {0}")]
    Settings(String),
    /// The component cannot be started.
    #[error(transparent)]
    Logic(#[from] LogicError),
}

impl From<GateError> for BacktestError {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Logic(error) => BacktestError::Logic(error),
            other => BacktestError::Settings(other.to_string()),
        }
    }
}

/// A batch of lines on their way to a worker.
pub(super) type LineBatch = Vec<(LinePosition, LineState, Vec<u8>)>;

/// The records' parts and components, each loaded once, and what they are tried on.
pub(super) struct BacktestContext<'a> {
    pub parts: SharedParts,
    pub candidate: Candidate,
    pub filter: &'a RecordFilter,
    options: &'a ComponentOptions,
    known: Mutex<HashMap<String, Result<Component, String>>>,
    /// How many calls have crashed a component so far.
    crashes: AtomicUsize,
}

impl<'a> BacktestContext<'a> {
    pub(super) fn new(
        parts: SharedParts,
        candidate: Candidate,
        filter: &'a RecordFilter,
        options: &'a ComponentOptions,
    ) -> Self {
        BacktestContext { parts, candidate, filter, options, known: Mutex::default(), crashes: AtomicUsize::new(0) }
    }

    /// Counts a call that crashed a component.
    pub(super) fn count_crash(&self) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports whether a component crashed so often that the run should stop.
    pub(super) fn is_aborted(&self) -> bool {
        self.crashes.load(Ordering::Relaxed) >= MOST_BREAKS
    }

    /// Returns the component with this digest, or says what is missing.
    pub(super) fn get(&self, digest: &str) -> Result<Component, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(digest.to_owned()).or_insert_with(|| self.load(digest)).clone()
    }

    fn load(&self, digest: &str) -> Result<Component, String> {
        if digest == EMBEDDED_DIGEST {
            return Component::embedded(self.options).map_err(|error| error.to_string());
        }
        let bytes = self.parts.component(digest).map_err(|error| match error {
            SharedPartError::Missing { .. } => {
                format!("{error}, and this toolgate has a different one built in; pass its file with --logic")
            }
            other => other.to_string(),
        })?;
        Component::from_bytes(&bytes, self.options).map_err(|error| error.to_string())
    }
}

/// The number of crashes after which the run stops.
const MOST_BREAKS: usize = 5;
