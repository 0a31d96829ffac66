//! Finds the record of one call.

use std::path::{Path, PathBuf};

use super::backtest::{BacktestError, list_segments, unreadable};
use super::folder;
use super::line::{self, LineDamage, Record};
use super::reader::{LinePosition, LineState, RecordLines};

/// The records of a call.
#[derive(Debug, Default)]
pub struct FoundRecords {
    /// The newest record of the call in each folder that has one, the newest first.
    pub records: Vec<FoundRecord>,
    /// A damaged record in each folder that mentions the call in damaged records alone.
    pub damaged: Vec<(LinePosition, LineDamage)>,
}

/// The record of a call, and where it is.
#[derive(Debug)]
pub struct FoundRecord {
    /// The folder.
    pub dir: PathBuf,
    /// The position in the folder.
    pub spot: LinePosition,
    /// The record.
    pub record: Record,
}

/// Finds the records of a call in these folders; a folder that is named twice counts once.
pub fn find(dirs: &[PathBuf], id: &str) -> Result<FoundRecords, BacktestError> {
    let mut found = FoundRecords::default();
    for dir in folder::distinct(dirs) {
        found.add_folder(&dir, id)?;
    }
    found.records.sort_by(|one, two| two.record.at.cmp(&one.record.at));
    Ok(found)
}

impl FoundRecords {
    /// Adds the newest record of a call in a folder, or a damaged one if only damaged records mention it.
    fn add_folder(&mut self, dir: &Path, id: &str) -> Result<(), BacktestError> {
        let sign = format!("\"id\":{}", crate::rpc::quote(id));
        let sign = memchr::memmem::Finder::new(sign.as_bytes());
        let mut damaged = None;
        for segment in list_segments(dir)?.into_iter().rev() {
            let mut lines = RecordLines::of_segments(vec![segment]);
            let (mut line, mut last) = (Vec::new(), None);
            while let Some((spot, found)) = lines.next(&mut line).map_err(unreadable(dir))? {
                if found == LineState::Unfinished || sign.find(&line).is_none() {
                    continue;
                }
                match line::read(&line) {
                    Ok(record) if record.id == id => last = Some(FoundRecord { dir: dir.to_owned(), spot, record }),
                    // The id may also occur in the answer of another call.
                    Ok(_) => {}
                    Err(damage) => damaged = Some((spot, damage)),
                }
            }
            if let Some(last) = last {
                self.records.push(last);
                return Ok(());
            }
        }
        self.damaged.extend(damaged);
        Ok(())
    }
}
