//! The layout of a folder of records: files of lines, and beside them the shared parts, named by digest.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::calendar::Utc;
use crate::config::variables::Variables;
use crate::ownership;
use crate::private_files;
use crate::sha256::sha256_hex;

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

/// Creates a folder for records if it is missing, and fails unless this process can write files there.
pub fn prepare(dir: &Path) -> io::Result<()> {
    private_files::ensure_real_folder(dir)?;
    check_writable(dir)
}

/// Fails where [`prepare`] would, as far as that can be known without creating the folder.
pub fn check(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let is_there = |path: &&Path| fs::symlink_metadata(path).is_ok();
    match dir.ancestors().find(is_there) {
        Some(there) if there != dir && fs::metadata(there)?.is_dir() => {
            ownership::check(there)?;
            check_writable(there)
        }
        Some(there) if there != dir => Err(io::Error::other(format!("{} is not a folder", there.display()))),
        _ => prepare(&dir),
    }
}

/// Fails unless this process may create files in a folder.
fn check_writable(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

/// Lists the record files in a folder, oldest first.
pub fn segments(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut found = unsorted_segments(dir)?.collect::<io::Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}

/// Notes that the files of a run up to this number are removed because they are too old or too many, so that nobody
/// takes that for damage. It must be noted before they are removed.
pub(super) fn note_expired(dir: &Path, run_id: &str, number: u32, now: SystemTime) -> io::Result<()> {
    let path = expired_path(dir, run_id);
    private_files::replace(&path, number.to_string().as_bytes())?;
    touch(&path, now)
}

/// Sets the time of a note.
pub(super) fn touch(note: &Path, now: SystemTime) -> io::Result<()> {
    fs::File::options().write(true).open(note)?.set_modified(now)
}

/// Returns the path of the note of a run.
pub(super) fn expired_path(dir: &Path, run_id: &str) -> PathBuf {
    dir.join(format!("{EXPIRED}{run_id}"))
}

/// Returns for each run the number up to which its files were removed because they were too old or too many. Read it
/// after the files are listed: a file that is missing from the list was noted before it was removed.
pub(super) fn expired(dir: &Path) -> io::Result<HashMap<String, u32>> {
    let mut expired = HashMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(run_id) = name.to_str().and_then(|name| name.strip_prefix(EXPIRED)) else { continue };
        // Another process may have removed it meanwhile, and a note that cannot be read notes nothing.
        let Ok(()) = regular(&entry.path()) else { continue };
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        if let Ok(number) = text.trim().parse() {
            expired.insert(run_id.to_owned(), number);
        }
    }
    Ok(expired)
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

/// Returns the default folder for the records of a configuration file, in the user's state folder. Each file has a
/// folder of its own, so that the calls of two projects never mix; a configuration that comes from no file has one too.
pub fn default_dir(variables: &Variables, config: Option<&Path>) -> PathBuf {
    // A relative path would mean another folder in each working directory.
    let path = |name: &str| variables.non_empty(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = path("XDG_STATE_HOME").or_else(|| path("HOME").map(|home| home.join(".local/state")));
    // Without a state folder, use the working directory, where the user can find the records.
    let records =
        state.map_or_else(|| PathBuf::from("toolgate-records"), |state| state.join("toolgate").join("records"));
    records.join(config.map_or_else(|| "default".to_owned(), |file| name_of_config(&variables.workspace.join(file))))
}

/// Returns the name of a configuration file's folder of records: the name of the folder that the file is in, its own
/// name, and a digest of its path, such as `shop-toolgate-3f9a2c41`.
fn name_of_config(file: &Path) -> String {
    // The same file by another path has the same records. A link in place of the file itself is not followed:
    // Kubernetes has it point elsewhere whenever the file changes.
    let folder = file.parent().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    let folder = folder.unwrap_or_default();
    let path = folder.join(file.file_name().unwrap_or_default());
    let words = [folder.file_name(), file.file_stem()].into_iter().flatten().map(|word| word.to_string_lossy());
    let readable = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let words = words.map(|word| word.chars().map(readable).take(MOST_WORD).collect::<String>());
    let words = words.map(|word| word.trim_matches('-').to_owned()).filter(|word| !word.is_empty());
    let digest = sha256_hex(path.as_os_str().as_encoded_bytes());
    words.chain([digest[..DIGEST].to_owned()]).collect::<Vec<_>>().join("-")
}

/// The name of the folder for shared parts.
pub(super) const PARTS: &str = "parts";
/// The beginning of the name of a note about removed files; the id of their run follows.
const EXPIRED: &str = "expired-";
const PREFIX: &str = "calls-";
const ENDING: &str = ".jsonl";
/// The most characters of a word in the name of a configuration's folder.
const MOST_WORD: usize = 32;
/// The number of digits of the digest in that name.
const DIGEST: usize = 8;

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
        let of = |variables: &[(&str, &str)]| default_dir(&Variables::of_test(variables), None);
        assert_eq!(of(&[("XDG_STATE_HOME", "/state"), ("HOME", "/me")]), Path::new("/state/toolgate/records/default"));
        let home = "/me/.local/state/toolgate/records/default";
        assert_eq!(of(&[("XDG_STATE_HOME", "state"), ("HOME", "/me")]), Path::new(home));
    }

    #[test]
    fn each_configuration_has_a_folder_of_its_own_whatever_its_path_is_called() {
        let place = tempfile::tempdir().unwrap();
        let variables = Variables::of_test(&[("XDG_STATE_HOME", "/state")]);
        let of = |file: &Path| default_dir(&variables, Some(file)).file_name().unwrap().to_str().unwrap().to_owned();
        for project in ["shop", "shop 2", ".cursor"] {
            fs::create_dir(place.path().join(project)).unwrap();
        }
        let shop = place.path().join("shop/toolgate.yaml");
        let names = [shop.clone(), place.path().join("shop 2/toolgate.yaml"), place.path().join(".cursor/mcp.json")];
        let names = names.map(|file| of(&file));
        for (name, words) in names.iter().zip(["shop-toolgate-", "shop-2-toolgate-", "cursor-mcp-"]) {
            let digest = name.strip_prefix(words).unwrap_or_else(|| panic!("{name}"));
            assert!(digest.len() == DIGEST && digest.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        }
        assert_eq!(of(&place.path().join("shop/../shop/toolgate.yaml")), names[0]);
        assert_ne!(of(&place.path().join("shop/toolgate.yml")), names[0]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(place.path().join("shop"), place.path().join("link")).unwrap();
            assert_eq!(of(&place.path().join("link/toolgate.yaml")), names[0]);
            // The file itself may be a link that points elsewhere tomorrow.
            let before = of(&shop);
            std::os::unix::fs::symlink(place.path().join("elsewhere.yaml"), &shop).unwrap();
            assert_eq!(of(&shop), before);
        }
    }
}
