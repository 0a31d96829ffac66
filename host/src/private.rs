//! Files and folders that are the user's own: nobody else may have written what we trust.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder, and those above it, for the user alone.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a file for the user alone; one that is there already is an error.
pub fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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
