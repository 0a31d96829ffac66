//! Writes records line by line into a file, and starts the next file when one is full.

mod cleanup;

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::folder::{self, PARTS, Segment, SharedPart};
use super::line::{FIRST, Record};
use crate::private_files;

/// The folder of the records, and how much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// The folder; it is created when the first call is recorded.
    pub dir: PathBuf,
    /// The maximum size of one file, in bytes.
    pub max_segment: u64,
    /// The maximum size of all files, in bytes.
    pub max_total: u64,
    /// How long a record is kept.
    pub max_age: Duration,
    /// Whether arguments and answers are recorded unmasked.
    pub raw: bool,
}

impl RecordOptions {
    /// Returns the default limits for this folder.
    pub fn new(dir: PathBuf) -> Self {
        let crate::config::model::RecordRules { max_segment, max_total, max_age, raw, .. } = Default::default();
        RecordOptions { dir, max_segment, max_total, max_age, raw }
    }

    /// Returns the maximum size of one file, small enough that removing the oldest file makes room for a new one.
    fn segment_bytes(&self) -> u64 {
        self.max_segment.min(self.max_total / 4)
    }
}

/// Writes records into files.
pub(super) struct RecordWriter {
    pub(super) options: RecordOptions,
    /// Identifies the files of this process.
    run_id: String,
    /// The number of files started so far.
    count: u32,
    open: Option<OpenSegment>,
    /// The digest of the last line that is certainly in a file, and of the last line that is buffered.
    after: String,
    last: String,
    /// The lines that are buffered to be written together.
    waiting: Vec<u8>,
    /// The number of buffered lines; if `flush` fails, none of them was written.
    pub(super) lines: u64,
    /// The parts that exist and are known to be at least as recent as the open file.
    known: HashSet<(SharedPart, Arc<str>)>,
    /// The number of bytes written.
    pub(super) bytes: u64,
    cleaned_at: Option<SystemTime>,
    /// Whether the open file has been checked for existence since the last write.
    checked: bool,
}

struct OpenSegment {
    /// The file stays locked while it is open, so that no other process removes it.
    file: File,
    path: PathBuf,
    bytes: u64,
    since: SystemTime,
}

impl OpenSegment {
    /// Reports whether the file is gone from its path, or replaced by another one.
    fn is_gone(&self) -> bool {
        let (Ok(open), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(&self.path)) else { return true };
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            (open.dev(), open.ino()) != (there.dev(), there.ino())
        }
        #[cfg(not(unix))]
        {
            open.len() != there.len()
        }
    }
}

impl RecordWriter {
    /// Creates a writer; nothing is created or checked on disk before the first record.
    pub(super) fn new(rules: RecordOptions) -> Self {
        let options = RecordOptions { dir: std::path::absolute(&rules.dir).unwrap_or(rules.dir), ..rules };
        RecordWriter {
            options,
            run_id: format!("{:08x}", fastrand::u32(..)),
            count: 0,
            open: None,
            after: FIRST.to_owned(),
            last: FIRST.to_owned(),
            waiting: Vec::new(),
            lines: 0,
            known: HashSet::default(),
            bytes: 0,
            cleaned_at: None,
            checked: false,
        }
    }

    /// Writes the record into `line` as the next line, and returns its digest.
    pub(super) fn seal(&self, record: &mut Record, line: &mut Vec<u8>) -> String {
        record.run = Some(self.run_id.clone());
        record.seal(&self.last, line)
    }

    /// Buffers a line that was just sealed; it is in a file after the next `flush`.
    pub(super) fn append(&mut self, line: &[u8], digest: String) -> io::Result<()> {
        self.waiting.extend_from_slice(line);
        self.waiting.push(b'\n');
        self.lines += 1;
        self.last = digest;
        let most = BATCH.min(self.options.segment_bytes() / 4);
        if self.waiting.len() as u64 >= most { self.flush() } else { Ok(()) }
    }

    /// Reports whether a line is too long for a file.
    pub(super) fn is_too_long(&self, line: &[u8]) -> bool {
        line.len() as u64 >= self.options.segment_bytes() / 2
    }

    /// Writes the buffered lines.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.checked = false;
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.write(&waiting);
        self.lines = 0;
        match &written {
            Ok(()) => self.after.clone_from(&self.last),
            Err(_) => self.last.clone_from(&self.after),
        }
        self.waiting = waiting;
        self.waiting.clear();
        written
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let now = SystemTime::now();
        let most = self.options.segment_bytes();
        let is_over = |open: &OpenSegment| {
            let age = now.duration_since(open.since).unwrap_or_default();
            open.bytes + lines.len() as u64 > most || age > (self.options.max_age / 4).min(DAY)
        };
        if self.open.as_ref().is_none_or(is_over) {
            self.begin(now)?;
        }
        let open = self.open.as_mut().ok_or_else(|| io::Error::other("no file is open"))?;
        let written = open.file.write_all(lines);
        match written {
            Ok(()) => {
                open.bytes += lines.len() as u64;
                self.bytes += lines.len() as u64;
            }
            Err(_) => {
                // Half a line is useless, so cut it off; the next lines go into a new file.
                let _ = open.file.set_len(open.bytes);
                self.close_segment();
            }
        }
        written
    }

    /// Starts the next file, and removes the oldest files to make room for it.
    fn begin(&mut self, now: SystemTime) -> io::Result<()> {
        self.close_segment();
        private_files::ensure_real_folder(&self.options.dir)?;
        // The buffered lines may need the parts that the last file needed, so keep these parts recent.
        for (part, digest) in self.known.drain() {
            if let Ok(file) = open_part(&part.path(&self.options.dir, &digest)) {
                file.set_modified(now)?;
            }
        }
        self.clean_up(now)?;
        let segment = Segment::new(&self.options.dir, now, &self.run_id, self.count + 1);
        let file = private_files::create_file(&segment.path)?;
        // A process that cleans up at this moment sees a recent file and leaves it.
        file.lock()?;
        self.count += 1;
        self.open = Some(OpenSegment { file, path: segment.path, bytes: 0, since: now });
        Ok(())
    }

    /// Closes the open file. An empty file is removed and its number is used again, because a missing number means that
    /// somebody removed a file.
    fn close_segment(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.bytes == 0 && !open.is_gone() && fs::remove_file(&open.path).is_ok() {
            self.count -= 1;
        }
    }

    /// Stores a shared part if it does not exist yet; records that need it must follow.
    pub(super) fn store_part(&mut self, part: SharedPart, digest: &Arc<str>, bytes: &[u8]) -> io::Result<()> {
        if self.has_part(part, digest)? {
            return Ok(());
        }
        private_files::ensure_real_folder(&self.options.dir.join(PARTS))?;
        private_files::replace(&part.path(&self.options.dir, digest), bytes)?;
        self.known.insert((part, Arc::clone(digest)));
        Ok(())
    }

    /// Reports whether a part is stored, and if so marks it as recent as the open file.
    pub(super) fn has_part(&mut self, part: SharedPart, digest: &Arc<str>) -> io::Result<bool> {
        self.check_open_file();
        let key = (part, Arc::clone(digest));
        if self.open.is_some() && self.known.contains(&key) {
            return Ok(true);
        }
        if self.open.is_none() {
            self.begin(SystemTime::now())?;
        }
        match open_part(&part.path(&self.options.dir, digest)) {
            Ok(file) => file.set_modified(SystemTime::now())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        self.known.insert(key);
        Ok(true)
    }

    /// Checks once per write whether the open file still exists. If not, the writer starts a new file and stores the
    /// parts again.
    fn check_open_file(&mut self) {
        if !std::mem::replace(&mut self.checked, true) && self.open.as_ref().is_some_and(OpenSegment::is_gone) {
            let dir = self.options.dir.display();
            tracing::warn!("the record file in {dir} was removed; recording continues in a new file");
            self.open = None;
            self.known.clear();
        }
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        self.close_segment();
    }
}

/// Opens a part that exists already.
fn open_part(path: &Path) -> io::Result<File> {
    folder::regular(path)?;
    OpenOptions::new().write(true).open(path)
}

/// The number of bytes to write at once.
const BATCH: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
pub(super) mod tests;
