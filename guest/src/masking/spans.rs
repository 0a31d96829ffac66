//! Ranges of a text that are replaced.

/// A range of text to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
    /// The rule that found it.
    pub rank: usize,
    /// How many JSON strings it is nested in; its replacement is escaped as many times.
    pub level: u32,
    /// If an unquoted value must become a string: the number of backslashes before each of its quotes.
    pub quoted: Option<u32>,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        Span { start, end, rank: 0, level: 0, quoted: None }
    }
}

/// Keeps a span from splitting an escape such as `\n`, which would break the JSON string around it.
pub(super) fn keep_escapes(text: &str, span: &mut Span) {
    let bytes = text.as_bytes();
    if span.start > 0 && bytes[span.start - 1] == b'\\' {
        match bytes.get(span.start) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => span.start += 1,
            Some(b'u') => {
                let hex = bytes[span.start + 1..].iter().take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
                span.start += 1 + hex;
            }
            _ => {}
        }
    }
    while span.end > span.start && bytes[span.end - 1] == b'\\' {
        span.end -= 1;
    }
}

/// Reports whether a span lies within one of the sorted ranges.
pub(super) fn covered(done: &[(usize, usize)], span: &Span) -> bool {
    let next = done.partition_point(|(start, _)| *start <= span.start);
    next > 0 && span.end <= done[next - 1].1
}

/// Sorts spans and merges those that overlap.
pub(super) fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.start, span.end, span.rank));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => {
                last.end = last.end.max(span.end);
                last.rank = last.rank.min(span.rank);
                last.level = last.level.max(span.level);
                last.quoted = last.quoted.or(span.quoted);
            }
            _ => merged.push(span),
        }
    }
    merged
}
