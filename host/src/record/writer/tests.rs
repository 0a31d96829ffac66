//! Tests of the writer, and limits for other tests.

use super::super::line;
use super::super::line::tests::record;
use super::super::reader::{LineState, RecordLines};
use super::*;

pub fn rules(dir: &Path) -> RecordOptions {
    RecordOptions { max_segment: 64 << 10, max_total: 4 << 20, ..RecordOptions::new(dir.join("records")) }
}

pub fn put(writer: &mut RecordWriter, record: &Record) {
    let mut line = Vec::new();
    let digest = writer.seal(&mut record.clone(), &mut line);
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
    assert_eq!(writer.lines, 1);
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
