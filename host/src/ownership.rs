//! Checks that only root and the user can change what a path points to.
//!
//! Anyone who can write the configuration, a token or compiled code can act as the user. So every trusted file is
//! checked before it is opened: the file, each link on the way to it and each folder above it must belong to root or
//! the user, and nobody else may write to them. A sticky folder such as `/tmp` passes, because there nobody can replace
//! the files of others.
//!
//! A path is walked from the root down, and each folder is checked before anything in it is. So nobody else can replace
//! what has passed, and a path that has passed can be opened by name.

#[cfg(unix)]
mod groups;
#[cfg(all(test, unix))]
mod tests;
#[cfg(unix)]
mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which symbolic links are allowed on the way to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkPolicy {
    /// Links that belong to root or the user.
    Own,
    /// Only links of the system, such as `/tmp` on macOS: root's links in `/`, or in a folder that only root can write
    /// while the user is not root.
    System,
}

/// A path that another user can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedPath {
    /// The file, folder or link.
    pub path: PathBuf,
    /// The kind of path.
    pub kind: PathKind,
    /// Who can change it, and why.
    pub fault: ExposureCause,
}

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A file.
    File,
    /// A folder; whoever can write to it can replace everything in it.
    Folder,
    /// A symbolic link.
    Link,
}

/// The reason why another user can change a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposureCause {
    /// The path belongs to the user with this id.
    Owner(u32),
    /// Others can write to the path, or a group that has members other than the user.
    Writable {
        /// The group that can write.
        group: Option<u32>,
        /// Whether everybody can write.
        others: bool,
    },
    /// The path is a link where none is allowed.
    IsLink,
}

/// The reason why a path is not used.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// Another user can change the path.
    #[error(transparent)]
    Exposed(ExposedPath),
    /// Another user can change the path; [`allow_shared_files`] would make this a warning.
    #[error("{0}; --allow-shared-files makes this a warning")]
    Refused(ExposedPath),
    /// The path cannot be inspected.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

/// Makes exposed paths a warning from now on. This is for systems whose file modes mean nothing, such as WSL and bind
/// mounts; only the user may ask for it, never a file.
pub(crate) fn allow_shared_files() {
    SHARED_FILES.store(true, Ordering::Relaxed);
}

/// Checks a path that is about to be trusted. After [`allow_shared_files`], a fault is only a warning.
pub(crate) fn check(path: &Path) -> Result<(), OwnershipError> {
    tolerate(judge(path, LinkPolicy::Own))
}

/// Opens a regular file that only root and the user can change. Something opened before this process started, such as
/// `/dev/stdin`, has no path to check, so only the file itself is checked.
pub(crate) fn open(path: &Path) -> Result<File, OwnershipError> {
    if !is_inherited_fd(path) {
        check(path)?;
    }
    let file = open_regular(path)?;
    tolerate(judge_opened(path, &file))?;
    Ok(file)
}

/// Opens a file to read it, without a look at who can change it. Anything but a regular file is refused at once, because
/// a pipe keeps its reader waiting. A pipe that was opened before this process started is meant, as in `<(command)`.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if is_inherited_fd(path) {
        return File::open(path);
    }
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // Opening a pipe without a writer would wait, and a terminal must not become ours.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(file)
}

/// Reads a file that only root and the user can change.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Checks a path, even after [`allow_shared_files`].
#[cfg(unix)]
pub(crate) fn judge(path: &Path, links: LinkPolicy) -> Result<(), OwnershipError> {
    walk::judge(path, links)
}

/// On other systems, the system's own rules protect a user's files.
#[cfg(not(unix))]
pub fn judge(_path: &Path, _links: LinkPolicy) -> Result<(), OwnershipError> {
    Ok(())
}

/// Reports whether a path names something that was opened before this process started.
pub(crate) fn is_inherited_fd(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    path == Path::new("/dev/stdin") || HANDED_OVER.iter().any(|known| folder == Path::new(known))
}

#[cfg(unix)]
fn judge_opened(path: &Path, file: &File) -> Result<(), OwnershipError> {
    let metadata = file.metadata()?;
    // A pipe or terminal has no content that could be replaced.
    if metadata.is_file() { walk::judge_metadata(path, &metadata) } else { Ok(()) }
}

#[cfg(not(unix))]
fn judge_opened(_path: &Path, _file: &File) -> Result<(), OwnershipError> {
    Ok(())
}

fn tolerate(judged: Result<(), OwnershipError>) -> Result<(), OwnershipError> {
    let Err(OwnershipError::Exposed(exposed)) = judged else { return judged };
    if !SHARED_FILES.load(Ordering::Relaxed) {
        return Err(OwnershipError::Refused(exposed));
    }
    let text = exposed.to_string();
    // A file is read at every start of its server, and one warning is enough.
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
        tracing::warn!("{text}; it is used anyway, because shared files are allowed");
    }
    Ok(())
}

impl fmt::Display for ExposedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExposedPath { path, kind, fault } = self;
        let shown = path.display();
        let danger = match kind {
            PathKind::File => "can change it",
            PathKind::Folder => "can replace what is in it",
            PathKind::Link => "can redirect it",
        };
        let path = shell_word(&path.to_string_lossy());
        match fault {
            ExposureCause::Owner(owner) => {
                let user = user();
                let option = if *kind == PathKind::Link { "-h " } else { "" };
                write!(f, "{shown} belongs to user {owner}, who {danger}; run `chown {option}{user} {path}` as root")
            }
            ExposureCause::Writable { group, others } => {
                let (who, letters) = match (group, others) {
                    (Some(group), true) => (format!("group {group} and all others"), "go"),
                    (Some(group), false) => (format!("group {group}"), "g"),
                    (None, _) => ("all others".to_owned(), "o"),
                };
                write!(f, "{shown} may be written by {who}, who {danger}; run `chmod {letters}-w {path}`")
            }
            ExposureCause::IsLink => {
                write!(f, "{shown} is a link, and links are not followed here; name the folder that it points to")
            }
        }
    }
}

impl std::error::Error for ExposedPath {}

impl From<OwnershipError> for io::Error {
    fn from(error: OwnershipError) -> Self {
        match error {
            OwnershipError::Exposed(_) | OwnershipError::Refused(_) => {
                io::Error::new(io::ErrorKind::PermissionDenied, error)
            }
            OwnershipError::Unreadable(error) => error,
        }
    }
}

/// Quotes the text as one word for a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:=,".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(unix)]
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn user() -> u32 {
    0
}

static SHARED_FILES: AtomicBool = AtomicBool::new(false);
static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
const HANDED_OVER: [&str; 2] = ["/dev/fd", "/proc/self/fd"];
