//! Files and folders that are the user's own: nobody else may have written what we trust.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a folder, and those above it, for the user alone.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes the folder where there is none; refuses one that is a link, or that others may write to.
pub fn prepare(dir: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folder(dir)?;
            fs::symlink_metadata(dir)?
        }
        found => found?,
    };
    if found.is_symlink() {
        return Err(io::Error::other("it is a link; name the folder itself"));
    }
    if !found.is_dir() {
        return Err(io::Error::other("it is no folder"));
    }
    check_owner(&found)
}

/// Makes a file for the user alone; one that is there already is an error.
pub fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Reads a file that nobody but us can have written.
pub fn read(folder: &Path, file: &Path) -> io::Result<String> {
    check_owner(&fs::metadata(folder)?)?;
    let metadata = fs::symlink_metadata(file)?;
    // Before it is opened, since opening a pipe would wait for ever.
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    check_owner(&metadata)?;
    String::from_utf8(fs::read(file)?).map_err(io::Error::other)
}

/// Writes to a name of its own and renames, so that no reader ever sees a part.
pub fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = file.with_extension(format!("{}-{count}.{UNFINISHED}", std::process::id()));
    // Left by an earlier process with the same id, if there is one.
    let _ = fs::remove_file(&part);
    let written = self::file(&part).and_then(|mut opened| {
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
