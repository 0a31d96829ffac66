//! Finds the id of the request in a line that is too long to be kept.

use serde::de::IgnoredAny;

/// The state of scanning a line that is discarded as it comes.
#[derive(Default)]
pub(super) struct SkippedLine {
    /// The number of open objects and arrays.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The current key or value of the outermost object.
    word: Vec<u8>,
    /// The last key of the outermost object.
    key: Vec<u8>,
    id: Option<String>,
    has_method: bool,
}

impl SkippedLine {
    /// Starts scanning with the beginning of a line.
    pub(super) fn begin(line: &[u8]) -> Self {
        let mut skipped = SkippedLine::default();
        skipped.take(line);
        skipped
    }

    /// Scans more of the line.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.step(*byte));
    }

    /// Returns the id of the request as it was written; without an error for this id, the client would wait forever.
    pub(super) fn id(self) -> Option<String> {
        self.id.filter(|_| self.has_method)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.ended();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.key = std::mem::take(&mut self.word);
                self.has_method |= self.key == b"\"method\"";
            }
            b',' => self.ended(),
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() <= MOST {
            self.word.push(byte);
        }
    }

    /// Ends a member of the outermost object.
    fn ended(&mut self) {
        if self.depth != 1 {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if std::mem::take(&mut self.key) == b"\"id\"" {
            let id = String::from_utf8(word).ok().filter(|id| id.len() <= MOST && !id.starts_with(['n', 't', 'f']));
            self.id = id.filter(|id| serde_json::from_str::<IgnoredAny>(id).is_ok());
        }
    }
}

/// The longest id that is kept, in bytes.
const MOST: usize = 256;
