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
    options: RecordOptions,
    /// Identifies the files of this process.
    run_id: String,
    /// The number of files started so far.
    count: u32,
    open: Option<OpenSegment>,
    /// The digest of the last line that is certainly in a file, and of the last line that is buffered.
    after: String,
    last: String,
    /// The lines that are buffered to be written together, and their number.
    waiting: Vec<u8>,
    lines: u64,
    /// The parts that exist and are known to be at least as recent as the open file.
    known: HashSet<(SharedPart, Arc<str>)>,
    /// The number of bytes written.
    bytes: u64,
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

    pub(super) fn options(&self) -> &RecordOptions {
        &self.options
    }

    /// Returns the number of bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the record into `line` as the next line, and returns its digest.
    pub(super) fn seal(&self, record: &Record, line: &mut Vec<u8>) -> String {
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

    /// Returns the number of buffered lines; if `flush` fails, none of them was written.
    pub(super) fn waiting(&self) -> u64 {
        self.lines
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
pub(super) mod tests {
    use super::super::line;
    use super::super::line::tests::record;
    use super::super::reader::{LineState, RecordLines};
    use super::*;

    pub fn rules(dir: &Path) -> RecordOptions {
        RecordOptions { max_segment: 64 << 10, max_total: 4 << 20, ..RecordOptions::new(dir.join("records")) }
    }

    pub fn put(writer: &mut RecordWriter, record: &Record) {
        let mut line = Vec::new();
        let digest = writer.seal(record, &mut line);
        writer.append(&line, digest).unwrap();
    }

    #[test]
    fn files_are_full_at_some_time_and_the_oldest_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let rules = RecordOptions { max_total: 1 << 20, ..rules(dir.path()) };
        let mut writer = RecordWriter::new(rules.clone());
        writer.store_part(SharedPart::Settings, &"d1".into(), b"{}").unwrap();
        let mut lines = 0;
        while writer.count < 40 {
            put(&mut writer, &record());
            writer.flush().unwrap();
            lines += 1;
        }
        let kept = folder::segments(&rules.dir).unwrap();
        let sizes: Vec<u64> = kept.iter().map(|segment| fs::metadata(&segment.path).unwrap().len()).collect();
        assert!(sizes.iter().all(|size| *size <= 64 << 10), "{sizes:?}");
        assert!(sizes.iter().sum::<u64>() <= 1 << 20, "{sizes:?}");
        assert!(kept.len() > 8 && kept.len() < 40 && kept.last().unwrap().number == 40, "{}", kept.len());
        assert!(lines > 40 * 30, "{lines}");
        // Each line follows the one before it, also across files.
        let mut after: Option<String> = None;
        for segment in &kept {
            for line in fs::read(&segment.path).unwrap().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let seal = line::LineSeal::find(line).unwrap();
                assert!(seal.holds() && after.is_none_or(|after| after == seal.after));
                after = Some(seal.digest.to_owned());
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_removed_under_a_writer_is_noticed_and_what_follows_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        let removals: [fn(&Path); 4] = [
            |_| {},
            |records| fs::remove_dir_all(records).unwrap(),
            |records| fs::rename(records, records.with_extension("old")).unwrap(),
            |records| fs::remove_file(&folder::segments(records).unwrap().remove(0).path).unwrap(),
        ];
        for (at, remove) in removals.into_iter().enumerate() {
            if at > 0 {
                remove(&rules.dir);
            }
            for _ in 0..2 {
                writer.store_part(SharedPart::Tools, &"d1".into(), b"[]").unwrap();
                put(&mut writer, &record());
                writer.flush().unwrap();
            }
            let kept = folder::segments(&rules.dir).unwrap();
            assert_eq!((kept.len(), folder::parts(&rules.dir).unwrap().len()), (1, 1), "{at}");
            assert_eq!(fs::read_to_string(&kept[0].path).unwrap().lines().count(), 2, "{at}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_what_is_recorded() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        writer.store_part(SharedPart::Settings, &"d1".into(), b"{}").unwrap();
        put(&mut writer, &record());
        writer.flush().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&rules.dir), mode(&rules.dir.join(PARTS))), (0o700, 0o700));
        let files = folder::segments(&rules.dir).unwrap().into_iter().map(|segment| segment.path);
        for path in files.chain(folder::parts(&rules.dir).unwrap()) {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
        // A folder that others can write is refused.
        fs::set_permissions(&rules.dir, fs::Permissions::from_mode(0o777)).unwrap();
        let mut refused = RecordWriter::new(rules.clone());
        put(&mut refused, &record());
        let error = refused.flush().unwrap_err().to_string();
        assert!(error.contains("may be written by all others"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_leaves_no_half_line_and_what_follows_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        put(&mut writer, &record());
        writer.flush().unwrap();
        // Use a full disk if the system has one for tests, else a file that cannot be written.
        let file = folder::segments(&rules.dir).unwrap().remove(0).path;
        let full = OpenOptions::new().write(true).open("/dev/full");
        writer.open.as_mut().unwrap().file = full.or_else(|_| File::open(file)).unwrap();
        put(&mut writer, &record());
        assert_eq!(writer.waiting(), 1);
        writer.flush().unwrap_err();
        put(&mut writer, &record());
        writer.flush().unwrap();
        let kept = folder::segments(&rules.dir).unwrap();
        let texts: Vec<String> = kept.iter().map(|segment| fs::read_to_string(&segment.path).unwrap()).collect();
        let lines: Vec<&[u8]> = texts.iter().flat_map(|text| text.lines()).map(str::as_bytes).collect();
        assert_eq!((kept.len(), lines.len()), (2, 2));
        let seals: Vec<_> = lines.iter().map(|line| line::LineSeal::find(line).unwrap()).collect();
        assert_eq!(seals[1].after, seals[0].digest);
    }

    #[test]
    fn a_disk_that_stays_full_is_not_littered_and_no_file_seems_to_be_missing_later() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        for number in 1..3 {
            for _ in 0..5 {
                // A file that cannot be written.
                writer.begin(SystemTime::now()).unwrap();
                let open = writer.open.as_mut().unwrap();
                open.file = File::open(&open.path).unwrap();
                put(&mut writer, &record());
                writer.flush().unwrap_err();
                assert_eq!(folder::segments(&rules.dir).unwrap().len(), number - 1);
            }
            put(&mut writer, &record());
            writer.flush().unwrap();
            writer.begin(SystemTime::now()).unwrap();
        }
        drop(writer);
        let numbers: Vec<u32> = folder::segments(&rules.dir).unwrap().iter().map(|segment| segment.number).collect();
        assert_eq!(numbers, [1, 2]);
        let (mut lines, mut line) = (RecordLines::of(&rules.dir).unwrap(), Vec::new());
        while let Some((spot, found)) = lines.next(&mut line).unwrap() {
            assert_eq!(found, LineState::Complete, "{spot}");
        }
    }
}
