//! Keeps the whole texts of results that were cut, in files that only their owner can read.
//!
//! The texts are already masked. The folder is limited in size and age: each new text makes room for itself, and a
//! process that runs for long removes at its start and every hour what has become too old.

mod eviction;
mod folder;
mod name;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub(crate) use folder::default_dir;

/// Where texts are kept, how many, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpillRules {
    /// The folder, created with the first text.
    pub dir: PathBuf,
    /// The size limit for all texts together, in bytes.
    pub max_bytes: u64,
    /// How long a text is kept.
    pub max_age: Duration,
}

/// A folder of kept texts; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SpillStore {
    rules: Arc<SpillRules>,
    /// Serializes the writers of this process; the lock file serializes processes.
    write_lock: Arc<Mutex<()>>,
    /// How long to wait for another process to release the folder.
    lock_timeout: Duration,
}

/// Why a text could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpillError {
    /// The folder cannot be created, or others could read or change its files.
    #[error("results cannot be kept in {}", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Another process holds the folder for too long.
    #[error("results cannot be kept in {}: another process has held it for {after:?}", dir.display())]
    Busy {
        /// The folder.
        dir: PathBuf,
        /// How long we waited.
        after: Duration,
    },
    /// The text alone is larger than the limit for all texts.
    #[error("a result of {bytes} bytes cannot be kept: all kept results together may have {max} bytes")]
    TooLarge {
        /// The size of the text.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// An older text cannot be removed to make room.
    #[error("an old result cannot be removed: {}", path.display())]
    Remove {
        /// The file of the older text.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written, as on a full disk or in a read-only folder.
    #[error("a result cannot be written to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program is shutting down.
    #[error("a result was not kept: the program is shutting down")]
    Stopped,
}

impl SpillStore {
    /// Creates the store; the folder is created and checked with the first text.
    pub(crate) fn new(rules: SpillRules) -> Self {
        let rules = SpillRules { dir: folder::absolute_dir(&rules.dir), ..rules };
        SpillStore { rules: Arc::new(rules), write_lock: Arc::default(), lock_timeout: PATIENCE }
    }

    /// Keeps a text and returns its file; it blocks on the disk, unlike [`keep_async`](Self::keep_async).
    pub(crate) fn keep(&self, server: &str, tool: &str, call: &str, text: &str) -> Result<PathBuf, SpillError> {
        let path = self.keep_at(SystemTime::now(), server, tool, text)?;
        tracing::debug!(server, tool, call, path = %path.display(), bytes = text.len(), "the whole result is kept");
        Ok(path)
    }

    /// Keeps a text on another thread and returns its file; dropping the future does not undo it.
    pub(crate) async fn keep_async(
        &self,
        server: &str,
        tool: &str,
        call: &str,
        text: impl Into<Arc<str>>,
    ) -> Result<PathBuf, SpillError> {
        let spill = self.clone();
        let [server, tool, call] = [server, tool, call].map(str::to_owned);
        let text = text.into();
        let kept = tokio::task::spawn_blocking(move || spill.keep(&server, &tool, &call, &text));
        kept.await.unwrap_or(Err(SpillError::Stopped))
    }

    /// Removes texts that are too old, now and then every hour.
    pub(crate) async fn sweep_regularly(self) {
        loop {
            let spill = self.clone();
            let swept = tokio::task::spawn_blocking(move || spill.sweep_at(SystemTime::now()));
            if let Ok(Err(error)) = swept.await {
                tracing::warn!("{}", crate::failure::format_chain(&error));
            }
            tokio::time::sleep(SWEEP_INTERVAL).await;
        }
    }

    /// Removes texts that are too old or too many by now.
    fn sweep_at(&self, now: SystemTime) -> Result<(), SpillError> {
        let SpillRules { dir, max_bytes, max_age } = &*self.rules;
        // A folder is created with the first text only.
        if fs::symlink_metadata(dir).is_err() {
            return Ok(());
        }
        let _turn = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        crate::private_files::ensure_real_folder(dir)
            .map_err(|source| SpillError::Folder { dir: dir.clone(), source })?;
        let _lock = folder::lock(dir, self.lock_timeout)?;
        let expired = now.checked_sub(*max_age).map(name::stamp);
        eviction::make_room(dir, expired.as_deref(), *max_bytes)
    }

    fn keep_at(&self, now: SystemTime, server: &str, tool: &str, text: &str) -> Result<PathBuf, SpillError> {
        let SpillRules { dir, max_bytes, max_age } = &*self.rules;
        let bytes = text.len() as u64;
        if bytes > *max_bytes {
            return Err(SpillError::TooLarge { bytes, max: *max_bytes });
        }
        let _turn = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        crate::private_files::ensure_real_folder(dir)
            .map_err(|source| SpillError::Folder { dir: dir.clone(), source })?;
        let _lock = folder::lock(dir, self.lock_timeout)?;
        let expired = now.checked_sub(*max_age).map(name::stamp);
        eviction::make_room(dir, expired.as_deref(), max_bytes - bytes)?;
        let path = dir.join(name::new_name(server, tool, now));
        write(&path.with_extension(name::PART), &path, text)
            .map_err(|source| SpillError::Write { path: path.clone(), source })?;
        Ok(path)
    }
}

/// Writes under another name first, so that nobody sees half a text; no `fsync`, because nobody remembers the name
/// after a crash of the machine.
fn write(part: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = crate::private_files::create_file(part)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(part, path));
    if written.is_err() {
        // If it cannot be removed now, the next text removes it.
        let _ = fs::remove_file(part);
    }
    written
}

const PATIENCE: Duration = Duration::from_secs(5);
/// How often texts that are too old are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests;
