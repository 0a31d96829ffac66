//! Finds the record of one call.

use std::collections::BTreeMap;
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
    /// Calls whose ids begin with the one that was sought, by their ids; all of them are only known if there is no
    /// record of that one.
    pub longer: BTreeMap<String, LongerId>,
}

/// A call whose id begins with the one that was sought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LongerId {
    /// Its record can be read: the time when it began, and the name that the model wrote.
    Call {
        /// The time when it began.
        at: String,
        /// The name that the model wrote.
        name: String,
    },
    /// Its record is damaged.
    Damaged,
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

/// Finds the records of a call in these folders by its id; a folder that is named twice counts once.
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
        let quoted = crate::rpc::quote(id);
        let sign = format!("\"id\":{quoted}");
        let begins = memchr::memmem::Finder::new(&sign.as_bytes()[..sign.len() - 1]);
        let mut damaged = None;
        for segment in list_segments(dir)?.into_iter().rev() {
            let mut lines = RecordLines::of_segments(vec![segment]);
            let (mut line, mut last) = (Vec::new(), None);
            while let Some((spot, found)) = lines.next(&mut line).map_err(unreadable(dir))? {
                let Some(at) = begins.find(&line).filter(|_| found != LineState::Unfinished) else { continue };
                match line::read(&line) {
                    Ok(record) if record.id == id => last = Some(FoundRecord { dir: dir.to_owned(), spot, record }),
                    Ok(Record { id: longer, at, name, .. }) if longer.starts_with(id) => {
                        self.add_longer(longer, LongerId::Call { at, name });
                    }
                    // The id may also occur in the answer of another call.
                    Ok(_) => {}
                    Err(damage) => {
                        if memchr::memmem::find(&line, sign.as_bytes()).is_some() {
                            damaged = Some((spot, damage));
                        }
                        // Further on in the line, the id may be in somebody's text.
                        if let Some(longer) = id_at(&line[at..]).filter(|longer| at <= HEAD && *longer != id) {
                            self.add_longer(longer, LongerId::Damaged);
                        }
                    }
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

    /// Adds a call whose id begins with the one that is sought. More of them than a person would read do not matter.
    fn add_longer(&mut self, id: String, found: LongerId) {
        if self.longer.len() < MOST_LONGER {
            self.longer.entry(id).or_insert(found);
        }
    }
}

/// Reads the id at the beginning of a part of a line.
fn id_at(line: &[u8]) -> Option<String> {
    let text = line.strip_prefix(b"\"id\":")?;
    let end = text.iter().skip(1).position(|byte| *byte == b'"')?;
    serde_json::from_slice(&text[..end + 2]).ok()
}

/// Where the id of a record begins at the latest: only the version of the format is in front of it.
const HEAD: usize = 10;
/// The most calls that are kept whose ids begin with the one that is sought.
const MOST_LONGER: usize = 100;
