//! File names of kept texts: safe whatever servers and tools are called, and recognizable as ours.
//!
//! `jira-search_issues-20260729T101530123Z-0123456789abcdef.txt`: server, tool, time, and a random number.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::SystemTime;

use crate::calendar::Utc;

/// Creates a file name with a random part, so that no two texts share it.
pub(super) fn new_name(server: &str, tool: &str, now: SystemTime) -> String {
    // `RandomState` takes its keys from the system's random numbers.
    let random = RandomState::new().build_hasher().finish();
    format!("{}-{}-{}-{random:016x}.{WHOLE}", safe(server), safe(tool), stamp(now))
}

/// A file whose name is ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpillFile<'a> {
    /// A complete text, and when it was written, as `stamp` formats it.
    Complete(&'a str),
    /// A text that is being written.
    Partial,
}

/// Recognizes one of our file names; other files in the folder are not touched.
pub(super) fn parse_name(name: &str) -> Option<SpillFile<'_>> {
    let (stem, extension) = name.rsplit_once('.')?;
    let mut parts = stem.rsplitn(3, '-');
    let (random, stamp, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let is_random = random.len() == 16 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_stamp = stamp.len() == 19
        && stamp.bytes().enumerate().all(|(place, byte)| match place {
            8 => byte == b'T',
            18 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    let is_rest = rest.len() <= 2 * MOST + 1 && rest.contains('-') && rest.bytes().all(is_safe);
    match extension {
        _ if !(is_random && is_stamp && is_rest) => None,
        WHOLE => Some(SpillFile::Complete(stamp)),
        PART => Some(SpillFile::Partial),
        _ => None,
    }
}

/// Formats a time to the millisecond, so that later times sort later.
pub(super) fn stamp(time: SystemTime) -> String {
    let Utc { year, month, day, hour, minute, second, milli } = time.into();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}{milli:03}Z")
}

/// Replaces every character that could mean something to a file system or a shell.
fn safe(word: &str) -> String {
    let safe: String =
        word.chars().take(MOST).map(|c| if c.is_ascii() && is_safe(c as u8) { c } else { '_' }).collect();
    match safe.as_bytes().first() {
        // Neither hidden nor a command-line option.
        Some(b'.' | b'-') => format!("_{}", &safe[1..]),
        Some(_) => safe,
        None => "_".to_owned(),
    }
}

fn is_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

const WHOLE: &str = "txt";
/// The extension while a text is being written.
pub(super) const PART: &str = "part";
/// The longest part of a name; file systems allow 255 bytes for all of it.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn a_stamp_is_the_time_of_the_world() {
        let rows = [
            (0, "19700101T000000000Z"),
            (951_827_696_789, "20000229T123456789Z"),
            (1_709_251_199_999, "20240229T235959999Z"),
            (1_785_320_130_123, "20260729T101530123Z"),
            (4_107_542_400_000, "21000301T000000000Z"),
            (253_402_300_799_000, "99991231T235959000Z"),
            (253_402_300_799_000 + 86_400_000, "99991231T235959000Z"),
        ];
        for (millis, text) in rows {
            assert_eq!(stamp(at(millis)), text);
        }
    }

    #[test]
    fn a_name_is_safe_whatever_it_is_made_of() {
        let check = |server: &str, tool: &str, start: &str| {
            let whole = new_name(server, tool, at(0));
            assert!(whole.starts_with(&format!("{start}-19700101T000000000Z-")), "{whole}");
            assert!(whole.len() < 200 && whole.bytes().all(is_safe), "{whole}");
            assert_eq!(parse_name(&whole), Some(SpillFile::Complete("19700101T000000000Z")), "{whole}");
            assert_eq!(parse_name(&whole.replace(".txt", ".part")), Some(SpillFile::Partial), "{whole}");
        };
        check("jira", "search_issues", "jira-search_issues");
        check("kube-server", "get.pods", "kube-server-get.pods");
        check("", "", "_-_");
        check("../../etc", "/passwd", "_._.._etc-_passwd");
        check("-rf", ".hidden", "_rf-_hidden");
        check("a b\n\0$(x)`;", "ü\u{202e}", "a_b____x___-__");
        check(&"x".repeat(5000), &"é".repeat(5000), &format!("{}-{}", "x".repeat(MOST), "_".repeat(MOST)));
    }

    #[test]
    fn no_two_names_are_the_same() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| new_name("a", "b", at(0))).collect();
        assert_eq!(names.len(), 1000);
    }

    #[test]
    fn names_of_others_are_not_ours() {
        let rows = [
            "",
            "notes.txt",
            ".lock",
            "a-b.txt",
            "a-20260729T101530123Z-0123456789abcdef.txt",
            "a-b-20260729T101530123Z-0123456789abcdef",
            "a-b-20260729T101530123Z-0123456789abcdef.md",
            "a-b-20260729T101530123Z-0123456789ABCDEF.txt",
            "a-b-20260729T101530123Z-0123456789abcde.txt",
            "a-b-20260729-101530123Z-0123456789abcdef.txt",
            "a-b-20260729T101530Z-0123456789abcdef.txt",
            "a b-c-20260729T101530123Z-0123456789abcdef.txt",
            "ä-b-20260729T101530123Z-0123456789abcdef.txt",
        ];
        for name in rows {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
