//! Replaces parts of a text so that JSON stays JSON.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;

/// Replaces each part of a text by `[REDACTED]`; the parts are in order and do not overlap.
///
/// The replacement needs no escaping. If it would break JSON, the parts grow or the replacement gets quotes. If that
/// does not help either, only the replacement is left. A text without parts is not copied.
pub(super) fn redact<'t>(text: &'t str, parts: &[Range<usize>]) -> Cow<'t, str> {
    if parts.is_empty() {
        return Cow::Borrowed(text);
    }
    let json = text.trim_start().starts_with(['{', '[']) && is_json(text);
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    let mut in_string = false;
    for part in parts {
        let start = before_escape(text, part.start).max(done);
        let end = after_escape(text, part.end);
        if part.start < done {
            // The previous part grew over the start of this one; the rest of it goes too.
            let rest = &text[done..end.max(done)];
            in_string ^= flips(rest);
            done += rest.len();
            continue;
        }
        let between = &text[done..start];
        replaced.push_str(between);
        in_string ^= flips(between);
        let bare = json && !in_string;
        replaced.extend([if bare { "\"" } else { "" }, REDACTED, if bare { "\"" } else { "" }]);
        in_string ^= flips(&text[start..end]);
        done = end;
    }
    replaced.push_str(&text[done..]);
    if json && !is_json(&replaced) {
        return Cow::Owned(format!("\"{REDACTED}\""));
    }
    Cow::Owned(replaced)
}

/// Returns the start of the escape that contains this offset, or the offset itself.
fn before_escape(text: &str, at: usize) -> usize {
    let bytes = &text.as_bytes()[..at];
    for back in 1..=UNICODE_ESCAPE.min(at) {
        let start = at - back;
        let escape = bytes[start] == b'\\' && is_escape(bytes, start);
        let long = back == 1 || bytes.get(start + 1) == Some(&b'u');
        if escape && long {
            let pair = is_half(text, start, b"cdef").then(|| start.checked_sub(UNICODE_ESCAPE + 1)).flatten();
            return pair.filter(|first| is_half(text, *first, b"89ab")).unwrap_or(start);
        }
    }
    at
}

/// Returns the end of the escape or surrogate pair that contains this offset, or the offset itself.
fn after_escape(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    for back in 1..=(UNICODE_ESCAPE + 1).min(at) {
        let start = at - back;
        if bytes[start] != b'\\' || !is_escape(bytes, start) {
            continue;
        }
        let length = match bytes.get(start + 1) {
            Some(b'u') => UNICODE_ESCAPE + 1,
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            _ => 1,
        };
        let end = start + length;
        let whole =
            text.get(at..end).is_some_and(|rest| back == 1 || rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let end = if end > at && whole { end } else { at };
        let pair = is_half(text, start, b"89ab") && is_half(text, end, b"cdef");
        return if pair { end + UNICODE_ESCAPE + 1 } else { end };
    }
    at
}

/// Reports whether half of a surrogate pair is here, which is a character only together with the other half.
fn is_half(text: &str, at: usize, digits: &[u8]) -> bool {
    match text.as_bytes().get(at..at + UNICODE_ESCAPE + 1) {
        Some([b'\\', b'u', b'd' | b'D', digit, ..]) => digits.contains(&digit.to_ascii_lowercase()),
        _ => false,
    }
}

/// Reports whether the backslash here begins an escape and is not itself escaped.
fn is_escape(bytes: &[u8], at: usize) -> bool {
    bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
}

/// Reports whether this piece contains an odd number of string delimiters. No piece begins within an escape.
fn flips(piece: &str) -> bool {
    let mut flips = false;
    let mut bytes = piece.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => flips = !flips,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    flips
}

/// Reports whether a text is one or more JSON values, as in a log with one value per line.
fn is_json(text: &str) -> bool {
    serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>().all(|value| value.is_ok())
}

/// The length of `\u12ab` after its backslash.
const UNICODE_ESCAPE: usize = 5;
/// The replacement for a secret.
pub const REDACTED: &str = "[REDACTED]";
