//! A server's standard error: each line goes to the receiver and the log, and the last ones are kept for errors.

use std::sync::{Arc, Mutex};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::excerpt;
use crate::config::secrets::Secrets;
use crate::lock::lock;
use crate::transport::connection::Receive;
use crate::visible::cut;

/// The end of the output, without secrets.
#[derive(Default)]
pub(super) struct StderrTail {
    kept: Mutex<TailBytes>,
    secrets: Secrets,
}

#[derive(Default)]
struct TailBytes {
    bytes: Vec<u8>,
    /// Whether something before these bytes is lost.
    cut: bool,
}

/// Reads until the end without pause, so that the server never has to wait.
pub(super) async fn read_stderr(mut pipe: pipe::Receiver, tail: Arc<StderrTail>, receiver: Arc<dyn Receive>) {
    let mut buffer = vec![0; READ];
    let mut lines = LineSplitter { line: Vec::new(), secrets: tail.secrets.clone(), receiver };
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => {
                tail.push(&buffer[..count]);
                lines.push(&buffer[..count]);
            }
            Err(error) => {
                tracing::debug!(%error, "reading the server's standard error failed");
                break;
            }
        }
    }
    lines.end_line();
}

impl StderrTail {
    /// Creates an empty tail.
    pub(super) fn new(secrets: Secrets) -> Self {
        StderrTail { secrets, ..StderrTail::default() }
    }

    /// Returns the last lines as text; the caller must escape control characters before printing.
    pub(super) fn text(&self) -> String {
        let kept = lock(&self.kept);
        let text = String::from_utf8_lossy(&kept.bytes);
        // Redact before cutting: half of a secret cannot be recognised.
        let text = self.secrets.redact(&text);
        // A line without its beginning says little, and may be half of a secret that cannot be recognised.
        let whole = match text.split_once('\n') {
            Some((_, rest)) if kept.cut && !rest.trim().is_empty() => rest,
            _ => &text,
        };
        let lines: Vec<&str> = whole.trim_end().lines().collect();
        let (before, last) = lines.split_at(lines.len().saturating_sub(MOST_LINES));
        let mut shown: Vec<String> = last.iter().map(|line| cut(line, MOST_SHOWN)).collect();
        // A long stack trace must not push out the error message before it.
        let told = last.iter().any(|line| names_error(line));
        if let Some(place) = before.iter().rposition(|line| names_error(line)).filter(|_| !told) {
            if place + 1 < before.len() {
                shown.insert(0, "…".to_owned());
            }
            shown.insert(0, cut(before[place], MOST_SHOWN));
        }
        shown.join("\n")
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = lock(&self.kept);
        let newest = &bytes[bytes.len().saturating_sub(MOST_BYTES)..];
        let older = (kept.bytes.len() + newest.len()).saturating_sub(MOST_BYTES);
        kept.cut |= older > 0 || newest.len() < bytes.len();
        kept.bytes.drain(..older);
        kept.bytes.extend_from_slice(newest);
    }
}

/// Reports whether a line looks like an error message; indented lines belong to another line.
fn names_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    !line.starts_with(char::is_whitespace) && ERRORS.iter().any(|word| line.contains(word))
}

/// Assembles lines from chunks, and passes them on.
struct LineSplitter {
    line: Vec<u8>,
    secrets: Secrets,
    receiver: Arc<dyn Receive>,
}

impl LineSplitter {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MOST_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = self.line.trim_ascii_end();
        if !line.is_empty() {
            self.receiver.wrote_to_stderr(line);
            tracing::debug!(line = excerpt::of(line, MOST_SHOWN, &self.secrets), "standard error");
        }
        self.line.clear();
    }
}

const READ: usize = 64 * 1024;
const MOST_BYTES: usize = 16 * 1024;
const MOST_LINES: usize = 20;
const MOST_SHOWN: usize = 1000;
/// More than is shown of a line, so that what is removed from it is whole.
const MOST_LINE: usize = 8 * 1024;
const ERRORS: [&str; 4] = ["error", "exception", "panic", "fatal"];

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(pieces: &[&[u8]]) -> String {
        let tail = StderrTail::default();
        pieces.iter().for_each(|piece| tail.push(piece));
        tail.text()
    }

    #[test]
    fn a_tail_has_the_last_lines() {
        assert_eq!(tail(&[]), "");
        assert_eq!(tail(&[b"one\ntwo", b" three\r\n", b"four\n\n"]), "one\ntwo three\nfour");
        let many: Vec<String> = (0..100).map(|number| format!("line {number}\n")).collect();
        let pieces: Vec<&[u8]> = many.iter().map(String::as_bytes).collect();
        let last: Vec<String> = (80..100).map(|number| format!("line {number}")).collect();
        assert_eq!(tail(&pieces), last.join("\n"));
    }

    #[test]
    fn a_tail_is_bounded_and_starts_with_a_whole_line() {
        let flood = b"a line of thirty-two characters!\n".repeat(10_000);
        for pieces in [vec![&flood[..]], flood.chunks(100).collect(), flood.chunks(5000).collect()] {
            let text = tail(&pieces);
            assert_eq!(text, ["a line of thirty-two characters!"; 20].join("\n"));
        }
        let wide = [&b"x".repeat(15_000)[..], b"\n", &b"y".repeat(2000), b"\nlast"].concat();
        assert_eq!(tail(&[&wide]), format!("{}…\nlast", "y".repeat(1000)));
        assert_eq!(tail(&[&b"z".repeat(100_000)]), "z".repeat(1000) + "…");
    }

    #[test]
    fn a_long_trace_does_not_push_out_what_it_is_the_trace_of() {
        let trace: String =
            (0..30).map(|depth| format!("    at step{depth} (node:internal/errors:{depth}:7)\n")).collect();
        let last: Vec<&str> = trace.lines().skip(11).collect();
        let node = format!("an error of old\nserver.js:1\n\nError: Cannot find module 'x'\n{trace}\nNode.js v22.1.0\n");
        let shown = format!("Error: Cannot find module 'x'\n…\n{}\n\nNode.js v22.1.0", last[1..].join("\n"));
        assert_eq!(tail(&[node.as_bytes()]), shown);
        let at_once = format!("Error: x\n{}", "    at y\n".repeat(20));
        assert_eq!(tail(&[at_once.as_bytes()]), at_once.trim_end());
        // If the last lines contain an error, an older one does not matter.
        let own = format!("error of old\n{trace}ValueError: no\n");
        assert_eq!(tail(&[own.as_bytes()]), format!("{}\nValueError: no", last.join("\n")));
    }

    #[test]
    fn a_tail_is_text_even_if_the_output_is_not() {
        assert_eq!(tail(&[b"caf\xc3", b"\xa9 \xff\n"]), "café \u{fffd}");
    }
}
