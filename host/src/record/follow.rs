//! Follows records as they are written: each look returns the lines that came since the one before.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::folder;
use super::line::{self, LineDamage, Record};

/// Follows the records in several folders, whose files grow, begin and expire meanwhile.
pub(crate) struct RecordFollower {
    dirs: Vec<PathBuf>,
    files: HashMap<PathBuf, FollowedFile>,
}

/// A file that is followed.
#[derive(Clone, Copy, Default)]
struct FollowedFile {
    /// Where the first line begins that was not returned yet.
    next: u64,
    /// The length of the file at the last look.
    length: u64,
    /// The number of the look that saw the file last.
    look: u64,
}

/// A line that came since the last look.
pub(crate) struct FollowedLine {
    /// The index of its folder.
    pub folder: usize,
    /// The file.
    pub file: PathBuf,
    /// The record, or its damage.
    pub record: Result<Record, LineDamage>,
}

impl RecordFollower {
    /// Follows these folders from now on: the lines that they have already are never returned.
    pub(crate) fn new(dirs: &[PathBuf]) -> io::Result<Self> {
        let mut follower = RecordFollower { dirs: dirs.to_vec(), files: HashMap::new() };
        for dir in dirs {
            for path in paths(dir)? {
                let next = end_of_lines(&path).or_else(none_if_missing)?.unwrap_or_default();
                follower.files.insert(path, FollowedFile { next, length: next, look: 0 });
            }
        }
        Ok(follower)
    }

    /// Returns the lines that came since the last look, by the time at which their calls ended.
    pub(crate) fn look(&mut self) -> io::Result<Vec<FollowedLine>> {
        let mut found = Vec::new();
        let look = self.files.values().map(|file| file.look).max().unwrap_or_default() + 1;
        for (folder, dir) in self.dirs.iter().enumerate() {
            for path in paths(dir)? {
                let Some(length) = path.metadata().map(|metadata| Some(metadata.len())).or_else(none_if_missing)?
                else {
                    continue;
                };
                let file = self.files.entry(path.clone()).or_default();
                file.look = look;
                if length == file.length {
                    continue;
                }
                file.length = length;
                let Some(text) = read_from(&path, file.next).or_else(none_if_missing)? else { continue };
                // What follows the last line end is still being written.
                let end = memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1);
                file.next += end as u64;
                for line in text[..end].split_inclusive(|byte| *byte == b'\n') {
                    let record = line::read(&line[..line.len() - 1]);
                    let ended = line::times(line).map(|times| times.ended);
                    found.push((ended, FollowedLine { folder, file: path.clone(), record }));
                }
            }
        }
        self.files.retain(|_, file| file.look == look);
        found.sort_by_key(|(ended, _)| *ended);
        Ok(found.into_iter().map(|(_, line)| line).collect())
    }
}

/// Lists the record files in a folder, which may not exist yet, oldest first: calls may end at the same time.
fn paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match folder::segments(dir) {
        Ok(segments) => Ok(segments.into_iter().map(|segment| segment.path).collect()),
        Err(error) => none_if_missing(error).map(|none: Option<Vec<_>>| none.unwrap_or_default()),
    }
}

/// Finds where the last complete line of a file ends.
fn end_of_lines(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let mut start = file.metadata()?.len();
    let mut block = Vec::new();
    while start > 0 {
        let bytes = BLOCK.min(start);
        start -= bytes;
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        (&mut file).take(bytes).read_to_end(&mut block)?;
        if let Some(end) = memchr::memrchr(b'\n', &block) {
            return Ok(Some(start + end as u64 + 1));
        }
    }
    Ok(Some(0))
}

/// Reads a file from an offset to its end.
fn read_from(path: &Path, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Makes nothing of a file that expired after its folder was listed.
fn none_if_missing<T>(error: io::Error) -> io::Result<Option<T>> {
    if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
}

const BLOCK: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::line::tests::record;
    use super::super::writer::{RecordOptions, RecordWriter};
    use super::*;

    /// Writes a record of a call with this id.
    fn write(writer: &mut RecordWriter, id: &str) {
        let mut line = Vec::new();
        let digest = writer.seal(&mut Record { id: id.to_owned(), ..record() }, &mut line);
        writer.append(&line, digest).unwrap();
        writer.flush().unwrap();
    }

    fn look(follower: &mut RecordFollower) -> Vec<String> {
        let lines = follower.look().unwrap().into_iter();
        lines.map(|line| line.record.map_or_else(|damage| damage.to_string(), |record| record.id)).collect()
    }

    #[test]
    fn each_new_line_is_returned_once_over_files_that_begin_and_expire() {
        let place = tempfile::tempdir().unwrap();
        let dirs = [place.path().join("a"), place.path().join("b")];
        let options = |dir: &PathBuf| RecordOptions { max_segment: 4 << 10, ..RecordOptions::new(dir.clone()) };
        let mut writer = RecordWriter::new(options(&dirs[0]));
        write(&mut writer, "old");
        let mut follower = RecordFollower::new(&dirs).unwrap();
        assert_eq!(look(&mut follower), [""; 0]);
        let ids: Vec<String> = (0..40).map(|number| format!("call {number}")).collect();
        for ids in ids.chunks(7) {
            ids.iter().for_each(|id| write(&mut writer, id));
            assert_eq!(look(&mut follower), ids);
            assert_eq!(look(&mut follower), [""; 0]);
        }
        let files = folder::segments(&dirs[0]).unwrap();
        assert!(files.len() > 3, "{} files", files.len());
        // A folder that did not exist, and a file that is gone.
        write(&mut RecordWriter::new(options(&dirs[1])), "other");
        fs::remove_file(&files[0].path).unwrap();
        assert_eq!(look(&mut follower), ["other"]);
        assert_eq!(follower.files.len(), files.len());
    }

    #[test]
    fn a_line_counts_when_it_is_complete_and_damage_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a");
        write(&mut RecordWriter::new(RecordOptions::new(dir.clone())), "one");
        let file = folder::segments(&dir).unwrap().remove(0).path;
        let text = fs::read_to_string(&file).unwrap();
        for length in [1, text.len() / 2, text.len() - 1] {
            fs::write(&file, &text[..length]).unwrap();
            let mut follower = RecordFollower::new(std::slice::from_ref(&dir)).unwrap();
            assert_eq!(look(&mut follower), [""; 0], "{length}");
            fs::write(&file, &text).unwrap();
            assert_eq!(look(&mut follower), ["one"], "{length}");
        }
        let mut follower = RecordFollower::new(&[dir]).unwrap();
        fs::write(&file, text.clone() + &text.replacen("one", "two", 1)).unwrap();
        assert_eq!(look(&mut follower), ["the line was changed after it was written"]);
    }
}
