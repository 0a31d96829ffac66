//! Reads lines of a bounded length; a longer line is skipped, and reading continues with the next one.

use std::io::{BufRead, BufReader, Read};

/// Reads lines of a bounded length.
pub(super) struct EvalLineReader<R> {
    input: BufReader<R>,
    limit: usize,
    buffer: Vec<u8>,
}

/// A line, or what is wrong with it.
#[derive(Debug, PartialEq)]
pub(super) enum EvalLine<'a> {
    Text(&'a str),
    TooLong,
    NotUtf8,
}

impl<R: Read> EvalLineReader<R> {
    /// Creates a reader for lines of at most `limit` bytes.
    pub(super) fn new(input: R, limit: usize) -> Self {
        EvalLineReader { input: BufReader::with_capacity(64 << 10, input), limit, buffer: Vec::new() }
    }

    /// Returns the next line without its line break.
    pub(super) fn next(&mut self) -> std::io::Result<Option<EvalLine<'_>>> {
        self.buffer.clear();
        let with_break = self.limit as u64 + 1;
        if self.input.by_ref().take(with_break).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        self.buffer.pop_if(|last| *last == b'\n');
        if self.buffer.len() > self.limit {
            self.input.skip_until(b'\n')?;
            // Free the memory of the long line; the next one may be short.
            self.buffer = Vec::new();
            return Ok(Some(EvalLine::TooLong));
        }
        Ok(Some(std::str::from_utf8(&self.buffer).map_or(EvalLine::NotUtf8, EvalLine::Text)))
    }

    /// Reports whether a whole line is already buffered, so that reading it will not block.
    pub(super) fn has_buffered_line(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_does_not_take_the_next_one_with_it() {
        let input = format!("ab\n\n{}\nlast", "x".repeat(200_000));
        let mut reader = EvalLineReader::new(input.as_bytes(), 10);
        assert_eq!(reader.next().unwrap(), Some(EvalLine::Text("ab")));
        assert!(reader.has_buffered_line());
        assert_eq!(reader.next().unwrap(), Some(EvalLine::Text("")));
        assert_eq!(reader.next().unwrap(), Some(EvalLine::TooLong));
        assert_eq!(reader.next().unwrap(), Some(EvalLine::Text("last")));
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn a_line_that_is_not_utf8_is_said_to_be_none() {
        let mut reader = EvalLineReader::new(&b"\xff\nok\n"[..], 10);
        assert_eq!(reader.next().unwrap(), Some(EvalLine::NotUtf8));
        assert_eq!(reader.next().unwrap(), Some(EvalLine::Text("ok")));
    }
}
