//! Tests that the newest records come first, and that no more is read than that takes.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use super::super::line::tests::record;
use super::super::merge::tests::write_calls;
use super::super::writer::tests::put;
use super::super::writer::{RecordOptions, RecordWriter};
use super::*;

fn budget(bytes: u64) -> ReadBudget {
    ReadBudget { bytes, until: Instant::now() + Duration::from_secs(600) }
}

/// Returns the ids of up to `most` records, and what kept others from being read.
fn ids(mut records: NewestRecords, most: usize) -> (String, Vec<ReadProblem>) {
    let mut found = Vec::new();
    while found.len() < most
        && let Some((_, record)) = records.next()
    {
        found.push(record.id);
    }
    (found.join(" "), records.into_problems())
}

fn all(dirs: &[PathBuf]) -> (String, Vec<ReadProblem>) {
    ids(NewestRecords::of(dirs, None, budget(1 << 30)), usize::MAX)
}

/// Pretends that the file was changed last at this second.
fn touch(file: &Path, second: u64) {
    File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second))
        .unwrap();
}

#[test]
fn the_newest_records_of_all_files_come_first() {
    let place = tempfile::tempdir().unwrap();
    let dirs = [place.path().join("a"), place.path().join("b")];
    // Two processes record in one folder.
    write_calls(&dirs[0], &[("a1", 1), ("a4", 4), ("a8", 8)]);
    write_calls(&dirs[0], &[("c3", 3), ("c5", 5)]);
    write_calls(&dirs[1], &[("b2", 2), ("b6", 6), ("b7", 7)]);
    let expected = "a8 b7 b6 c5 a4 c3 b2 a1";
    assert_eq!(all(&dirs), (expected.to_owned(), Vec::new()));
    for most in 0..8 {
        let records = NewestRecords::of(&dirs, None, budget(1 << 30));
        assert_eq!(ids(records, most).0, expected[..(3 * most).saturating_sub(1)], "{most}");
    }
}

#[test]
fn only_the_files_that_can_have_the_newest_records_are_opened() {
    let place = tempfile::tempdir().unwrap();
    let dirs = [place.path().to_owned()];
    let write = |number: u64| (write_calls(place.path(), &[(&number.to_string(), 100 * number)]), 100 * number + 1);
    let files: Vec<_> = (1..=50).map(write).collect();
    files.iter().for_each(|(file, ended)| touch(file, *ended));
    let mut records = NewestRecords::of(&dirs, None, budget(1 << 30));
    for number in (48..=50).rev() {
        assert_eq!(records.next().unwrap().1.id, number.to_string());
    }
    assert_eq!((1 << 30) - records.budget.bytes, 3 * 4096, "a block of three files");
}

#[test]
fn lines_of_any_length_are_read_and_what_is_unfinished_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    let dirs = [place.path().to_owned()];
    let mut writer = RecordWriter::new(RecordOptions::new(place.path().to_owned()));
    // Around the size of a block, of the blocks that follow, and between them.
    let lengths = [0, 1, 31_000, 32_000, 32_768, 33_000, 65_536, 100_000, 1_000_000, 5, 5];
    for (number, length) in lengths.iter().enumerate() {
        put(&mut writer, &Record { id: number.to_string(), arguments: "x".repeat(*length), ..record() });
    }
    writer.flush().unwrap();
    drop(writer);
    let file = folder::segments(place.path()).unwrap().remove(0).path;
    let whole = fs::read(&file).unwrap();
    let expected: Vec<_> = (0..lengths.len()).rev().map(|number| number.to_string()).collect();
    assert_eq!(all(&dirs), (expected.join(" "), Vec::new()));
    let unfinished = "y".repeat(40_000);
    for (text, expected) in [
        ([&whole[..], b"{"].concat(), &expected[..]),
        ([&whole[..], unfinished.as_bytes()].concat(), &expected),
        (whole[..whole.len() - 1].to_vec(), &expected[1..]),
        (Vec::new(), &[]),
        (unfinished.as_bytes().to_vec(), &[]),
    ] {
        fs::write(&file, &text).unwrap();
        assert_eq!(all(&dirs), (expected.join(" "), Vec::new()), "{} bytes", text.len());
    }
}

#[test]
fn of_a_file_of_many_gigabytes_only_the_end_is_read() {
    let place = tempfile::tempdir().unwrap();
    let dirs = [place.path().to_owned()];
    let path = write_calls(place.path(), &[("1", 1), ("2", 2), ("3", 3)]);
    let lines = fs::read(&path).unwrap();
    let mut file = File::create(&path).unwrap();
    file.seek(SeekFrom::Start(8 << 30)).unwrap();
    file.write_all(&[b"\n", &lines[..]].concat()).unwrap();
    let mut records = NewestRecords::of(&dirs, None, budget(1 << 20));
    for expected in ["3", "2", "1"] {
        assert_eq!(records.next().unwrap().1.id, expected);
    }
    assert!(records.budget.bytes > 900 << 10, "{}", records.budget.bytes);
    // What is in front of them is no record, however long it is searched for.
    assert!(records.next().is_none());
    let problems = records.into_problems();
    assert!(problems.len() == 1 && problems[0].folder.is_none(), "{problems:?}");
    assert!(problems[0].text.contains("older ones are not listed"), "{problems:?}");
    let late = ReadBudget { bytes: 1 << 30, until: Instant::now() };
    let (found, problems) = ids(NewestRecords::of(&dirs, None, late), 1);
    assert!(found.is_empty() && problems[0].text.contains("timed out"), "{problems:?}");
}

#[test]
fn a_principal_gets_its_own_records_alone() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = RecordWriter::new(RecordOptions::new(place.path().to_owned()));
    let says = r#"{"principal":"ann"}"#.to_owned();
    for (id, principal, name) in [
        ("1", Some("ann"), "x"),
        ("2", Some("bob"), &says),
        ("3", None, "x"),
        ("4", Some("anna"), "x"),
        ("5", Some("ann"), &says),
        ("6", Some("a\"nn"), "x"),
    ] {
        let principal = principal.map(str::to_owned);
        let mut record = Record { id: id.to_owned(), principal, name: name.to_owned(), ..record() };
        // An answer is JSON in the line, not text.
        record.steps[0].event = Some(crate::logic::types::execution::Event::Answered(says.clone()));
        put(&mut writer, &record);
    }
    writer.flush().unwrap();
    let of = |name| ids(NewestRecords::of(&[place.path().to_owned()], name, budget(1 << 30)), 10).0;
    assert_eq!(of(None), "6 5 4 3 2 1");
    assert_eq!((of(Some("ann")), of(Some("bob"))), ("5 1".to_owned(), "2".to_owned()));
    assert_eq!((of(Some("a\"nn")), of(Some(""))), ("6".to_owned(), String::new()));
}

#[test]
fn damage_and_folders_that_cannot_be_read_are_told_beside_the_rest() {
    let place = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "file", "nowhere"].map(|name| place.path().join(name));
    let file = write_calls(&dirs[0], &[("a1", 1), ("a3", 3), ("a5", 5)]);
    write_calls(&dirs[1], &[("b2", 2), ("b4", 4)]);
    fs::write(&dirs[2], "").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let changed = [(r#""id":"a3""#, r#""id":"a4""#), (r#""id":"a5","at""#, r#""id":"a5","by""#)];
    fs::write(&file, changed.iter().fold(text, |text, (one, two)| text.replacen(one, two, 1))).unwrap();
    let (found, problems) = all(&dirs);
    assert_eq!(found, "b4 b2 a1");
    let told: Vec<_> = problems.iter().map(|problem| (problem.folder, problem.text.as_str())).collect();
    let name = file.file_name().unwrap().to_str().unwrap();
    let damaged = format!("2 records are damaged: {name}: the line was changed after it was written");
    assert_eq!(told[0], (Some(0), damaged.as_str()));
    assert_eq!((told.len(), told[1].0, told[2].0), (3, Some(2), Some(3)));
    assert!(told[1..].iter().all(|(_, text)| text.starts_with("the folder cannot be read: ")), "{told:?}");
}
