//! Removes records that are too old or too many, and files that were not completely written.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::folder::{self, Segment};
use super::{RecordOptions, RecordWriter};
use crate::private_files;

impl RecordWriter {
    /// Cleans up from time to time.
    pub(in super::super) fn clean_up_if_due(&mut self) {
        let now = SystemTime::now();
        let lately = |tended: SystemTime| now.duration_since(tended).is_ok_and(|since| since < TEND);
        if self.count > 0 && !self.cleaned_at.is_some_and(lately) {
            // Files that cannot be removed now are tried again later.
            let _ = self.clean_up(now);
        }
    }

    /// Removes records that are too old or too many, and parts that no record needs.
    pub(super) fn clean_up(&mut self, now: SystemTime) -> io::Result<()> {
        self.cleaned_at = Some(now);
        let RecordOptions { dir, max_total, max_age, .. } = &self.options;
        let sized =
            |path: &Path| fs::metadata(path).map(|metadata| (metadata.len(), metadata.modified().unwrap_or(now)));
        let parts = folder::parts(dir)?;
        let mut segments: Vec<_> = folder::segments(dir)?
            .into_iter()
            .filter_map(|segment| sized(&segment.path).ok().map(|(bytes, at)| (segment, bytes, at)))
            .collect();
        let of_parts: u64 = parts.iter().filter_map(|path| sized(path).ok()).map(|(bytes, _)| bytes).sum();
        let mut total = of_parts + segments.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        // Leave room for the file that is started next.
        let most = max_total.saturating_sub(self.options.segment_bytes());
        // A time after `now` means that the file was created since.
        let young = |at: SystemTime| now.duration_since(at).map_or(true, |age| age < MOMENT);
        remove_empty(&mut segments, young);
        segments.retain(|(segment, bytes, at)| {
            let expired = now.duration_since(*at).is_ok_and(|age| age > *max_age);
            let remove = (expired || total > most) && try_expire(dir, segment, now);
            total -= if remove { *bytes } else { 0 };
            !remove
        });
        self.tend_notes(&segments, now);
        let oldest = segments.first().map(|(segment, ..)| segment.stamp.clone());
        for path in parts {
            let Ok((_, at)) = sized(&path) else { continue };
            // A part may be a little older than the first file that needs it.
            let needed = oldest.as_ref().is_some_and(|oldest| folder::stamp(at + MOMENT) >= *oldest);
            // A part that was not completely written is useless, unless it is so recent that it may still be in
            // progress.
            if !young(at) && (!needed || private_files::is_unfinished(&path)) {
                // Another process may have removed it; if it cannot be removed now, it is tried again later.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Removes the notes of runs that have no file any more. The process of such a run may still live and start another
    /// file, so it keeps its own note recent, and others leave a recent note alone.
    fn tend_notes(&self, segments: &[(Segment, u64, SystemTime)], now: SystemTime) {
        let RecordOptions { dir, max_age, .. } = &self.options;
        for run_id in folder::expired(dir).unwrap_or_default().into_keys() {
            let path = folder::expired_path(dir, &run_id);
            if run_id == self.run_id {
                // Another process may have removed it.
                let _ = folder::touch(&path, now);
                continue;
            }
            let has_files = segments.iter().any(|(segment, ..)| segment.run_id == run_id);
            let noted = fs::metadata(&path).and_then(|metadata| metadata.modified()).unwrap_or(now);
            let is_old = now.duration_since(noted).is_ok_and(|age| age > (*max_age).max(2 * TEND));
            if !has_files && is_old {
                // If it cannot be removed now, it is tried again later.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Notes that a file is too old or one too many and removes it, unless a process still writes to it.
fn try_expire(dir: &Path, segment: &Segment, now: SystemTime) -> bool {
    let Some(_held) = lock_free(&segment.path) else { return false };
    if fs::symlink_metadata(&segment.path).is_err() {
        // Another process has just removed and noted it, perhaps with later ones.
        return false;
    }
    if let Err(error) = folder::note_expired(dir, &segment.run_id, segment.number, now) {
        // The limits hold even on a full disk; without the note, the file will be missed.
        tracing::warn!("cannot note that {} was removed for its age or size: {error}", segment.path.display());
    }
    fs::remove_file(&segment.path).is_ok()
}

/// Removes empty files that no process has open, unless later files of the same process follow: then a gap in the
/// numbers would look as if somebody had removed a file.
fn remove_empty(segments: &mut Vec<(Segment, u64, SystemTime)>, young: impl Fn(SystemTime) -> bool) {
    let mut followed = HashSet::new();
    for at in (0..segments.len()).rev() {
        let (Segment { run_id, path, .. }, bytes, since) = &segments[at];
        if *bytes == 0 && !young(*since) && !followed.contains(run_id) && try_remove(path) {
            segments.remove(at);
        } else {
            followed.insert(run_id.clone());
        }
    }
}

/// Removes a file, unless a process still writes to it.
fn try_remove(path: &Path) -> bool {
    lock_free(path).is_some() && fs::remove_file(path).is_ok()
}

/// Opens and locks a file; returns `None` if a process writes to it.
fn lock_free(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// How often an idle writer cleans up.
const TEND: Duration = Duration::from_secs(60 * 60);
const MOMENT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::super::folder::{PARTS, SharedPart};
    use super::super::super::line::tests::record;
    use super::super::super::reader::{LineState, RecordLines};
    use super::super::tests::{put, rules};
    use super::*;

    #[test]
    fn what_is_too_old_goes_with_the_parts_that_nobody_needs() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut first = RecordWriter::new(rules.clone());
        first.store_part(SharedPart::Tools, &"d1".into(), b"[]").unwrap();
        put(&mut first, &record());
        first.flush().unwrap();
        let now = SystemTime::now();
        // The file is still open.
        let later = now + rules.max_age * 2;
        let mut second = RecordWriter::new(rules.clone());
        second.clean_up(later).unwrap();
        assert_eq!(folder::segments(&rules.dir).unwrap().len(), 1);
        drop(first);
        second.clean_up(now).unwrap();
        assert_eq!(folder::segments(&rules.dir).unwrap().len(), 1);
        assert_eq!(folder::parts(&rules.dir).unwrap().len(), 1);
        second.clean_up(later).unwrap();
        assert_eq!(folder::segments(&rules.dir).unwrap(), []);
        assert!(folder::parts(&rules.dir).unwrap().is_empty());
    }

    #[test]
    fn what_is_removed_by_age_is_noted_until_the_run_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        for _ in 0..3 {
            put(&mut writer, &record());
            writer.flush().unwrap();
            writer.close_segment();
        }
        let run_id = writer.run_id.clone();
        let segments = folder::segments(&rules.dir).unwrap();
        let file = File::options().write(true).open(&segments[0].path).unwrap();
        file.set_modified(SystemTime::now() - 2 * rules.max_age).unwrap();
        drop(file);
        let mut other = RecordWriter::new(rules.clone());
        other.clean_up(SystemTime::now()).unwrap();
        assert_eq!(folder::segments(&rules.dir).unwrap(), segments[1..]);
        assert_eq!(folder::expired(&rules.dir).unwrap().get(&run_id), Some(&1));
        let later = SystemTime::now() + 2 * rules.max_age;
        // Its process still lives, and may go on with a fourth file.
        other.clean_up(later).unwrap();
        assert_eq!(folder::segments(&rules.dir).unwrap(), []);
        assert_eq!(folder::expired(&rules.dir).unwrap().get(&run_id), Some(&3));
        put(&mut writer, &record());
        writer.flush().unwrap();
        let (mut lines, mut line) = (RecordLines::of(&rules.dir).unwrap(), Vec::new());
        while let Some((spot, found)) = lines.next(&mut line).unwrap() {
            assert_eq!(found, LineState::Complete, "{spot}");
        }
        drop(writer);
        for wait in [3, 6] {
            other.clean_up(SystemTime::now() + wait * rules.max_age).unwrap();
        }
        assert_eq!(folder::segments(&rules.dir).unwrap(), []);
        assert!(folder::expired(&rules.dir).unwrap().is_empty());
    }

    #[test]
    fn what_a_process_that_has_gone_left_unfinished_goes_after_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        writer.store_part(SharedPart::Tools, &"d1".into(), b"[]").unwrap();
        put(&mut writer, &record());
        writer.flush().unwrap();
        let unfinished = SharedPart::Component.path(&rules.dir, "d2").with_extension("123-0.part");
        fs::write(&unfinished, "half").unwrap();
        // Another process may have started the file after this one read its clock.
        for now in [SystemTime::now(), SystemTime::now() - Duration::from_millis(100)] {
            writer.clean_up(now).unwrap();
            assert!(unfinished.exists(), "somebody may be at it");
        }
        writer.clean_up(SystemTime::now() + 2 * MOMENT).unwrap();
        assert_eq!(folder::parts(&rules.dir).unwrap(), [SharedPart::Tools.path(&rules.dir, "d1")]);
    }

    #[test]
    fn empty_files_of_processes_that_have_gone_go_after_a_moment_unless_others_follow_them() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        let mut writer = RecordWriter::new(rules.clone());
        put(&mut writer, &record());
        writer.flush().unwrap();
        let now = SystemTime::now();
        let file = |run: &str, number, text| {
            let segment = Segment::new(&rules.dir, now, run, number);
            fs::write(&segment.path, text).unwrap();
            segment
        };
        let stay = [file("beef", 1, ""), file("beef", 2, "a line\n"), file("cafe", 1, "a line\n")];
        let go = [file("beef", 3, ""), file("beef", 4, ""), file("cafe", 2, ""), file("f00d", 1, "")];
        writer.clean_up(now).unwrap();
        assert_eq!(folder::segments(&rules.dir).unwrap().len(), 8, "somebody may be at them");
        // The open file is locked, even if it is empty.
        writer.begin(now).unwrap();
        writer.clean_up(now + 2 * MOMENT).unwrap();
        let left = folder::segments(&rules.dir).unwrap();
        assert_eq!(left.len(), 5, "{left:?}");
        assert!(stay.iter().all(|one| left.contains(one)) && !go.iter().any(|one| left.contains(one)), "{left:?}");
    }

    #[test]
    fn two_processes_may_remove_what_is_too_old_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let rules = rules(dir.path());
        private_files::create_folder(&rules.dir.join(PARTS)).unwrap();
        let later = SystemTime::now() + 2 * MOMENT;
        for _ in 0..20 {
            (0..100).for_each(|n| fs::write(SharedPart::Tools.path(&rules.dir, &n.to_string()), "[]").unwrap());
            let start = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                let tend = || {
                    let mut writer = RecordWriter::new(rules.clone());
                    start.wait();
                    writer.clean_up(later)
                };
                for one in [scope.spawn(tend), scope.spawn(tend)] {
                    one.join().unwrap().unwrap();
                }
            });
            assert!(folder::parts(&rules.dir).unwrap().is_empty());
        }
    }
}
