//! Detects changed files: edited in place, replaced, reached through another link, or with other permissions.
//!
//! Files are checked once a second, with one `stat` each. This also works on network file systems, in containers and
//! through chains of links (as Kubernetes swaps `..data`), where file system events get lost, report only the link or
//! only its target, or need more watches than there are.

use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::ownership;
use crate::sha256::sha256;

/// A watched file.
#[derive(Debug, Clone)]
pub(super) struct WatchedFile {
    /// The file.
    pub path: PathBuf,
    stamp: Option<FileStamp>,
    /// A digest of its content; none if it could not be read.
    content: Option<[u8; 32]>,
    /// Its permissions, since a file that was refused for them may be usable now; none before the first check.
    permissions: Option<FilePermissions>,
}

impl WatchedFile {
    /// Starts to watch a file with its current content.
    pub(super) fn new(path: PathBuf) -> Self {
        let mut watched = WatchedFile { path, stamp: None, content: None, permissions: None };
        watched.check_changed();
        watched
    }

    /// Starts to watch a file that was read before, and may have changed since.
    pub(super) fn with_content(path: PathBuf, text: &str) -> Self {
        WatchedFile { path, stamp: None, content: Some(sha256(text.as_bytes())), permissions: None }
    }

    /// Reports whether the content or the permissions have changed since the last check.
    pub(super) fn check_changed(&mut self) -> bool {
        let metadata = fs::metadata(&self.path).ok();
        // A pipe or other special file can be read only once, and reading it may block.
        if metadata.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            return false;
        }
        let stamp = metadata.as_ref().map(FileStamp::of);
        let rights = metadata.as_ref().map(|metadata| (metadata.mode(), metadata.uid(), metadata.gid()));
        let other_rights = self.permissions.is_some() && rights.is_some() && self.permissions != rights;
        self.permissions = rights.or(self.permissions);
        // Two writes within a tick of the clock leave the same time.
        let fresh = metadata.as_ref().and_then(|metadata| metadata.modified().ok()).is_none_or(is_fresh);
        if stamp == self.stamp && !fresh {
            return other_rights;
        }
        self.stamp = stamp;
        let content = digest(&self.path);
        (std::mem::replace(&mut self.content, content) != content) | other_rights
    }
}

/// Returns a digest of a file's content, or `None` if it cannot be read.
pub(super) fn digest(path: &Path) -> Option<[u8; 32]> {
    let mut bytes = Vec::new();
    ownership::open_regular(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(sha256(&bytes))
}

/// The metadata that changes when a file is written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp(Option<SystemTime>, u64, u64);

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        FileStamp(metadata.modified().ok(), metadata.len(), metadata.ino())
    }
}

/// The mode, the owner and the group of a file.
type FilePermissions = (u32, u32, u32);

fn is_fresh(modified: SystemTime) -> bool {
    // A file from the future is read every time.
    modified.elapsed().map_or(true, |age| age < FRESH)
}

/// How long a file counts as just written: longer than a tick of any file system's clock.
const FRESH: Duration = Duration::from_secs(3);
/// More than any component or configuration has.
const MOST: u64 = 65 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_changed_when_it_holds_something_else_however_that_came() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "one").unwrap();
        let mut watched = WatchedFile::with_content(path("a"), "one");
        assert!(!watched.check_changed() && !watched.check_changed());
        fs::write(path("a"), "two").unwrap();
        assert!(watched.check_changed() && !watched.check_changed(), "written in place, of the same length");
        fs::write(path("b"), "three").unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        assert!(watched.check_changed() && !watched.check_changed(), "replaced");
        fs::write(path("b"), "three").unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        assert!(!watched.check_changed(), "replaced by the same");
        fs::remove_file(path("a")).unwrap();
        assert!(watched.check_changed() && !watched.check_changed(), "gone");
        fs::write(path("a"), "three").unwrap();
        assert!(watched.check_changed(), "there again");
    }

    #[test]
    fn a_file_behind_two_links_has_changed_when_the_first_leads_elsewhere() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("a"), text).unwrap();
        }
        symlink("..1", path("..data")).unwrap();
        symlink("..data/a", path("a")).unwrap();
        let mut watched = WatchedFile::new(path("a"));
        assert!(!watched.check_changed());
        symlink("..2", path("..data_tmp")).unwrap();
        fs::rename(path("..data_tmp"), path("..data")).unwrap();
        assert!(watched.check_changed() && !watched.check_changed());
    }
}
