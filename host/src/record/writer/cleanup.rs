//! Removes records that are too old or too many, and files that were not completely written.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
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
            let remove = (expired || total > most) && try_remove(&segment.path);
            total -= if remove { *bytes } else { 0 };
            !remove
        });
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
    let free = OpenOptions::new().read(true).open(path).is_ok_and(|file| file.try_lock().is_ok());
    free && fs::remove_file(path).is_ok()
}

/// How often an idle writer cleans up.
const TEND: Duration = Duration::from_secs(60 * 60);
const MOMENT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::super::folder::{PARTS, SharedPart};
    use super::super::super::line::tests::record;
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
