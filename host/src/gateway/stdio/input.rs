//! Reads the client's messages, one per line, up to a length limit.

mod skipped_line;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memchr;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

use skipped_line::SkippedLine;

/// The lines that a client sends.
pub(super) struct ClientLines<I> {
    input: BufReader<I>,
    /// The length limit of a line, in bytes.
    most: Arc<AtomicUsize>,
}

/// The result of reading a line.
pub(super) enum LineRead {
    /// A line that is not empty, without its line break.
    Message(String),
    /// A line that was too long and was skipped, with the id of its request, if it has one.
    TooLong { most: usize, id: Option<String> },
    /// The input has ended.
    End,
}

impl<I: AsyncRead + Unpin> ClientLines<I> {
    pub(super) fn new(input: I, most: Arc<AtomicUsize>) -> Self {
        ClientLines { input: BufReader::with_capacity(READ, input), most }
    }

    /// Reads the next line that is not empty; dropping the future loses a partly read line.
    pub(super) async fn next(&mut self) -> io::Result<LineRead> {
        let mut line = Vec::new();
        loop {
            let (taken, whole) = chunk(&mut self.input).await?;
            let (piece, most) = (&self.input.buffer()[..taken], self.most.load(Ordering::Relaxed));
            if line.len() + piece.len() > most.saturating_add(END) {
                let skipped = SkippedLine::begin(&line);
                drop(line);
                return Ok(LineRead::TooLong { most, id: self.skip(skipped).await? });
            }
            line.extend_from_slice(piece);
            self.input.consume(taken);
            if !whole {
                continue;
            }
            let ended = taken == 0;
            let text = text(std::mem::take(&mut line));
            if text.len() > most {
                return Ok(LineRead::TooLong { most, id: SkippedLine::begin(text.as_bytes()).id() });
            }
            match (text.is_empty(), ended) {
                (false, _) => return Ok(LineRead::Message(text)),
                (true, true) => return Ok(LineRead::End),
                (true, false) => {}
            }
        }
    }

    /// Skips the rest of a line, and returns the id of its request.
    async fn skip(&mut self, mut skipped: SkippedLine) -> io::Result<Option<String>> {
        loop {
            let (taken, whole) = chunk(&mut self.input).await?;
            skipped.take(&self.input.buffer()[..taken]);
            self.input.consume(taken);
            if whole {
                return Ok(skipped.id());
            }
        }
    }
}

/// Returns how many bytes of the line are buffered, with its line break, and whether the line is complete; zero bytes
/// mean the end of the input.
async fn chunk(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<(usize, bool)> {
    let there = input.fill_buf().await?;
    Ok(match memchr(b'\n', there) {
        Some(place) => (place + 1, true),
        None => (there.len(), there.is_empty()),
    })
}

/// Converts a line to trimmed text, reusing its memory.
fn text(mut line: Vec<u8>) -> String {
    line.truncate(line.trim_ascii_end().len());
    let blank = line.len() - line.trim_ascii_start().len();
    line.drain(..blank);
    String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

const READ: usize = 64 * 1024;
/// The longest line break.
const END: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all lines with a limit of 40 bytes: the messages, and the ids of lines that are too long.
    async fn read(input: &str) -> Vec<String> {
        // A small buffer, so that every line comes in several pieces.
        let mut lines = ClientLines { input: BufReader::with_capacity(7, input.as_bytes()), most: Arc::new(40.into()) };
        let mut all = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                LineRead::Message(text) => all.push(text),
                LineRead::TooLong { id, .. } => all.push(format!("too long: {}", id.as_deref().unwrap_or("?"))),
                LineRead::End => return all,
            }
        }
    }

    #[tokio::test]
    async fn a_line_is_a_message_and_one_that_is_too_long_is_skipped_to_its_end() {
        let (most, more) = ("m".repeat(40), "m".repeat(41));
        let long = "x".repeat(1000);
        let request = format!(r#"{{"params":{{"id":8,"text":"{long}\""}},"method":"a", "id" : "c-7" }}"#);
        let first = format!(r#"{{"jsonrpc":"2.0","id":17,"method":"a","params":["{long}"]}}"#);
        let answer = format!(r#"{{"id":17,"result":"{long}"}}"#);
        let rows = [
            ("a\n\n b \r\n\t\nc".to_owned(), vec!["a", "b", "c"]),
            (format!("{most}\r\n{more}\n{most}"), vec![&most, "too long: ?", &most]),
            (format!("{request}\nb"), vec!["too long: \"c-7\"", "b"]),
            (format!("{first}\n{answer}\n[{first}]\nb\n"), vec!["too long: 17", "too long: ?", "too long: ?", "b"]),
            (long.clone(), vec!["too long: ?"]),
            (String::new(), vec![]),
        ];
        for (input, expected) in rows {
            assert_eq!(read(&input).await, expected, "{input}");
        }
    }
}
