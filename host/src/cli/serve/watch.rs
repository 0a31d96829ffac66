//! Whether files have changed: edited in place, replaced, reached over another link, or given other rights.
//!
//! They are looked at once a second. That needs nothing of the system: it works on network file systems, in containers and
//! over a chain of links (as Kubernetes swaps `..data`), where events of the file system are lost, come for the link or for
//! its target alone, or cost a watch that there may be too few of. A look is one `stat` a file.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// A file that is watched.
#[derive(Debug, Clone)]
pub struct WatchedFile {
    /// The file.
    pub path: PathBuf,
    stamp: Option<FileStamp>,
    /// What it held; none where it could not be read.
    content: Option<[u8; 32]>,
    /// Who could change it: one that was refused for that may be used now. None where nobody has looked yet.
    permissions: Option<FilePermissions>,
}

impl WatchedFile {
    /// Watches a file that holds what it holds now.
    pub fn new(path: PathBuf) -> Self {
        let mut watched = WatchedFile { path, stamp: None, content: None, permissions: None };
        watched.check_changed();
        watched
    }

    /// The same for a file that was read before, and may have changed since.
    pub fn with_content(path: PathBuf, text: &str) -> Self {
        WatchedFile { path, stamp: None, content: Some(Sha256::digest(text).into()), permissions: None }
    }

    /// Whether it holds something else than at the last look, or others can change it than could then.
    pub fn check_changed(&mut self) -> bool {
        let metadata = fs::metadata(&self.path).ok();
        // What is no regular file, such as a pipe, gives what it has once, and may keep whoever reads it waiting.
        if metadata.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            return false;
        }
        let stamp = metadata.as_ref().map(FileStamp::of);
        let rights = metadata.as_ref().map(rights);
        let other_rights = self.permissions.is_some() && rights.is_some() && self.permissions != rights;
        self.permissions = rights.or(self.permissions);
        // Two writes within a tick of the clock leave the same time behind.
        let fresh = metadata.as_ref().and_then(|metadata| metadata.modified().ok()).is_none_or(is_fresh);
        if stamp == self.stamp && !fresh {
            return other_rights;
        }
        self.stamp = stamp;
        let content = digest(&self.path);
        (std::mem::replace(&mut self.content, content) != content) | other_rights
    }
}

fn digest(path: &Path) -> Option<[u8; 32]> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(Sha256::digest(bytes).into())
}

/// What changes when a file is written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp(Option<SystemTime>, u64, u64);

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        FileStamp(metadata.modified().ok(), metadata.len(), node(metadata))
    }
}

/// The mode, the owner and the group of a file.
type FilePermissions = (u32, u32, u32);

#[cfg(unix)]
fn rights(metadata: &Metadata) -> FilePermissions {
    use std::os::unix::fs::MetadataExt;
    (metadata.mode(), metadata.uid(), metadata.gid())
}

#[cfg(not(unix))]
fn rights(_: &Metadata) -> FilePermissions {
    (0, 0, 0)
}

fn is_fresh(modified: SystemTime) -> bool {
    // One that is of the future is looked at each time.
    modified.elapsed().map_or(true, |age| age < FRESH)
}

#[cfg(unix)]
fn node(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn node(_: &Metadata) -> u64 {
    0
}

/// How long a file counts as just written: longer than the clock of any file system ticks.
const FRESH: Duration = Duration::from_secs(3);
/// More than any configuration may have.
const MOST: u64 = 64 << 20;

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

    #[cfg(unix)]
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
