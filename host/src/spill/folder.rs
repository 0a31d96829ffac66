//! The folder of kept texts: its default location, and the lock for its writers.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::SpillError;
use crate::private_files;

/// Returns the default folder: in the user's cache folder, or else one per user among temporary files.
pub(crate) fn default_dir() -> PathBuf {
    dir_from(|name| env::var_os(name))
}

fn dir_from(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    // A relative path would mean another folder in each working directory.
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
    match caches {
        Some(caches) => caches.join("toolgate").join("results"),
        // One level only: the owner of a level above ours could replace what is in it.
        None => env::temp_dir().join(format!("toolgate-results{}", of_user())),
    }
}

#[cfg(unix)]
fn of_user() -> String {
    format!("-{}", rustix::process::geteuid().as_raw())
}

/// Returns nothing, because other systems have a temporary folder for each user.
#[cfg(not(unix))]
fn of_user() -> String {
    String::new()
}

/// Makes the path absolute and removes a trailing slash, which would hide that it is a link.
pub(super) fn absolute_dir(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).components().collect()
}

/// Waits until no other process writes to the folder; dropping the returned file, or exiting, releases the lock.
pub(super) fn lock(dir: &Path, after: Duration) -> Result<File, SpillError> {
    let failed = |source| SpillError::Folder { dir: dir.to_owned(), source };
    let file = open_lock(&dir.join(LOCK)).map_err(failed)?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if start.elapsed() >= after => {
                return Err(SpillError::Busy { dir: dir.to_owned(), after });
            }
            // A blocking lock would have no time limit.
            Err(TryLockError::WouldBlock) => std::thread::sleep(TURN),
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    match private_files::create_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Others cannot have put it here, but its owner could; opening a pipe would block forever.
            if !fs::symlink_metadata(path)?.is_file() {
                return Err(io::Error::other(format!("{} is not a regular file", path.display())));
            }
            OpenOptions::new().write(true).open(path)
        }
        made => made,
    }
}

const LOCK: &str = ".lock";
const TURN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_is_among_the_users_caches() {
        let check = |variables: &[(&str, &str)], dir: PathBuf| {
            let variable = |name: &str| {
                variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(dir_from(variable), dir, "{variables:?}");
        };
        let temporary = env::temp_dir().join(format!("toolgate-results{}", of_user()));
        check(&[("XDG_CACHE_HOME", "/caches"), ("HOME", "/me")], "/caches/toolgate/results".into());
        check(&[("HOME", "/me")], "/me/.cache/toolgate/results".into());
        check(&[("XDG_CACHE_HOME", ""), ("HOME", "/me")], "/me/.cache/toolgate/results".into());
        check(&[("XDG_CACHE_HOME", "caches"), ("HOME", "me")], temporary.clone());
        check(&[], temporary);
    }

    #[test]
    fn a_folder_that_another_process_holds_is_waited_for_within_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path(), Duration::ZERO).unwrap();
        let busy = lock(dir.path(), Duration::ZERO).unwrap_err();
        assert!(matches!(busy, SpillError::Busy { .. }), "{busy}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lock(dir.path(), Duration::from_secs(60)).is_ok());
            drop(held);
            assert!(waits.join().unwrap());
        });
    }
}
