//! What comes from the client, a message a line, none longer than may be.

mod skipped_line;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memchr;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

use skipped_line::SkippedLine;

/// The lines of a client.
pub(super) struct ClientLines<I> {
    input: BufReader<I>,
    /// The longest line, in bytes.
    most: Arc<AtomicUsize>,
}

/// What was read.
pub(super) enum LineRead {
    /// A line that is not empty, without its end.
    Message(String),
    /// A line that was longer than may be and was thrown away; the id of its request, where it has one.
    TooLong { most: usize, id: Option<String> },
    /// Nothing: there are no more lines.
    End,
}

impl<I: AsyncRead + Unpin> ClientLines<I> {
    pub(super) fn new(input: I, most: Arc<AtomicUsize>) -> Self {
        ClientLines { input: BufReader::with_capacity(READ, input), most }
    }

    /// The next line that is not empty. What was read of it is lost where nobody waits for the rest.
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

    /// Throws the rest of a line away; gives the id of its request.
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

/// How much is there of the line, its end included, and whether that is all; at the end of the input nothing is.
async fn chunk(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<(usize, bool)> {
    let there = input.fill_buf().await?;
    Ok(match memchr(b'\n', there) {
        Some(place) => (place + 1, true),
        None => (there.len(), there.is_empty()),
    })
}

/// A line as text, in the memory that it is in.
fn text(mut line: Vec<u8>) -> String {
    line.truncate(line.trim_ascii_end().len());
    let blank = line.len() - line.trim_ascii_start().len();
    line.drain(..blank);
    String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

const READ: usize = 64 * 1024;
/// The longest end of a line.
const END: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of this input, where no line has more than 40 bytes: the messages, and the ids of what is too long.
    async fn read(input: &str) -> Vec<String> {
        // In small pieces, so that every line comes in several.
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
