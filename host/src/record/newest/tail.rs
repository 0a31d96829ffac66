//! Reads the lines of one record file backwards, block by block.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use super::ReadBudget;

/// The part of a record file that is not read yet.
pub(super) struct SegmentTail {
    /// The index of its folder.
    pub folder: usize,
    /// The path of the file.
    pub path: PathBuf,
    /// The time of the last change to the file.
    pub changed: SystemTime,
    /// The line that was read last, until it is taken.
    pub line: Option<Vec<u8>>,
    /// The offset in the file at which the buffer starts.
    start: u64,
    /// Bytes of the file before the lines that were read; they end with a line end.
    buffer: Vec<u8>,
    /// Whether the end of the last complete line was found.
    is_open: bool,
}

/// The reason why no line can be read.
#[derive(Debug)]
pub(super) enum TailError {
    /// The budget is spent; the text says which part of it.
    Spent(String),
    /// The file cannot be read.
    File(io::Error),
}

impl SegmentTail {
    /// Creates the tail of a file of this length; nothing is opened yet.
    pub(super) fn new(folder: usize, path: PathBuf, changed: SystemTime, bytes: u64) -> Self {
        SegmentTail { folder, path, changed, line: None, start: bytes, buffer: Vec::new(), is_open: false }
    }

    /// Returns the name of the file.
    pub(super) fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Reads the line before those that were read, and reports whether there is one.
    pub(super) fn read_line(&mut self, budget: &mut ReadBudget) -> Result<bool, TailError> {
        while !self.is_open {
            match memchr::memrchr(b'\n', &self.buffer) {
                Some(end) => {
                    self.buffer.truncate(end + 1);
                    self.is_open = true;
                }
                // What follows the last line end is still being written, or never was.
                None => {
                    self.buffer.clear();
                    if !self.read_block(budget)? {
                        return Ok(false);
                    }
                }
            }
        }
        loop {
            if let Some((_, lines)) = self.buffer.split_last() {
                let begin = memchr::memrchr(b'\n', lines).map(|end| end + 1);
                if let Some(begin) = begin.or((self.start == 0).then_some(0)) {
                    self.line = Some(lines[begin..].to_vec());
                    self.buffer.truncate(begin);
                    return Ok(true);
                }
            }
            if !self.read_block(budget)? {
                return Ok(false);
            }
        }
    }

    /// Reads the block before the buffer, and reports whether there is one.
    fn read_block(&mut self, budget: &mut ReadBudget) -> Result<bool, TailError> {
        // Blocks grow with the line, so that a long line is not searched and moved again and again.
        let bytes = BLOCK.max(self.buffer.len() as u64).min(self.start);
        if bytes == 0 {
            return Ok(false);
        }
        budget.spend(bytes)?;
        self.start -= bytes;
        let mut block = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default() + self.buffer.len());
        // A process can have few files open, and many files may have their turn.
        let mut file = File::open(&self.path).map_err(TailError::File)?;
        file.seek(SeekFrom::Start(self.start)).map_err(TailError::File)?;
        let read = file.take(bytes).read_to_end(&mut block).map_err(TailError::File)?;
        if (read as u64) < bytes {
            return Err(TailError::File(io::ErrorKind::UnexpectedEof.into()));
        }
        block.append(&mut self.buffer);
        self.buffer = block;
        Ok(true)
    }
}

impl ReadBudget {
    /// Takes a block of this many bytes from the budget.
    fn spend(&mut self, bytes: u64) -> Result<(), TailError> {
        if Instant::now() > self.until {
            return Err(TailError::Spent("reading took too long, so older records are not listed".to_owned()));
        }
        // Opening a file is work too, however small it is.
        let left = self.bytes.checked_sub(bytes.max(LEAST));
        self.bytes = left.ok_or_else(|| {
            TailError::Spent("the newest records are long or of others, so older ones are not listed".to_owned())
        })?;
        Ok(())
    }
}

/// Returns the name of a file without its folder.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

/// The number of bytes that are read at once.
const BLOCK: u64 = 32 << 10;
/// The number of bytes that a block counts at least.
const LEAST: u64 = 4 << 10;
