//! Makes room in the folder: removes expired texts, then the oldest, until the next text fits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SpillError;
use super::name::{self, SpillFile};

/// Removes texts from before `expired`, and then the oldest until the rest has at most `most` bytes.
///
/// Only the holder of the folder's lock writes to it, so a partial file was left by a process that died.
pub(super) fn make_room(dir: &Path, expired: Option<&str>, most: u64) -> Result<(), SpillError> {
    let mut kept = texts(dir).map_err(|source| SpillError::Folder { dir: dir.to_owned(), source })?;
    kept.sort_by(|one, other| (&one.stamp, &one.path).cmp(&(&other.stamp, &other.path)));
    let mut total: u64 = kept.iter().map(|text| text.bytes).sum();
    for text in kept {
        let too_old = text.stamp.is_empty() || expired.is_some_and(|expired| text.stamp.as_str() < expired);
        if !too_old && total <= most {
            break;
        }
        match fs::remove_file(&text.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(SpillError::Remove { path: text.path, source });
            }
            _ => total -= text.bytes,
        }
    }
    Ok(())
}

struct SpilledText {
    /// When it was written; empty for a partial file, which sorts first.
    stamp: String,
    path: PathBuf,
    bytes: u64,
}

/// Lists all of our files, including partial ones.
fn texts(dir: &Path) -> io::Result<Vec<SpilledText>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let stamp = match name.to_str().and_then(name::parse_name) {
            Some(SpillFile::Complete(stamp)) => stamp.to_owned(),
            Some(SpillFile::Partial) => String::new(),
            None => continue,
        };
        // Links and folders are not ours, and a file that is gone needs no room.
        let Ok(found) = entry.metadata() else { continue };
        if found.is_file() {
            texts.push(SpilledText { stamp, path: entry.path(), bytes: found.len() });
        }
    }
    Ok(texts)
}
