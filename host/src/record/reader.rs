//! Reads the records of one folder: every line of every file in order, and the parts that lines share.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::digest::short;
use super::folder::{self, Segment, SharedPart};
use super::keyed::{Keyed, KeyedOffers, KeyedSettings};
use super::line::{FIRST, LineDamage, LineSeal};
use crate::contract_json::ToolJson;
use crate::lock::lock;
use crate::logic::types::Tool;
use crate::sha256::sha256_hex;

/// The lines of all record files in a folder.
pub struct RecordLines {
    segments: std::vec::IntoIter<Segment>,
    /// The numbers of each process's files at the time when the folder was listed.
    there: HashMap<String, BTreeSet<u32>>,
    /// The numbers up to which files of each process were removed by age or size; `None` if the files that are read are
    /// not all that there are.
    expired: Option<HashMap<String, u32>>,
    open: Option<(Segment, Arc<Path>, BufReader<File>)>,
    /// The number of lines read so far, in all files and in the open one.
    count: u64,
    number: u64,
    /// The last file of each process that was read, and the digest of its last line.
    ends: HashMap<String, (u32, String)>,
    /// The digest that the next line must name as its predecessor, if it is known.
    after: Option<String>,
}

/// The state of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum LineState {
    /// A complete line; its seal has not been checked.
    Complete,
    /// The last line of a file, which was not completely written.
    Unfinished,
    /// A damaged line.
    Damaged(LineDamage),
}

/// The position of a line; positions sort in the order in which lines are read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePosition {
    /// The number of the line among all that are read, from 1.
    pub order: u64,
    /// The index of its folder among those that are read.
    pub folder: usize,
    /// The file.
    pub file: Arc<Path>,
    /// The number of the line, from 1.
    pub line: u64,
}

impl std::fmt::Display for LinePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl RecordLines {
    /// Opens all record files in a folder, oldest first.
    pub fn of(dir: &Path) -> io::Result<Self> {
        Self::of_all_segments(dir, folder::segments(dir)?)
    }

    /// Reads the lines of these files, which are all in the folder: a run whose first files are missing is noticed.
    pub(super) fn of_all_segments(dir: &Path, segments: Vec<Segment>) -> io::Result<Self> {
        // Read after the files were listed, because files are noted before they are removed.
        let expired = Some(folder::expired(dir)?);
        Ok(RecordLines { expired, ..Self::of_segments(segments) })
    }

    /// Reads the lines of these files, which may be some of many.
    pub fn of_segments(segments: Vec<Segment>) -> Self {
        let mut there = HashMap::<String, BTreeSet<u32>>::new();
        for Segment { run_id, number, .. } in &segments {
            there.entry(run_id.clone()).or_default().insert(*number);
        }
        let segments = segments.into_iter();
        RecordLines {
            segments,
            there,
            expired: None,
            open: None,
            count: 0,
            number: 0,
            ends: HashMap::new(),
            after: None,
        }
    }

    /// Reads the next line into the buffer and returns its position, or `None` after the last file.
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<(LinePosition, LineState)>> {
        loop {
            let Some((segment, file, reader)) = &mut self.open else {
                let Some(segment) = self.segments.next() else { return Ok(None) };
                let reader = match File::open(&segment.path) {
                    Ok(file) => BufReader::with_capacity(1 << 16, file),
                    // The file expired and was removed after the folder was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                self.number = 0;
                self.after = match self.ends.get(&segment.run_id) {
                    _ if self.is_after_gap(&segment) => Some(GONE.to_owned()),
                    Some((number, digest)) if number + 1 == segment.number => Some(digest.clone()),
                    None if segment.number == 1 => Some(FIRST.to_owned()),
                    _ => None,
                };
                let file = segment.path.as_path().into();
                self.open = Some((segment, file, reader));
                continue;
            };
            line.clear();
            if reader.by_ref().take(MOST_LINE).read_until(b'\n', line)? == 0 {
                let ended = self.after.take().map(|digest| (segment.run_id.clone(), (segment.number, digest)));
                self.ends.extend(ended);
                self.open = None;
                continue;
            }
            self.count += 1;
            self.number += 1;
            let spot = LinePosition { order: self.count, folder: 0, file: Arc::clone(file), line: self.number };
            if line.pop_if(|byte| *byte == b'\n').is_none() {
                let endless = line.len() as u64 == MOST_LINE;
                if endless {
                    // The writer never writes such a long line, so nothing after it can be a record.
                    (self.open, self.after) = (None, None);
                }
                return Ok(Some((
                    spot,
                    if endless { LineState::Damaged(LineDamage::Torn) } else { LineState::Unfinished },
                )));
            }
            let found = match LineSeal::find(line) {
                Ok(seal) => {
                    let mut follows = self.after.as_ref().is_none_or(|after| after == seal.after);
                    // Older versions removed files without a note, and their lines name no run.
                    if self.number == 1
                        && let Some(run_id) = seal.run
                    {
                        let renamed = run_id != segment.run_id;
                        follows &= !renamed && !lacks_start(&self.there, self.expired.as_ref(), segment);
                    }
                    self.after = Some(seal.digest.to_owned());
                    if follows { LineState::Complete } else { LineState::Damaged(LineDamage::OutOfOrder) }
                }
                Err(damage) => {
                    self.after = None;
                    LineState::Damaged(damage)
                }
            };
            return Ok(Some((spot, found)));
        }
    }

    /// Reports whether the file before this one is missing although an older one of the same process exists; expiry
    /// removes the oldest files first, so somebody else removed it.
    fn is_after_gap(&self, segment: &Segment) -> bool {
        let before = self.there.get(&segment.run_id).and_then(|numbers| numbers.range(..segment.number).next_back());
        before.is_some_and(|before| before + 1 != segment.number)
    }
}

/// Reports whether the files of a process begin with this one, although earlier ones were neither too old nor too many.
fn lacks_start(
    there: &HashMap<String, BTreeSet<u32>>,
    expired: Option<&HashMap<String, u32>>,
    segment: &Segment,
) -> bool {
    let Some(expired) = expired else { return false };
    let is_first = there.get(&segment.run_id).is_none_or(|numbers| numbers.first() == Some(&segment.number));
    let removed = expired.get(&segment.run_id).copied().unwrap_or(0);
    is_first && segment.number > removed.saturating_add(1)
}

/// The reason why a shared part cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedPartError {
    /// The part does not exist.
    #[error("{}: the {} {} is missing", dir.display(), part.name(), short(digest))]
    Missing {
        /// The folder of the records that need it.
        dir: PathBuf,
        /// The kind of the part.
        part: SharedPart,
        /// Its digest.
        digest: String,
    },
    /// The content does not match the digest.
    #[error("{} was changed after it was written", .0.display())]
    Changed(PathBuf),
    /// The file cannot be read.
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// The parts that the records of a folder share; each is read once.
pub struct SharedParts {
    dir: PathBuf,
    settings: Mutex<HashMap<String, KeyedSettings>>,
    offers: Mutex<HashMap<String, KeyedOffers>>,
    tools: Mutex<HashMap<String, Arc<[Tool]>>>,
}

impl SharedParts {
    /// Opens the shared parts of the records in this folder.
    pub fn of(dir: &Path) -> Self {
        let (settings, offers, tools) = Default::default();
        SharedParts { dir: dir.to_owned(), settings, offers, tools }
    }

    /// Returns the settings with this digest.
    pub fn settings(&self, digest: &str) -> Result<KeyedSettings, SharedPartError> {
        cached(&self.settings, digest, || {
            Ok(Keyed { key: digest.into(), value: Arc::new(self.json(SharedPart::Settings, digest)?) })
        })
    }

    /// Returns the offered tools with this digest.
    pub fn offers(&self, digest: &str) -> Result<KeyedOffers, SharedPartError> {
        cached(&self.offers, digest, || {
            let servers = self.tool_digests(digest)?;
            let offers: Result<Vec<_>, SharedPartError> =
                servers.into_iter().map(|(server, tools)| Ok((server, self.tools(&tools)?))).collect();
            Ok(Keyed { key: digest.into(), value: Arc::new(offers?) })
        })
    }

    /// Returns the servers in the offered tools with this digest, each with the digest of its tools.
    pub(super) fn tool_digests(&self, digest: &str) -> Result<Vec<(String, String)>, SharedPartError> {
        self.json(SharedPart::Catalog, digest)
    }

    /// Returns the tools of one server with this digest.
    pub(super) fn tools(&self, digest: &str) -> Result<Arc<[Tool]>, SharedPartError> {
        cached(&self.tools, digest, || {
            let tools: Vec<ToolJson> = self.json(SharedPart::Tools, digest)?;
            Ok(tools.into_iter().map(ToolJson::into_recorded_tool).collect())
        })
    }

    /// Returns the bytes of a component.
    pub fn component(&self, digest: &str) -> Result<Vec<u8>, SharedPartError> {
        self.bytes(SharedPart::Component, digest)
    }

    fn json<T: serde::de::DeserializeOwned>(&self, part: SharedPart, digest: &str) -> Result<T, SharedPartError> {
        let bytes = self.bytes(part, digest)?;
        let path = || part.path(&self.dir, digest);
        serde_json::from_slice(&bytes)
            .map_err(|error| SharedPartError::Unreadable { path: path(), why: error.to_string() })
    }

    fn bytes(&self, part: SharedPart, digest: &str) -> Result<Vec<u8>, SharedPartError> {
        let missing = || SharedPartError::Missing { dir: self.dir.clone(), part, digest: digest.to_owned() };
        // The digest becomes part of a file name.
        if digest.len() != FIRST.len() || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(missing());
        }
        let path = part.path(&self.dir, digest);
        let bytes = folder::regular(&path).and_then(|()| fs::read(&path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => SharedPartError::Unreadable { path: path.clone(), why: error.to_string() },
        })?;
        if sha256_hex(&bytes) == digest { Ok(bytes) } else { Err(SharedPartError::Changed(path)) }
    }
}

/// Returns a cached value, or reads and caches it; the cache is bounded.
fn cached<T: Clone>(
    known: &Mutex<HashMap<String, T>>,
    digest: &str,
    read: impl FnOnce() -> Result<T, SharedPartError>,
) -> Result<T, SharedPartError> {
    if let Some(found) = lock(known).get(digest) {
        return Ok(found.clone());
    }
    let found = read()?;
    let mut known = lock(known);
    if known.len() >= MOST_KEPT {
        known.clear();
    }
    known.insert(digest.to_owned(), found.clone());
    Ok(found)
}

const MOST_KEPT: usize = 256;
/// A digest that no line has; it stands for the lines of a missing file.
const GONE: &str = "";
/// The longest line that is read; no record is as long, because it would not fit into a file.
const MOST_LINE: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::super::line::tests::record;
    use super::super::writer::{RecordOptions, RecordWriter};
    use super::*;

    /// Writes this many record files of a few lines each, without notes of what an older version would have removed.
    fn written(dir: &Path, files: usize) -> Vec<PathBuf> {
        let mut writer =
            RecordWriter::new(RecordOptions { max_segment: 4 << 10, ..RecordOptions::new(dir.to_owned()) });
        let mut line = Vec::new();
        while folder::segments(dir).map_or(0, |segments| segments.len()) < files {
            let digest = writer.seal(&mut record(), &mut line);
            writer.append(&line, digest).unwrap();
            writer.flush().unwrap();
        }
        folder::segments(dir).unwrap().into_iter().map(|segment| segment.path).collect()
    }

    /// Returns the files with a damaged line, and what is wrong with it.
    fn damaged(mut lines: RecordLines) -> Vec<(PathBuf, LineState)> {
        let (mut line, mut damaged) = (Vec::new(), Vec::new());
        while let Some((spot, found)) = lines.next(&mut line).unwrap() {
            if found != LineState::Complete {
                assert_eq!(spot.line, 1, "{spot}");
                damaged.push((spot.file.to_path_buf(), found));
            }
        }
        damaged
    }

    #[test]
    fn a_file_that_was_taken_away_is_noticed_unless_it_was_the_last() {
        // The files that are removed, and the files whose first line then follows nothing.
        let rows: [(&[usize], &[usize]); 8] = [
            (&[], &[]),
            (&[0], &[1]),
            (&[0, 1], &[2]),
            (&[5], &[]),
            (&[1], &[2]),
            (&[1, 2], &[3]),
            (&[1, 3], &[2, 4]),
            (&[0, 2], &[1, 3]),
        ];
        for (gone, expected) in rows {
            let dir = tempfile::tempdir().unwrap();
            let files = written(dir.path(), 6);
            gone.iter().for_each(|at| fs::remove_file(&files[*at]).unwrap());
            let expected: Vec<_> =
                expected.iter().map(|at| (files[*at].clone(), LineState::Damaged(LineDamage::OutOfOrder))).collect();
            assert_eq!(damaged(RecordLines::of(dir.path()).unwrap()), expected, "{gone:?}");
        }
        // A file that is removed after the folder was listed is not missed.
        let dir = tempfile::tempdir().unwrap();
        let files = written(dir.path(), 6);
        let lines = RecordLines::of(dir.path()).unwrap();
        fs::remove_file(&files[2]).unwrap();
        assert_eq!(damaged(lines), []);
    }

    #[test]
    fn files_that_became_too_old_are_not_missed_and_one_more_is() {
        let dir = tempfile::tempdir().unwrap();
        let files = written(dir.path(), 6);
        let run_id = folder::segments(dir.path()).unwrap().remove(0).run_id;
        for (noted, gone) in [(1, 0), (2, 1)] {
            folder::note_expired(dir.path(), &run_id, noted, std::time::SystemTime::now()).unwrap();
            fs::remove_file(&files[gone]).unwrap();
            assert_eq!(damaged(RecordLines::of(dir.path()).unwrap()), [], "{noted}");
        }
        fs::remove_file(&files[2]).unwrap();
        let expected = [(files[3].clone(), LineState::Damaged(LineDamage::OutOfOrder))];
        assert_eq!(damaged(RecordLines::of(dir.path()).unwrap()), expected);
        // A file of another name does not belong to another run.
        let other = files[3].with_file_name("calls-20260101T000000000Z-beef0000-0004.jsonl");
        fs::rename(&files[3], &other).unwrap();
        let found = damaged(RecordLines::of(dir.path()).unwrap());
        assert!(found.contains(&(other, LineState::Damaged(LineDamage::OutOfOrder))), "{found:?}");
    }

    #[test]
    fn records_of_an_older_version_may_lack_their_first_files() {
        let dir = tempfile::tempdir().unwrap();
        let (mut line, mut text) = (Vec::new(), Vec::new());
        let mut last = FIRST.to_owned();
        for number in 1..=3 {
            text.clear();
            last = record().seal(&last, &mut line);
            text.extend_from_slice(&line);
            text.push(b'\n');
            let segment = Segment::new(dir.path(), std::time::SystemTime::UNIX_EPOCH, "cafe", number);
            fs::write(segment.path, &text).unwrap();
        }
        assert_eq!(damaged(RecordLines::of(dir.path()).unwrap()), []);
        fs::remove_file(&folder::segments(dir.path()).unwrap()[0].path).unwrap();
        assert_eq!(damaged(RecordLines::of(dir.path()).unwrap()), []);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_a_part_keeps_nobody_waiting() {
        use rustix::fs::{CWD, Mode, mkfifoat};
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("parts")).unwrap();
        let path = SharedPart::Catalog.path(dir.path(), FIRST);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let why = "not a regular file".to_owned();
        assert_eq!(SharedParts::of(dir.path()).offers(FIRST).err(), Some(SharedPartError::Unreadable { path, why }));
        let mut writer = RecordWriter::new(RecordOptions::new(dir.path().to_owned()));
        assert!(writer.has_part(SharedPart::Catalog, &FIRST.into()).is_err());
    }
}
