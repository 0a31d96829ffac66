//! A line that is too long to be kept: all that is taken of it is the id of its request.

use serde::de::IgnoredAny;

/// A line that is thrown away as it comes.
#[derive(Default)]
pub(super) struct SkippedLine {
    /// How many objects and lists are open.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// What stands between two marks of the outermost object.
    word: Vec<u8>,
    /// The last of its keys.
    key: Vec<u8>,
    id: Option<String>,
    has_method: bool,
}

impl SkippedLine {
    /// A line that begins so.
    pub(super) fn begin(line: &[u8]) -> Self {
        let mut skipped = SkippedLine::default();
        skipped.take(line);
        skipped
    }

    /// More of the line.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.step(*byte));
    }

    /// The id of the request that the line was, as it was written; without it the client would wait for ever.
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

    /// A member of the outermost object has ended.
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

/// The longest id that is kept.
const MOST: usize = 256;
