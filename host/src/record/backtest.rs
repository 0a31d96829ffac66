//! Replays all records of a folder on all cores: as they were, or on a candidate.

mod worker;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::candidate::Candidate;
use super::folder::{self, Segment};
use super::line::{self, LineDamage, Record};
use super::reader::{LinePosition, LineState, RecordLines, SharedPartError, SharedParts};
use super::report::BacktestReport;
use crate::gate::GateError;
use crate::lock::lock;
use crate::logic::{Component, ComponentOptions, EMBEDDED_DIGEST, LogicError};
use worker::BacktestWorker;

/// A run that replays all records of a folder.
pub struct Backtest {
    /// The folder of the records.
    pub dir: PathBuf,
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
        let segments = folder::segments(&self.dir).unwrap_or_default();
        segments.iter().filter_map(|segment| segment.path.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Replays all records with bounded memory; `progress` gets the number of bytes read so far.
    pub fn run(&self, progress: &dyn Fn(u64)) -> Result<BacktestReport, BacktestError> {
        let segments = segments(&self.dir)?;
        let (candidate, unusable) = self.candidate.checked(&self.options)?;
        // What an agent has seen depends on the order of its calls.
        let threads = if candidate.remembers() { 1 } else { self.threads.max(1) };
        let shared = BacktestContext {
            parts: SharedParts::of(&self.dir),
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
            let mut lines = RecordLines::of_segments(segments);
            let (mut batch, mut read, mut bytes) = (LineBatch::new(), 0, 0);
            let outcome = loop {
                let mut line = Vec::new();
                match lines.next(&mut line) {
                    Ok(Some((spot, found))) => {
                        bytes += line.len() + 1;
                        batch.push((spot, found, line));
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(unreadable(&self.dir)(error)),
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

/// Finds the newest record of a call; if only damaged records mention it, returns the damage as an error.
pub fn find(dir: &Path, id: &str) -> Result<Option<(LinePosition, Record)>, BacktestError> {
    let sign = format!("\"id\":{}", crate::rpc::quote(id));
    let sign = memchr::memmem::Finder::new(sign.as_bytes());
    let mut damaged = None;
    for segment in segments(dir)?.into_iter().rev() {
        let mut lines = RecordLines::of_segments(vec![segment]);
        let (mut line, mut last) = (Vec::new(), None);
        while let Some((spot, found)) = lines.next(&mut line).map_err(unreadable(dir))? {
            if found == LineState::Unfinished || sign.find(&line).is_none() {
                continue;
            }
            match line::read(&line) {
                Ok(record) if record.id == id => last = Some((spot, record)),
                // The id may also occur in the answer of another call.
                Ok(_) => {}
                Err(damage) => damaged = Some(BacktestError::Damaged { spot, damage }),
            }
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    damaged.map_or(Ok(None), Err)
}

/// Lists the record files in a folder; having none is an error.
fn segments(dir: &Path) -> Result<Vec<Segment>, BacktestError> {
    let segments = folder::segments(dir).map_err(unreadable(dir))?;
    if segments.is_empty() { Err(BacktestError::Empty(dir.to_owned())) } else { Ok(segments) }
}

fn unreadable(dir: &Path) -> impl Fn(io::Error) -> BacktestError {
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
type LineBatch = Vec<(LinePosition, LineState, Vec<u8>)>;

/// The records' parts and components, each loaded once, and what they are tried on.
struct BacktestContext<'a> {
    parts: SharedParts,
    candidate: Candidate,
    filter: &'a RecordFilter,
    options: &'a ComponentOptions,
    known: Mutex<HashMap<String, Result<Component, String>>>,
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

    /// Returns the component with this digest, or says what is missing.
    fn get(&self, digest: &str) -> Result<Component, String> {
        let mut known = lock(&self.known);
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
/// The number of lines in a batch.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;
