//! Files and folders that only the user can have written.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ownership::{self, LinkPolicy, OwnershipError};

/// Creates a folder and its missing parents for the user alone.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Creates the folder if it does not exist, and [checks](check_folder) it.
pub(crate) fn ensure_folder(path: &Path) -> io::Result<()> {
    create_missing(path, ownership::check)?;
    check_folder(path)
}

/// Creates a folder for compiled code if it does not exist, and [checks](check_code_folder) it.
pub(crate) fn ensure_code_folder(path: &Path) -> io::Result<()> {
    create_missing(path, |path| ownership::judge(path, LinkPolicy::System))?;
    check_code_folder(path)
}

/// Creates a missing folder, but only inside one that passes `judge`, so that nobody else can replace it.
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

/// Creates the folder if it does not exist, and checks that it is private and not a link.
pub(crate) fn ensure_real_folder(dir: &Path) -> io::Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_symlink() => Err(io::Error::other("it is a link; name the folder itself")),
        Ok(found) if !found.is_dir() => Err(io::Error::other("it is not a folder")),
        _ => ensure_folder(dir),
    }
}

/// Refuses a folder that others can write to or replace.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    ownership::check(path)?;
    check_owner(&fs::metadata(path)?)
}

/// Refuses a folder that others can write to or replace, or that a link leads to, regardless of settings: its files are
/// executed.
pub(crate) fn check_code_folder(path: &Path) -> io::Result<()> {
    ownership::judge(path, LinkPolicy::System)?;
    check_owner(&fs::metadata(path)?)
}

/// Creates a file for the user alone; an existing file is an error.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Opens a file that belongs to the user; a link is an error.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // Non-blocking: opening a pipe without a writer would wait forever.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    check_owner(&metadata)?;
    Ok(file)
}

/// Reads a file that only the user can have written.
pub(crate) fn read(folder: &Path, file: &Path) -> io::Result<String> {
    check_folder(folder)?;
    let mut text = String::new();
    open(file)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file by writing a new one for the user alone and renaming it, so that no reader sees a part.
pub(crate) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    replace_with(file, text, None)
}

/// Replaces a file by writing a new one with this mode and renaming it; without a mode it is for the user alone.
pub(crate) fn replace_with(file: &Path, text: &[u8], mode: Option<fs::Permissions>) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = file.with_extension(format!("{}-{count}.{UNFINISHED}", std::process::id()));
    // An earlier process with the same id may have left it.
    let _ = fs::remove_file(&part);
    let written = self::create_file(&part).and_then(|mut opened| {
        opened.write_all(text)?;
        mode.map_or(Ok(()), |mode| opened.set_permissions(mode))?;
        opened.sync_all()
    });
    written.and_then(|()| fs::rename(&part, file)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// Reports whether a file is one that [`replace`] has not renamed yet.
pub(crate) fn is_unfinished(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == UNFINISHED)
}

/// Checks that a file or folder is ours and nobody else can write to it.
#[cfg(unix)]
pub(crate) fn check_owner(metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    let others_write = metadata.mode() & 0o022 != 0;
    match (ours, others_write) {
        (true, false) => Ok(()),
        (true, true) => Err(io::Error::other("others may write to it; remove that right with `chmod go-w`")),
        (false, _) => Err(io::Error::other("it belongs to another user; choose another folder")),
    }
}

/// Accepts everything: on other systems, a user's folders are private by default.
#[cfg(not(unix))]
pub fn check_owner(_metadata: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// The file extension of unfinished files.
const UNFINISHED: &str = "part";
