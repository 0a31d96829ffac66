//! Files and folders that are the user's own: nobody else may have written what we trust.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ownership::{self, LinkPolicy, OwnershipError};

/// Makes a folder, and those above it, for the user alone.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes the folder where there is none, and [checks](check_folder) it.
pub fn ensure_folder(path: &Path) -> io::Result<()> {
    create_missing(path, ownership::check)?;
    check_folder(path)
}

/// The same for compiled code, with [its own check](check_code_folder).
pub fn ensure_code_folder(path: &Path) -> io::Result<()> {
    create_missing(path, |path| ownership::judge(path, LinkPolicy::System))?;
    check_code_folder(path)
}

/// Makes a folder that is not there yet, in one that has passed: nothing is made where somebody else could exchange it.
fn create_missing(path: &Path, judge: impl Fn(&Path) -> Result<(), OwnershipError>) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    match path.ancestors().find(|above| is_there(above)) {
        Some(there) if there != path => {
            judge(there)?;
            create_folder(&path)
        }
        _ => Ok(()),
    }
}

/// The same for a folder that must not be a link.
pub fn ensure_real_folder(dir: &Path) -> io::Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_symlink() => Err(io::Error::other("it is a link; name the folder itself")),
        Ok(found) if !found.is_dir() => Err(io::Error::other("it is no folder")),
        _ => ensure_folder(dir),
    }
}

/// Refuses a folder that is not the user's alone, or that somebody else could exchange for another.
pub fn check_folder(path: &Path) -> io::Result<()> {
    ownership::check(path)?;
    check_owner(&fs::metadata(path)?)
}

/// Refuses also a folder with a link on the way to it, whatever is allowed: what it holds is run as it stands.
pub fn check_code_folder(path: &Path) -> io::Result<()> {
    ownership::judge(path, LinkPolicy::System)?;
    check_owner(&fs::metadata(path)?)
}

/// Makes a file for the user alone; one that is there already is an error.
pub fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Opens a file of the user's own; a link is an error.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // Without waiting: opening a pipe that nobody writes to would never end.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    check_owner(&metadata)?;
    Ok(file)
}

/// Reads a file that nobody but us can have written.
pub fn read(folder: &Path, file: &Path) -> io::Result<String> {
    check_folder(folder)?;
    let mut text = String::new();
    open(file)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to a name of its own and renames, so that no reader ever sees a part.
pub fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = file.with_extension(format!("{}-{count}.{UNFINISHED}", std::process::id()));
    // Left by an earlier process with the same id, if there is one.
    let _ = fs::remove_file(&part);
    let written = self::create_file(&part).and_then(|mut opened| {
        opened.write_all(text)?;
        opened.sync_all()
    });
    written.and_then(|()| fs::rename(&part, file)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// Whether a file is what [`replace`] writes before it renames.
pub fn is_unfinished(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == UNFINISHED)
}

/// Whether a file or folder is ours and nobody else can write to it.
#[cfg(unix)]
pub fn check_owner(metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    let others_write = metadata.mode() & 0o022 != 0;
    match (ours, others_write) {
        (true, false) => Ok(()),
        (true, true) => Err(io::Error::other("others may write to it; take that right away with `chmod go-w`")),
        (false, _) => Err(io::Error::other("it belongs to another user; choose another folder")),
    }
}

/// Elsewhere a user's folders are private by the system's rules.
#[cfg(not(unix))]
pub fn check_owner(_metadata: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// How the name of a file ends that is not written to its end.
const UNFINISHED: &str = "part";
