//! Replays all records of a folder on all cores: as they were, or on a candidate.

mod shared;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

use super::candidate::Candidate;
use super::folder;
use super::line::{self, Record};
use super::reader::{LinePosition, LineState, RecordLines, SharedParts};
use super::report::BacktestReport;
use crate::logic::ComponentOptions;
use shared::{BacktestContext, LineBatch};
pub use shared::{BacktestError, RecordFilter};
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
        let failed = |source| BacktestError::Folder { dir: self.dir.clone(), source };
        let segments = folder::segments(&self.dir).map_err(failed)?;
        if segments.is_empty() {
            return Err(BacktestError::Empty(self.dir.clone()));
        }
        let threads = self.threads.max(1);
        let (candidate, unusable) = self.candidate.checked(&self.options)?;
        let shared = BacktestContext::new(SharedParts::of(&self.dir), candidate, &self.filter, &self.options);
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
                    Err(error) => break Err(failed(error)),
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
    let failed = |source| BacktestError::Folder { dir: dir.to_owned(), source };
    let segments = folder::segments(dir).map_err(failed)?;
    if segments.is_empty() {
        return Err(BacktestError::Empty(dir.to_owned()));
    }
    let sign = format!("\"id\":{}", crate::rpc::quote(id));
    let sign = memchr::memmem::Finder::new(sign.as_bytes());
    let mut damaged = None;
    for segment in segments.into_iter().rev() {
        let mut lines = RecordLines::of_segments(vec![segment]);
        let (mut line, mut last) = (Vec::new(), None);
        while let Some((spot, found)) = lines.next(&mut line).map_err(failed)? {
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

/// The number of lines in a batch.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;
