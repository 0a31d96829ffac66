//! The shared parts of several folders of records, and what servers offered last in any of them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::line::FIRST;
use super::merge::MergedLines;
use super::reader::SharedParts;
use crate::logic::types::Tool;

/// The shared parts of several folders; records use those of their own folder, so that damage in it is noticed.
pub(super) struct FolderParts {
    dirs: Vec<PathBuf>,
    folders: Vec<SharedParts>,
    /// When the search for the latest tools ends.
    until: Option<Instant>,
    /// The latest tools of each server, by their folder and digest; found when they are first needed.
    last: OnceLock<BTreeMap<String, (usize, String)>>,
}

impl FolderParts {
    /// Opens the shared parts of the records in these folders.
    pub(super) fn of(dirs: &[PathBuf]) -> Self {
        let folders = dirs.iter().map(|dir| SharedParts::of(dir)).collect();
        FolderParts { dirs: dirs.to_vec(), folders, until: None, last: OnceLock::new() }
    }

    /// Knows no server's latest tools if finding them takes longer: that reads all records.
    pub(super) fn within(self, until: Instant) -> Self {
        FolderParts { until: Some(until), ..self }
    }

    /// Returns the parts of one folder, by its index.
    pub(super) fn folder(&self, index: usize) -> &SharedParts {
        &self.folders[index]
    }

    /// Returns the tools that a server offered last, to any caller, in all records.
    pub(super) fn latest_offer(&self, server: &str) -> Option<Arc<[Tool]>> {
        let (folder, digest) = self.last().get(server)?;
        self.folders[*folder].tools(digest).ok()
    }

    /// Returns the ids of all servers in the records, sorted.
    pub(super) fn servers(&self) -> impl Iterator<Item = &str> {
        self.last().keys().map(String::as_str)
    }

    fn last(&self) -> &BTreeMap<String, (usize, String)> {
        self.last.get_or_init(|| self.last_offers())
    }

    /// Finds the digest of each server's latest tools; a backtest reports the files that cannot be read.
    fn last_offers(&self) -> BTreeMap<String, (usize, String)> {
        let mut catalogs = HashMap::<String, (u64, usize)>::new();
        let (sign, mut line) = (memchr::memmem::Finder::new(CATALOG), Vec::new());
        let Ok(mut lines) = MergedLines::of(&self.dirs) else { return BTreeMap::new() };
        while let Ok(Some((spot, _))) = lines.next(&mut line) {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                // The latest so far may not be the latest of all.
                return BTreeMap::new();
            }
            for found in sign.find_iter(&line).map(|found| found + CATALOG.len()) {
                let Some(Ok(digest)) = line.get(found..found + FIRST.len()).map(str::from_utf8) else { continue };
                match catalogs.get_mut(digest) {
                    Some(last) => *last = (spot.order, spot.folder),
                    None => drop(catalogs.insert(digest.to_owned(), (spot.order, spot.folder))),
                }
            }
        }
        let mut catalogs: Vec<_> = catalogs.into_iter().map(|(digest, at)| (at, digest)).collect();
        catalogs.sort();
        let mut last = BTreeMap::new();
        for ((_, folder), digest) in catalogs {
            let servers = self.folders[folder].tool_digests(&digest).unwrap_or_default();
            last.extend(servers.into_iter().map(|(server, tools)| (server, (folder, tools))));
        }
        last
    }
}

/// The text before the digest of the offered tools in a record.
const CATALOG: &[u8] = b"\"catalog\":\"";
