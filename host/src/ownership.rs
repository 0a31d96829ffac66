//! Whether anybody but root and the user can change what a path leads to.
//!
//! Whoever can write our configuration, a token or compiled code can act as the user. So every file that we trust is judged
//! before it is opened: it, each link on the way to it and each folder above it must belong to root or to the user, and
//! nobody else may write to them. A sticky folder such as `/tmp` passes, since there nobody can exchange what is another's.
//!
//! A path is walked from the root down, and each folder is judged before anything in it is looked at. So nobody else can
//! exchange what has passed, and a path that has passed can be opened by its name.

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

/// Which symbolic links may be on the way to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Those that root or the user made.
    Own,
    /// None but those by which root arranges the machine, such as `/tmp` on macOS: they lie in `/`, or in a folder that only
    /// root can write to while the user is another.
    System,
}

/// What somebody else can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedPath {
    /// The file, folder or link.
    pub path: PathBuf,
    /// What it is.
    pub kind: PathKind,
    /// Who can change it, and by which right.
    pub fault: ExposureCause,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A file.
    File,
    /// A folder, in which whoever may write to it can replace everything.
    Folder,
    /// A symbolic link.
    Link,
}

/// Why somebody else can change a file, folder or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposureCause {
    /// It belongs to the user with this id.
    Owner(u32),
    /// It may be written by others, or by a group that has more members than the user.
    Writable {
        /// The group with this id may write.
        group: Option<u32>,
        /// Everybody may write.
        others: bool,
    },
    /// It is a link where none may be.
    IsLink,
}

/// Why a path is not used.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// Somebody else can change what it leads to.
    #[error(transparent)]
    Exposed(ExposedPath),
    /// The same, where [`allow_shared_files`] would have made it a warning.
    #[error("{0}; --allow-shared-files makes this a warning")]
    Refused(ExposedPath),
    /// It cannot be looked at.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

/// From now on, what somebody else can change is used with a warning. This is for systems whose file modes say nothing, such
/// as WSL and bind mounts; only the user may ask for it, never a file.
pub fn allow_shared_files() {
    SHARED_FILES.store(true, Ordering::Relaxed);
}

/// Judges a path that is about to be trusted. After [`allow_shared_files`], what is wrong with it is a warning.
pub fn check(path: &Path) -> Result<(), OwnershipError> {
    tolerate(judge(path, LinkPolicy::Own))
}

/// Opens a file that nobody else can change. What was opened for us, such as `/dev/stdin`, has no path that could be
/// judged, so only the file itself is.
pub fn open(path: &Path) -> Result<File, OwnershipError> {
    if !is_inherited_fd(path) {
        check(path)?;
    }
    let file = File::open(path)?;
    tolerate(judge_opened(path, &file))?;
    Ok(file)
}

/// Reads a file that nobody else can change.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Judges a path, whatever is allowed.
#[cfg(unix)]
pub fn judge(path: &Path, links: LinkPolicy) -> Result<(), OwnershipError> {
    walk::judge(path, links)
}

/// Elsewhere the system's own rules protect a user's files.
#[cfg(not(unix))]
pub fn judge(_path: &Path, _links: LinkPolicy) -> Result<(), OwnershipError> {
    Ok(())
}

/// Whether this is a name for something that was opened for us before we were started.
pub fn is_inherited_fd(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    path == Path::new("/dev/stdin") || HANDED_OVER.iter().any(|known| folder == Path::new(known))
}

#[cfg(unix)]
fn judge_opened(path: &Path, file: &File) -> Result<(), OwnershipError> {
    let metadata = file.metadata()?;
    // A pipe or a terminal has no content that could be exchanged.
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
    // A file is read at every start of its server, and one warning of it is enough.
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
        tracing::warn!("{text}; it is used all the same, since shared files are allowed");
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
            PathKind::Link => "can lead it elsewhere",
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
                write!(f, "{shown} is a link, and none is followed here; name the folder that it leads to")
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

/// The text as one word of a shell.
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
