//! Reads the records of several folders as one record, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::backtest::{BacktestError, list_segments, unreadable};
use super::line;
use super::reader::{LinePosition, LineState, RecordLines};

/// The lines of all record files in several folders, by the times at which their calls began.
///
/// Each folder is read in its own order, so that its chains can be checked. Memory holds one line of each folder.
pub(super) struct MergedLines {
    folders: Vec<FolderLines>,
    /// The folders that have a line left, the earliest line first, and of lines at the same time that of the first folder.
    waiting: BinaryHeap<Reverse<(SystemTime, usize)>>,
    count: u64,
}

/// One folder, and the line that was read from it but not yet returned.
struct FolderLines {
    dir: PathBuf,
    lines: RecordLines,
    head: Option<(LinePosition, LineState)>,
    line: Vec<u8>,
    time: SystemTime,
}

impl MergedLines {
    /// Opens all record files in these folders; a folder without any is an error.
    pub(super) fn of(dirs: &[PathBuf]) -> Result<Self, BacktestError> {
        let folders = dirs.iter().map(|dir| FolderLines::of(dir)).collect::<Result<Vec<_>, _>>()?;
        let mut merged = MergedLines { folders, waiting: BinaryHeap::new(), count: 0 };
        (0..dirs.len()).try_for_each(|index| merged.read_ahead(index))?;
        Ok(merged)
    }

    /// Reads the next line into the buffer and returns its position, or `None` after the last one of all folders.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> Result<Option<(LinePosition, LineState)>, BacktestError> {
        let Some(Reverse((_, index))) = self.waiting.pop() else { return Ok(None) };
        let folder = &mut self.folders[index];
        std::mem::swap(line, &mut folder.line);
        let head = folder.head.take();
        self.read_ahead(index)?;
        self.count += 1;
        Ok(head.map(|(spot, state)| (LinePosition { order: self.count, folder: index, ..spot }, state)))
    }

    /// Reads the next line of a folder, if it has one.
    fn read_ahead(&mut self, index: usize) -> Result<(), BacktestError> {
        // The order of a single folder does not depend on time.
        let is_merged = self.folders.len() > 1;
        let folder = &mut self.folders[index];
        folder.head = folder.lines.next(&mut folder.line).map_err(unreadable(&folder.dir))?;
        if folder.head.is_some() {
            // A line that is damaged stays where it is in its folder.
            if is_merged && let Some(times) = line::times(&folder.line) {
                folder.time = times.began;
            }
            self.waiting.push(Reverse((folder.time, index)));
        }
        Ok(())
    }
}

impl FolderLines {
    fn of(dir: &Path) -> Result<Self, BacktestError> {
        let lines = RecordLines::of_all_segments(dir, list_segments(dir)?).map_err(unreadable(dir))?;
        Ok(FolderLines { dir: dir.to_owned(), lines, head: None, line: Vec::new(), time: SystemTime::UNIX_EPOCH })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::folder;
    use super::super::line::LineDamage;
    use super::super::line::tests::record;
    use super::super::writer::tests::put;
    use super::super::writer::{RecordOptions, RecordWriter};
    use super::*;
    use crate::calendar::Utc;

    /// Records calls that last a second, in the order in which they are given, by the second at which each began.
    pub fn write_calls(dir: &Path, calls: &[(&str, u64)]) -> PathBuf {
        let before = folder::segments(dir).unwrap_or_default();
        let mut writer = RecordWriter::new(RecordOptions::new(dir.to_owned()));
        for (id, second) in calls {
            let at = Utc::from(SystemTime::UNIX_EPOCH + Duration::from_secs(*second)).to_string();
            put(&mut writer, &line::Record { id: (*id).to_owned(), at, ms: 1000.0, ..record() });
        }
        writer.flush().unwrap();
        let new = folder::segments(dir).unwrap().into_iter().find(|segment| !before.contains(segment));
        new.expect("the calls are in a file of their own").path
    }

    /// Returns the folder of each line, the id of its call if the line is whole, and its state.
    fn read(dirs: &[PathBuf]) -> Vec<(usize, String, LineState)> {
        let (mut lines, mut line, mut found) = (MergedLines::of(dirs).unwrap(), Vec::new(), Vec::new());
        while let Some((spot, state)) = lines.next(&mut line).unwrap() {
            assert!(spot.file.starts_with(&dirs[spot.folder]), "{spot}");
            found.push((spot.folder, line::read(&line).map(|record| record.id).unwrap_or_default(), state));
            assert_eq!(spot.order, found.len() as u64);
        }
        found
    }

    fn check(folders: &[&[(&str, u64)]], expected: &str) {
        let place = tempfile::tempdir().unwrap();
        let dirs: Vec<_> = (0..folders.len()).map(|index| place.path().join(index.to_string())).collect();
        for (dir, calls) in dirs.iter().zip(folders) {
            write_calls(dir, calls);
        }
        let found = read(&dirs);
        assert!(found.iter().all(|(.., state)| *state == LineState::Complete), "{found:?}");
        let ids: Vec<_> = found.iter().map(|(_, id, _)| id.as_str()).collect();
        assert_eq!(ids.join(" "), expected, "{folders:?}");
    }

    #[test]
    fn several_folders_are_read_in_the_order_of_time_and_each_in_its_own() {
        check(&[&[("a1", 1), ("a4", 4)], &[("b2", 2), ("b3", 3)]], "a1 b2 b3 a4");
        check(&[&[("b2", 2), ("b3", 3)], &[("a1", 1), ("a4", 4)]], "a1 b2 b3 a4");
        check(&[&[("a1", 1), ("a2", 1)], &[("b1", 1)], &[("c0", 0), ("c1", 1)]], "c0 a1 a2 b1 c1");
        // A call that took long is recorded after calls that began later.
        check(&[&[("a5", 5), ("a1", 1), ("a6", 6)], &[("b4", 4), ("b7", 7)]], "b4 a5 a1 a6 b7");
        check(&[&[("a5", 5), ("a1", 1)]], "a5 a1");
    }

    #[test]
    fn damage_is_noticed_in_its_own_folder_and_stays_in_its_place() {
        let place = tempfile::tempdir().unwrap();
        let dirs = [place.path().join("a"), place.path().join("b")];
        let file = write_calls(&dirs[0], &[("a1", 1), ("a3", 3), ("a5", 5)]);
        write_calls(&dirs[1], &[("b2", 2), ("b4", 4)]);
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let complete = |folder, id: &str| (folder, id.to_owned(), LineState::Complete);
        fs::write(&file, text.replacen(r#""id":"a3","at""#, r#""id":"a3","by""#, 1)).unwrap();
        let changed = (0, String::new(), LineState::Complete);
        let expected = [complete(0, "a1"), changed, complete(1, "b2"), complete(1, "b4"), complete(0, "a5")];
        assert_eq!(read(&dirs), expected);
        fs::write(&file, [lines[0], lines[2]].concat()).unwrap();
        let after_gap = (0, "a5".to_owned(), LineState::Damaged(LineDamage::OutOfOrder));
        assert_eq!(read(&dirs), [complete(0, "a1"), complete(1, "b2"), complete(1, "b4"), after_gap]);
    }

    #[test]
    fn a_folder_without_records_is_named() {
        let place = tempfile::tempdir().unwrap();
        let dirs = [place.path().join("a"), place.path().join("b")];
        write_calls(&dirs[0], &[("a1", 1)]);
        let error = || crate::failure::format_chain(&MergedLines::of(&dirs).err().unwrap());
        assert!(error().starts_with(&format!("cannot read the records in {}: ", dirs[1].display())), "{}", error());
        fs::create_dir(&dirs[1]).unwrap();
        assert_eq!(error(), format!("there are no records in {}", dirs[1].display()));
    }
}
