//! The layout of a folder of records: files of lines, and beside them the shared parts, named by digest.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::calendar::Utc;
use crate::config::variables::Variables;

/// A file of records; files sort by the time when they were started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The time when the file was started, as its name has it.
    pub stamp: String,
    /// Identifies the process that wrote the file.
    pub run_id: String,
    /// The number of the file among those of its process, from 1.
    pub number: u32,
    /// The path of the file.
    pub path: PathBuf,
}

/// A kind of part that is stored once for many records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedPart {
    /// A component.
    Component,
    /// The settings of a gate.
    Settings,
    /// The tools of one server.
    Tools,
    /// The tools that each server had offered, by digest.
    Catalog,
}

impl SharedPart {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            SharedPart::Component => "component",
            SharedPart::Settings => "settings",
            SharedPart::Tools => "tools",
            SharedPart::Catalog => "catalog",
        }
    }

    /// Returns the path of the part with this digest.
    pub fn path(self, dir: &Path, digest: &str) -> PathBuf {
        let ending = if self == SharedPart::Component { "wasm" } else { "json" };
        dir.join(PARTS).join(format!("{}-{digest}.{ending}", self.name()))
    }
}

impl Segment {
    /// Names the file that a process starts now.
    pub fn new(dir: &Path, now: SystemTime, run_id: &str, number: u32) -> Self {
        let stamp = stamp(now);
        let path = dir.join(format!("{PREFIX}{stamp}-{run_id}-{number:04}{ENDING}"));
        Segment { stamp, run_id: run_id.to_owned(), number, path }
    }

    /// Parses the path of a record file; returns `None` for other files.
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(ENDING)?;
        let mut words = name.split('-');
        let (stamp, run_id, number) = (words.next()?.to_owned(), words.next()?.to_owned(), words.next()?.parse().ok()?);
        words.next().is_none().then_some(Segment { stamp, run_id, number, path })
    }
}

/// Lists the record files in a folder, oldest first.
pub fn segments(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut found = unsorted_segments(dir)?.collect::<io::Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}

/// Lists the record files in a folder one by one, in any order.
pub(super) fn unsorted_segments(dir: &Path) -> io::Result<impl Iterator<Item = io::Result<Segment>>> {
    let segment = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        // Reading from a pipe with such a name would block.
        Ok(if entry.file_type()?.is_file() { Segment::of(entry.path()) } else { None })
    };
    Ok(fs::read_dir(dir)?.filter_map(move |entry| segment(entry).transpose()))
}

/// Returns the folders without those that were named before, also by another path or through a link.
pub(crate) fn distinct(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut known = HashSet::new();
    // A folder without a real path cannot be read, which is the reader's to report.
    let is_new = |dir: &&PathBuf| known.insert(dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf()));
    dirs.iter().filter(is_new).cloned().collect()
}

/// Lists the shared parts in a folder.
pub(super) fn parts(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir.join(PARTS)) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Fails unless this is a regular file, because opening a pipe may block.
pub(super) fn regular(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) }
}

/// Formats a time for file names, which then sort by time.
pub(super) fn stamp(time: SystemTime) -> String {
    Utc::from(time).to_string().replace(['-', ':', '.'], "")
}

/// Returns the default folder for records, in the user's state folder.
pub fn default_dir(variables: &Variables) -> PathBuf {
    // A relative path would mean another folder in each working directory.
    let path = |name: &str| variables.non_empty(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = path("XDG_STATE_HOME").or_else(|| path("HOME").map(|home| home.join(".local/state")));
    // Without a state folder, use the working directory, where the user can find the records.
    state.map_or_else(|| PathBuf::from("toolgate-records"), |state| state.join("toolgate").join("records"))
}

/// The name of the folder for shared parts.
pub(super) const PARTS: &str = "parts";
const PREFIX: &str = "calls-";
const ENDING: &str = ".jsonl";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_are_known_by_their_names_and_sort_by_age() {
        let dir = tempfile::tempdir().unwrap();
        let later = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let new = Segment::new(dir.path(), later, "beef", 2);
        let old = Segment::new(dir.path(), SystemTime::UNIX_EPOCH, "cafe", 12_345);
        assert_eq!(new.path.file_name().unwrap(), "calls-20231114T221320123Z-beef-0002.jsonl");
        for segment in [&new, &old] {
            fs::write(&segment.path, "").unwrap();
        }
        for other in ["calls-x.jsonl", "notes.txt", "calls-20231114T221320123Z-beef-0002.jsonl.part"] {
            fs::write(dir.path().join(other), "").unwrap();
        }
        fs::create_dir(dir.path().join("calls-20231114T221320123Z-beef-0003.jsonl")).unwrap();
        assert_eq!(segments(dir.path()).unwrap(), [old, new]);
    }

    #[test]
    fn the_default_folder_is_among_what_programs_keep() {
        let of = |variables: &[(&str, &str)]| default_dir(&Variables::of_test(variables));
        assert_eq!(of(&[("XDG_STATE_HOME", "/state"), ("HOME", "/me")]), Path::new("/state/toolgate/records"));
        assert_eq!(of(&[("XDG_STATE_HOME", "state"), ("HOME", "/me")]), Path::new("/me/.local/state/toolgate/records"));
    }
}
