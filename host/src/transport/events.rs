//! Parses Server-Sent Events, wherever the bytes are split (WHATWG HTML §9.2).

use std::time::Duration;

use memchr::memchr2;

/// Parses a stream of events.
#[derive(Default)]
pub(crate) struct SseParser {
    /// The maximum size of an event.
    pub(super) max: usize,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Whether the last byte was a CR; a following LF belongs to it.
    after_cr: bool,
    /// Whether a line has ended; only the first one may begin with a byte order mark.
    has_lines: bool,
    name: String,
    /// The lines of data, each with a line feed.
    data: Vec<u8>,
    pending_id: Option<String>,
    /// The id of the last event that was completely read.
    pub(super) last_id: Option<String>,
    /// How long the server wants clients to wait before they reconnect.
    pub(super) retry: Option<Duration>,
}

/// One event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The name of the event; empty means `message`.
    pub name: String,
    /// The lines of its data, joined by line feeds.
    pub data: String,
}

impl SseEvent {
    /// Reports whether it carries a message.
    pub(super) fn is_message(&self) -> bool {
        matches!(self.name.as_str(), "" | "message")
    }
}

/// The error for an event that exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

impl SseParser {
    /// Creates a parser of events of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        SseParser { max, ..SseParser::default() }
    }

    /// Takes the next bytes, and passes on each event that ends in them.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(SseEvent)) -> Result<(), EventTooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', bytes) else {
                self.check_size(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.check_size(end)?;
            self.after_cr = bytes[end] == b'\r';
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&bytes[..end]);
            let event = self.end_line(&line);
            // Free the buffer of a large message, so that an idle connection does not keep it.
            if line.capacity() <= KEPT {
                line.clear();
                self.line = line;
            }
            event.into_iter().for_each(&mut on_event);
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    fn check_size(&self, more: usize) -> Result<(), EventTooLarge> {
        // The field name and the line feeds do not count as part of the message.
        let size = self.line.len() + self.data.len() + more;
        if size > self.max.saturating_add(SLACK) { Err(EventTooLarge) } else { Ok(()) }
    }

    fn end_line(&mut self, mut line: &[u8]) -> Option<SseEvent> {
        if !std::mem::replace(&mut self.has_lines, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.pending_id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let milliseconds = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.retry = milliseconds.map(Duration::from_millis).or(self.retry);
            }
            // Comments (an empty field name) and unknown fields.
            _ => {}
        }
        None
    }

    /// Ends an event at a blank line. One without data is dropped, but its id counts (MCP's priming event).
    fn dispatch(&mut self) -> Option<SseEvent> {
        if let Some(id) = self.pending_id.take() {
            self.last_id = Some(id);
        }
        let name = std::mem::take(&mut self.name);
        let mut data = std::mem::take(&mut self.data);
        data.pop();
        if data.is_empty() {
            return None;
        }
        let data =
            String::from_utf8(data).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Some(SseEvent { name, data })
    }
}

const KEPT: usize = 64 * 1024;
const SLACK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> (Vec<SseEvent>, SseParser) {
        let mut parser = SseParser::new(1 << 20);
        let mut found = Vec::new();
        for chunk in chunks {
            parser.push(chunk, |event| found.push(event)).unwrap();
        }
        (found, parser)
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let (found, _) = events(&[stream.as_bytes()]);
        let found: Vec<_> = found.iter().map(|event| (event.name.as_str(), event.data.as_str())).collect();
        assert_eq!(found, expected, "{stream:?}");
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check("data: a\n\n", &[("", "a")]);
        check("data:a\r\rdata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
        check(": hello\ndata: {\ndata:  1\ndata\ndata: }\n\n", &[("", "{\n 1\n\n}")]);
        check("event: ping\ndata: 1\n\ndata: 2\n\n", &[("ping", "1"), ("", "2")]);
        check("event: x\n\ndata: 1\n\n", &[("", "1")]);
        check("data\n\ndata:\n\nid: 1\n\n", &[]);
        check("nonsense: 1\ndatab: 2\ndata: 3\n\ndata: cut off", &[("", "3")]);
        check("data: a\ndata: b\n\n\n\n", &[("", "a\nb")]);
    }

    #[test]
    fn an_id_counts_when_its_event_is_whole() {
        let check = |stream: &str, id: Option<&str>| {
            assert_eq!(events(&[stream.as_bytes()]).1.last_id.as_deref(), id, "{stream:?}")
        };
        check("id: 1\n\n", Some("1"));
        check("id: 1\ndata: x\n\nid: 2\ndata: y\n", Some("1"));
        check("id: 1\n\nid: 2\0\n\n", Some("1"));
        check("id: 1\n\nid\n\n", Some(""));
        check("data: 1\n\n", None);
    }

    #[test]
    fn only_digits_are_a_retry_time() {
        let check = |stream: &str, wait: Option<u64>| {
            assert_eq!(events(&[stream.as_bytes()]).1.retry, wait.map(Duration::from_millis), "{stream:?}");
        };
        check("retry: 500\n", Some(500));
        check("retry: 500\nretry: 1.5\nretry: -1\nretry:\nretry: 1s\n", Some(500));
        check("retry: 99999999999999999999999\n", None);
    }

    #[test]
    fn any_cut_of_the_bytes_gives_the_same_events() {
        let stream = "\u{feff}: c\r\nid: 7\r\nevent: päng\rdata: Zürich 🚆\ndata: b\r\n\r\nretry: 20\n\ndata: last\r\r"
            .as_bytes();
        let (whole, _) = events(&[stream]);
        assert_eq!(whole.len(), 2);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let (found, parser) = events(&[&stream[..first], &stream[first..second], &stream[second..]]);
                assert_eq!(found, whole, "cut at {first} and {second}");
                assert_eq!((parser.last_id.as_deref(), parser.retry), (Some("7"), Some(Duration::from_millis(20))));
            }
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events(&single).0, whole);
    }

    #[test]
    fn an_event_above_the_limit_is_refused_before_it_is_whole() {
        let mut parser = SseParser::new(1000);
        let line = [b"data: ".as_slice(), &[b'x'; 1000], b"\n\n"].concat();
        let mut count = 0;
        assert_eq!(parser.push(&line, |_| count += 1), Ok(()));
        assert_eq!((parser.push(&line, |_| count += 1), count), (Ok(()), 2));
        assert_eq!(parser.push(b"data: ", |_| ()), Ok(()));
        assert_eq!(parser.push(&[b'x'; 2000], |_| ()), Err(EventTooLarge));
        let mut parser = SseParser::new(1000);
        assert_eq!(parser.push(&b"data: 0123456789\n".repeat(200), |_| ()), Err(EventTooLarge));
    }

    #[test]
    fn a_large_line_in_small_pieces_is_one_event() {
        let mut parser = SseParser::new(8 << 20);
        let mut size = 0;
        parser.push(b"data: ", |_| ()).unwrap();
        for _ in 0..1024 {
            parser.push(&[b'x'; 4096], |_| ()).unwrap();
        }
        parser.push(b"\n\n", |event| size = event.data.len()).unwrap();
        assert_eq!(size, 4 << 20);
    }
}
