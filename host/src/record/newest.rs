//! Reads the newest records of several folders, from the ends of their files backwards.

mod tail;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::folder;
use super::line::{self, LineDamage, Record};
use tail::{SegmentTail, TailError};

/// The newest records of several folders, newest first.
///
/// A file is opened when the next record can be in it: it was changed after its newest call had ended. Memory holds one
/// line and one block of each file that is open.
pub(crate) struct NewestRecords {
    folders: Vec<FolderState>,
    tails: Vec<SegmentTail>,
    /// The files that may have lines left, by the time at which the call of the next line ended. If that line is not read
    /// yet, by that of the line after it, or by the last change to the file.
    waiting: BinaryHeap<(SystemTime, Reverse<usize>)>,
    /// The text in the records of the wanted principal, and its name.
    principal: Option<(String, String)>,
    budget: ReadBudget,
    /// Why reading ended early.
    stopped: Option<String>,
}

/// How much may be read, and until when.
pub(crate) struct ReadBudget {
    /// The number of bytes.
    pub bytes: u64,
    /// When reading ends.
    pub until: Instant,
}

/// Something that keeps records from being listed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadProblem {
    /// The index of the folder; `None` if it is about all folders.
    pub folder: Option<usize>,
    /// The description, without the path of the folder.
    pub text: String,
}

/// What was found in a folder.
#[derive(Default)]
struct FolderState {
    /// Why the folder or files in it cannot be read.
    errors: Vec<String>,
    /// Whether some files were left out because there are too many.
    is_cut: bool,
    /// The number of damaged lines, and the newest one.
    damages: u64,
    damaged: Option<(PathBuf, LineDamage)>,
}

impl NewestRecords {
    /// Opens the records in these folders, of one principal or of all.
    pub(crate) fn of(dirs: &[PathBuf], principal: Option<&str>, budget: ReadBudget) -> Self {
        let mut folders: Vec<FolderState> = Vec::with_capacity(dirs.len());
        let mut tails = Vec::new();
        for (index, dir) in dirs.iter().enumerate() {
            let mut folder = FolderState::default();
            match newest_files(dir, index, budget.until, &mut folder.is_cut) {
                Ok(files) => tails.extend(files),
                Err(error) => folder.errors.push(format!("the folder cannot be read: {error}")),
            }
            folders.push(folder);
        }
        let waiting = tails.iter().enumerate().map(|(at, tail)| (tail.changed + SLACK, Reverse(at))).collect();
        let principal = principal.map(|name| (format!("\"principal\":{}", crate::rpc::quote(name)), name.to_owned()));
        NewestRecords { folders, tails, waiting, principal, budget, stopped: None }
    }

    /// Returns the next record, and the index of its folder.
    pub(crate) fn next(&mut self) -> Option<(usize, Record)> {
        loop {
            let (time, Reverse(at)) = self.waiting.pop()?;
            let tail = &mut self.tails[at];
            if let Some(line) = tail.line.take() {
                // The call of the line before it ended earlier; when exactly is found out when its turn comes.
                self.waiting.push((time, Reverse(at)));
                match self.read(at, &line) {
                    Some(found) => return Some(found),
                    None => continue,
                }
            }
            match tail.read_line(&mut self.budget) {
                Ok(true) => {
                    // A line without a readable time is damaged, and is reported when its turn comes.
                    let times = tail.line.as_deref().and_then(line::times);
                    self.waiting.push((times.map_or(time, |times| times.ended), Reverse(at)));
                }
                Ok(false) => {}
                Err(TailError::Spent(why)) => {
                    self.stopped = Some(why);
                    self.waiting.clear();
                }
                // The file expired after the folder was listed.
                Err(TailError::File(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(TailError::File(error)) => {
                    let text = format!("{} cannot be read: {error}", tail.name());
                    self.folders[tail.folder].errors.push(text);
                }
            }
        }
    }

    /// Returns what kept records from being listed.
    pub(crate) fn into_problems(self) -> Vec<ReadProblem> {
        let stopped = self.stopped.map(|text| ReadProblem { folder: None, text });
        let of_folders = self.folders.into_iter().enumerate().flat_map(|(index, folder)| {
            let FolderState { mut errors, is_cut, damages, damaged } = folder;
            if errors.len() > MOST_ERRORS {
                let more = errors.split_off(MOST_ERRORS).len();
                errors.push(format!("{more} more files cannot be read"));
            }
            if let Some((path, damage)) = damaged {
                let records =
                    if damages == 1 { "1 record is damaged" } else { &format!("{damages} records are damaged") };
                errors.push(format!("{records}: {}: {damage}", tail::name_of(&path)));
            }
            if is_cut {
                errors.push(format!("the folder has many files: only the newest {MOST_FILES} are searched"));
            }
            errors.into_iter().map(move |text| ReadProblem { folder: Some(index), text })
        });
        of_folders.chain(stopped).collect()
    }

    /// Reads a line; returns nothing if it is damaged or the record of another principal.
    fn read(&mut self, at: usize, line: &[u8]) -> Option<(usize, Record)> {
        if let Some((sign, _)) = &self.principal
            && memchr::memmem::find(line, sign.as_bytes()).is_none()
        {
            return None;
        }
        let tail = &self.tails[at];
        match line::read(line) {
            Ok(record) => {
                // The text may also occur in what servers answered.
                let is_wanted = self.principal.as_ref().is_none_or(|(_, name)| record.principal.as_ref() == Some(name));
                is_wanted.then_some((tail.folder, record))
            }
            Err(damage) => {
                let folder = &mut self.folders[tail.folder];
                folder.damages += 1;
                folder.damaged.get_or_insert_with(|| (tail.path.clone(), damage));
                None
            }
        }
    }
}

/// Returns the files of a folder that were changed last, in a number that fits into memory.
fn newest_files(dir: &Path, folder: usize, until: Instant, is_cut: &mut bool) -> io::Result<Vec<SegmentTail>> {
    let mut newest = BinaryHeap::new();
    for segment in folder::unsorted_segments(dir)? {
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let path = segment?.path;
        let found = path.symlink_metadata().and_then(|metadata| Ok((metadata.modified()?, metadata.len())));
        match found {
            Ok((changed, bytes)) => newest.push(Reverse((changed, path, bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if newest.len() > MOST_FILES {
            newest.pop();
            *is_cut = true;
        }
    }
    let tail = |Reverse((changed, path, bytes))| SegmentTail::new(folder, path, changed, bytes);
    Ok(newest.into_iter().map(tail).collect())
}

/// How much earlier than the last change the time of that change may be, since file systems round it.
const SLACK: Duration = Duration::from_secs(2);
/// The most files of a folder that are searched.
const MOST_FILES: usize = 10_000;
/// The most files of a folder about which it is said why they cannot be read.
const MOST_ERRORS: usize = 3;

#[cfg(test)]
mod tests;
