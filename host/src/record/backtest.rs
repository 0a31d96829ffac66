//! Replays all records of one or several folders on all cores: as they were, or on a candidate.

mod worker;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::candidate::Candidate;
use super::folder::{self, Segment};
use super::folder_parts::FolderParts;
use super::line::Record;
use super::merge::MergedLines;
use super::reader::{LinePosition, LineState, SharedPartError};
use super::report::BacktestReport;
use crate::gate::GateError;
use crate::lock::lock;
use crate::logic::{Component, ComponentOptions, EMBEDDED_DIGEST, LogicError};
use worker::BacktestWorker;

/// A run that replays all records of one or several folders.
pub struct Backtest {
    /// The folders of the records, which are replayed in the order of time; a folder that is named twice counts once.
    pub dirs: Vec<PathBuf>,
    /// The component and configuration to try the calls on.
    pub candidate: Candidate,
    /// The records to replay.
    pub filter: RecordFilter,
    /// The options that components are loaded with.
    pub options: ComponentOptions,
    /// The number of threads.
    pub threads: usize,
}

impl Backtest {
    /// Returns the size of all records, to show progress.
    pub fn bytes(&self) -> u64 {
        let dirs = folder::distinct(&self.dirs);
        let segments = dirs.iter().flat_map(|dir| folder::segments(dir).unwrap_or_default());
        segments.filter_map(|segment| segment.path.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Replays all records with bounded memory; `progress` gets the number of bytes read so far.
    pub fn run(&self, progress: &dyn Fn(u64)) -> Result<BacktestReport, BacktestError> {
        let dirs = folder::distinct(&self.dirs);
        let mut lines = MergedLines::of(&dirs)?;
        let (candidate, unusable) = self.candidate.checked(&self.options)?;
        // What an agent has seen depends on the order of its calls.
        let threads = if candidate.remembers() { 1 } else { self.threads.max(1) };
        let shared = BacktestContext {
            parts: FolderParts::of(&dirs),
            candidate,
            filter: &self.filter,
            options: &self.options,
            known: Mutex::default(),
            crashes: AtomicUsize::new(0),
        };
        let (sender, receiver) = sync_channel::<LineBatch>(2 * threads);
        let receiver = Mutex::new(receiver);
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| BacktestWorker::new(&shared).run(&receiver))).collect();
            let (mut batch, mut read, mut bytes) = (LineBatch::new(), 0, 0);
            let outcome = loop {
                let mut line = Vec::new();
                match lines.next(&mut line) {
                    Ok(Some((spot, found))) => {
                        bytes += line.len() + 1;
                        batch.push((spot, found, line));
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
                if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                    read += bytes as u64;
                    progress(read);
                    bytes = 0;
                    if shared.is_aborted() || sender.send(std::mem::take(&mut batch)).is_err() {
                        break Ok(());
                    }
                }
            };
            // An error only means that no worker is left to take the last batch.
            let _ = sender.send(batch);
            drop(sender);
            let mut report = BacktestReport { unusable, ..BacktestReport::default() };
            for worker in workers {
                match worker.join() {
                    Ok(found) => report.merge(found?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            report.stopped = shared.is_aborted();
            outcome.map(|()| report)
        })
    }
}

impl Backtest {
    /// Replays these records, each with the index of its folder, in their order and until this time; those that are left
    /// then are not in the report.
    pub(crate) fn run_on(
        &self,
        records: Vec<(usize, Record)>,
        until: Instant,
    ) -> Result<BacktestReport, BacktestError> {
        let (candidate, unusable) = self.candidate.checked(&self.options)?;
        let shared = BacktestContext {
            parts: FolderParts::of(&folder::distinct(&self.dirs)).within(until),
            candidate,
            filter: &self.filter,
            options: &self.options,
            known: Mutex::default(),
            crashes: AtomicUsize::new(0),
        };
        let mut worker = BacktestWorker::new(&shared);
        for (order, (folder, record)) in (1..).zip(records) {
            if Instant::now() >= until || shared.is_aborted() {
                break;
            }
            // Where exactly it is, nobody is told.
            let spot = LinePosition { order, folder, file: Arc::from(Path::new("")), line: 0 };
            worker.take(&spot, record)?;
        }
        Ok(BacktestReport { unusable, stopped: shared.is_aborted(), ..worker.into_report() })
    }
}

/// Lists the record files in a folder; having none is an error.
pub(super) fn list_segments(dir: &Path) -> Result<Vec<Segment>, BacktestError> {
    let segments = folder::segments(dir).map_err(unreadable(dir))?;
    if segments.is_empty() { Err(BacktestError::Empty(dir.to_owned())) } else { Ok(segments) }
}

/// Adds the folder to an error of the operating system.
pub(super) fn unreadable(dir: &Path) -> impl Fn(io::Error) -> BacktestError {
    |source| BacktestError::Folder { dir: dir.to_owned(), source }
}

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
type LineBatch = Vec<(LinePosition, LineState, Vec<u8>)>;

/// A component, or what is missing of it, by the index of the folder that it is taken from.
type ComponentByFolder = HashMap<usize, Result<Component, String>>;

/// The records' parts and components, each loaded once, and what they are tried on.
struct BacktestContext<'a> {
    parts: FolderParts,
    candidate: Candidate,
    filter: &'a RecordFilter,
    options: &'a ComponentOptions,
    /// The components by their digests.
    known: Mutex<HashMap<String, ComponentByFolder>>,
    /// How many calls have crashed a component so far.
    crashes: AtomicUsize,
}

impl BacktestContext<'_> {
    /// Counts a call that crashed a component.
    fn count_crash(&self) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports whether a component crashed so often that the run should stop.
    fn is_aborted(&self) -> bool {
        self.crashes.load(Ordering::Relaxed) >= MOST_BREAKS
    }

    /// Returns the component with this digest, which a record in this folder needs, or says what is missing.
    fn component(&self, folder: usize, digest: &str) -> Result<Component, String> {
        let mut known = lock(&self.known);
        let known = match known.get_mut(digest) {
            Some(known) => known,
            None => known.entry(digest.to_owned()).or_default(),
        };
        if let Some(found) = known.get(&folder) {
            return found.clone();
        }
        let loaded = known.values().find_map(|found| found.as_ref().ok()).cloned();
        let found = self.load(folder, digest, loaded);
        known.insert(folder, found.clone());
        found
    }

    /// Loads a component from a folder; if another folder has it too, only checks that it is the same.
    fn load(&self, folder: usize, digest: &str, loaded: Option<Component>) -> Result<Component, String> {
        if digest == EMBEDDED_DIGEST {
            return loaded.map_or_else(|| self.embedded(), Ok);
        }
        let bytes = self.parts.folder(folder).component(digest).map_err(|error| match error {
            SharedPartError::Missing { .. } => {
                format!("{error}, and this toolgate has a different one built in; pass its file with --logic")
            }
            other => other.to_string(),
        })?;
        loaded.map_or_else(|| Component::from_bytes(&bytes, self.options).map_err(|error| error.to_string()), Ok)
    }

    fn embedded(&self) -> Result<Component, String> {
        Component::embedded(self.options).map_err(|error| error.to_string())
    }
}

/// The number of crashes after which the run stops.
const MOST_BREAKS: usize = 5;
/// The number of lines in a batch.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;
