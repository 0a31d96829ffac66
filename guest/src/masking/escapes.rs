//! The JSON strings in a text: where they are, and their text without escapes.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr3, memmem, memrchr};

use super::Span;
use super::fold::{Fold, as_seen};
use super::view::View;

/// Unescapes letters, digits and common signs in JSON that are written as `\\u` escapes, as well as invisible
/// characters and look-alikes: a key that is written that way means the same and must be found.
pub(super) fn plain(json: &str) -> Cow<'_, str> {
    spelt(json).map_or(Cow::Borrowed(json), |view| Cow::Owned(view.text))
}

/// Returns the first character of a text if it is written as a `\\u` escape.
fn spelt_letter(text: &str) -> Option<char> {
    let number = text.get(..SPELT)?.strip_prefix("\\u")?;
    u32::from_str_radix(number, 16).ok().and_then(char::from_u32).filter(|letter| is_plain(*letter))
}

fn is_plain(letter: char) -> bool {
    matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\') || as_seen(letter) != Fold::Keep
}

/// The length of a `\\u` escape in bytes.
const SPELT: usize = 6;
/// Separates two strings in a view; no rule matches across it.
pub(super) const BREAK: char = '\0';

/// Reports whether a text may have `\\u` escapes.
pub(super) fn has_spelt(text: &str) -> bool {
    memmem::find(text.as_bytes(), b"\\u").is_some()
}

/// Unescapes all `\\u` escapes in a text, if there are any. They mean the same in nested strings and in text that
/// is not JSON as a whole.
pub(super) fn spelt(text: &str) -> Option<View> {
    if !has_spelt(text) {
        return None;
    }
    let mut view = View::default();
    let (mut at, mut copied) = (0, 0);
    while let Some(slash) = memchr(b'\\', &text.as_bytes()[at..]).map(|found| at + found) {
        if let Some(letter) = spelt_letter(&text[slash..]) {
            view.text.push_str(&text[copied..slash]);
            view.text.push(letter);
            at = slash + SPELT;
            copied = at;
            view.turn(at);
        } else {
            // Skip the backslash together with the character that it escapes, so that `\\\\u0041` is not misread.
            at = slash + 1 + text[slash + 1..].chars().next().map_or(0, char::len_utf8);
        }
    }
    if copied == 0 {
        return None;
    }
    view.text.push_str(&text[copied..]);
    Some(view)
}

/// Returns the parts of a JSON text around the insides of its long strings with escapes, whose contents [`strings`]
/// shows. Each string keeps its ends, up to an escape, since what is around it may belong to them.
pub(super) fn around_strings(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let mut parts = Vec::new();
    let (mut at, mut begun) = (0, 0);
    while let Some(quote) = memchr(b'"', &bytes[at..]) {
        let start = at + quote + 1;
        let end = string_end(bytes, start);
        let first = memchr(b'\\', &bytes[end.min(start + STRING_ENDS)..end]).map(|found| start + STRING_ENDS + found);
        let last = memrchr(b'\\', &bytes[start..start.max(end.saturating_sub(STRING_ENDS))]).map(|found| start + found);
        if let Some((first, last)) = first.zip(last).filter(|(first, last)| first < last) {
            parts.push(begun..first);
            begun = last;
        }
        at = bytes.len().min(end + 1);
    }
    parts.push(begun..bytes.len());
    parts
}

/// Returns the end of the JSON string that begins here: its closing quote, or the end of the line or text.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut end = start;
    loop {
        end = memchr3(b'"', b'\\', b'\n', &bytes[end..]).map_or(bytes.len(), |sign| end + sign);
        if bytes.get(end) != Some(&b'\\') {
            return end;
        }
        end += if bytes.get(end + 1).is_some_and(|next| *next != b'\n') { 2 } else { 1 };
    }
}

/// The least number of bytes at each end of a long string that are not left out.
const STRING_ENDS: usize = 256;

/// Returns the unescaped contents of all strings with escapes in a text, separated by breaks, if there are any.
pub(super) fn strings(text: &str) -> Option<View> {
    let bytes = text.as_bytes();
    let mut view = View::default();
    let first = memchr(b'\\', bytes)?;
    // The first backslash is in a string that began on the same line.
    let mut at = memrchr(b'\n', &bytes[..first]).map_or(0, |newline| newline + 1);
    let mut outside = at;
    while let Some(sign) = memchr3(b'"', b'\\', b'\n', &bytes[at..]) {
        at += sign;
        at = match bytes[at] {
            b'"' => read(&mut view, text, at + 1) + 1,
            b'\\' => {
                let slashes = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
                if bytes.get(at + slashes) == Some(&b'"') {
                    // Escaped quotes outside a string: the beginning of the string was cut off.
                    read(&mut view, text, outside) + 1
                } else {
                    at + slashes
                }
            }
            _ => at + 1,
        };
        outside = at;
        if at >= bytes.len() {
            break;
        }
    }
    (!view.text.is_empty()).then_some(view)
}

/// Adds one string, up to its closing quote, or the end of the line or text, and returns that position.
fn read(view: &mut View, text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let stop = string_end(bytes, start);
    if memchr(b'\\', &bytes[start..stop]).is_none() {
        return stop;
    }
    let mut end = stop;
    // Ignore an escape that is cut off.
    let slashes = bytes[start..end].iter().rev().take_while(|byte| **byte == b'\\').count();
    if slashes % 2 == 1 {
        end -= 1;
    }
    if !view.text.is_empty() {
        view.text.extend(['\n', BREAK, '\n']);
    }
    view.text.reserve(end - start);
    view.turn(start);
    for Run { plain, letter, next } in runs(text, start..end) {
        view.text.push_str(plain);
        if let Some(letter) = letter {
            view.text.push(letter);
            view.turn(next);
        }
    }
    stop
}

/// A part of a string without escapes, and the escape after it.
struct Run<'a> {
    plain: &'a str,
    /// What the escape means; `None` at the end of the string.
    letter: Option<char>,
    /// The position after the escape.
    next: usize,
}

/// Reads the contents of a string.
fn runs(text: &str, Range { start, end }: Range<usize>) -> impl Iterator<Item = Run<'_>> {
    let bytes = text.as_bytes();
    let mut copied = Some(start);
    std::iter::from_fn(move || {
        let from = copied.take()?;
        let mut at = from;
        while let Some(slash) = memchr(b'\\', &bytes[at..end]).map(|found| at + found) {
            at = slash + 1;
            // What is no escape stands for itself.
            if let Some((letter, length)) = escape(&bytes[at..end]) {
                copied = Some(at + length);
                return Some(Run { plain: &text[from..slash], letter: Some(letter), next: at + length });
            }
        }
        Some(Run { plain: &text[from..end], letter: None, next: end })
    })
}

/// Reports whether a JSON text has exactly one string with escapes, which says this.
pub(super) fn is_only_escaped_string(json: &str, said: &str) -> bool {
    let bytes = json.as_bytes();
    let Some(first) = memchr(b'\\', bytes) else { return false };
    let start = memrchr(b'"', &bytes[..first]).map_or(0, |quote| quote + 1);
    let end = string_end(bytes, start);
    let mut rest = Some(said);
    for Run { plain, letter, .. } in runs(json, start..end) {
        rest = rest.and_then(|rest| rest.strip_prefix(plain));
        rest = rest.and_then(|rest| letter.map_or(Some(rest), |letter| rest.strip_prefix(letter)));
    }
    rest == Some("") && memchr(b'\\', &bytes[end..]).is_none()
}

/// Maps a span of a view from [`strings`] back to the text; a span across a break becomes one span per string.
pub(super) fn outside(view: &View, span: Span) -> impl Iterator<Item = Span> + '_ {
    let mut start = span.start;
    view.text[span.start..span.end].split(BREAK).filter_map(move |piece| {
        let from = start + piece.len() - piece.trim_start_matches('\n').len();
        let to = start + piece.trim_end_matches('\n').len();
        start += piece.len() + BREAK.len_utf8();
        let quoted = span.quoted.map(|slashes| 2 * slashes + 1);
        (from < to).then(|| view.outside(Span { start: from, end: to, level: span.level + 1, quoted, ..span }))
    })
}

/// Reads an escape after its backslash; returns the character and the number of bytes read.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let letter = match bytes.first()? {
        letter @ (b'"' | b'\\' | b'/') => char::from(*letter),
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => {
            let unit = unit(bytes.get(1..5)?)?;
            if let (0xd800..=0xdbff, Some(b"\\u")) = (unit, bytes.get(5..7)) {
                let low = self::unit(bytes.get(7..11)?)?;
                let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                return Some((char::from_u32(0x10000 + ((unit - 0xd800) << 10) + low)?, 11));
            }
            // Half a pair stays as it is written.
            return Some((char::from_u32(unit)?, 5));
        }
        _ => return None,
    };
    Some((letter, 1))
}

/// Reads the four digits of a `\\u` escape.
fn unit(digits: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Reads a JSON string from a place where no escape is open; returns the first such place at or behind another.
pub(super) fn next_whole(text: &str, from: usize, to: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < to {
        let Some(slash) = memchr(b'\\', &bytes[at..to]) else { return to };
        at += slash + if bytes.get(at + slash + 1) == Some(&b'u') { SPELT } else { 2 };
    }
    at
}

/// A string without its quotes, a number or a word in a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// Whether it is a string.
    pub string: bool,
}

/// Returns the strings, numbers and words of a text that is known to be JSON.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let structure = |byte: &u8| b" \t\r\n,:{}[]".contains(byte);
        at += bytes[at..].iter().take_while(|byte| structure(byte)).count();
        if *bytes.get(at)? == b'"' {
            let start = at + 1;
            let mut end = start;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            at = end + 1;
            return Some(Token { start, end, string: true });
        }
        let start = at;
        at += bytes[at..].iter().take_while(|byte| !structure(byte)).count();
        Some(Token { start, end: at, string: false })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_says_what_escaped_strings_say() {
        for (text, said) in [
            (r#"{"a":"b"}"#, None),
            (r#"{"a":"x\ny","b":"plain","c":"\"q\""}"#, Some("x\ny\n\0\n\"q\"")),
            (r#"cut "x\ty"#, Some("x\ty")),
            (r#"\"a\": \"b\""#, Some(r#""a": "b""#)),
            ("first \"line\nsecond \\ \"\\u0041\"", Some("A")),
            (r#""C:\Users\é""#, Some(r"C:\Users\é")),
            (r#""x\é" "y\é"#, Some("x\\é\n\0\ny\\é")),
            (r#""x\r\ny\/z""#, Some("x\r\ny/z")),
        ] {
            assert_eq!(strings(text).map(|view| view.text).as_deref(), said, "{text}");
        }
    }

    #[test]
    fn spans_of_a_view_find_their_place_in_the_text() {
        let text = r#"{"a":"x\nsecret\u0041","b":"\tmore"}"#;
        let view = strings(text).unwrap();
        let whole = Span::new(2, view.text.len());
        let found: Vec<&str> = outside(&view, whole).map(|span| &text[span.start..span.end]).collect();
        assert_eq!(found, [r"secret\u0041", r"\tmore"]);
        let at = view.text.find(BREAK).unwrap();
        assert_eq!(outside(&view, Span::new(at - 1, at + 2)).count(), 0, "a break stands for nothing");
    }

    #[test]
    fn long_strings_with_escapes_keep_their_ends() {
        let line = r"a line of text\n";
        let long = line.repeat(100);
        let json = format!(r#"{{"a":"{long}","b":"{}","c":"x\ny","d":"{long}"}}"#, "z".repeat(2000));
        let parts: Vec<&str> = around_strings(&json).into_iter().map(|part| &json[part]).collect();
        let [first, between, last] = parts[..] else { panic!("{parts:?}") };
        let is_end = |length: usize| (STRING_ENDS..STRING_ENDS + line.len()).contains(&length);
        assert!(first.starts_with(r#"{"a":"a line"#) && is_end(first.len() - r#"{"a":""#.len()), "{first}");
        assert!(between.starts_with(r#"\n"#) && between.contains("zzz") && between.contains(r"x\ny"), "{between}");
        assert!(last.starts_with(r#"\n"#) && is_end(last.len() - 2), "{last}");
        for whole in [format!(r#"{{"a":"{}"}}"#, line.repeat(20)), r#""a\nb""#.to_owned(), "[]".to_owned()] {
            assert_eq!(around_strings(&whole), std::slice::from_ref(&(0..whole.len())), "{whole}");
        }
    }

    #[test]
    fn the_only_string_with_escapes_is_known_by_what_it_says() {
        for (json, said, expected) in [
            (r#"{"a":"b","c":"x\ny"}"#, "x\ny", true),
            (r#"{"c":"\"x\u00e9\t","d":"e"}"#, "\"xé\t", true),
            (r#"{"c":"x\ny"}"#, "x\nyz", false),
            (r#"{"c":"x\nyz"}"#, "x\ny", false),
            (r#"{"c":"x\ny","d":"\n"}"#, "x\ny", false),
            (r#"{"c":"x y"}"#, "x y", false),
            (r#"{"c":"x\by"}"#, "x\u{8}y", true),
            (r#"{"c":"x\ud83d\ude00y"}"#, "x😀y", true),
            (r#"{"c":"x\ud83dy"}"#, "x\u{fffd}y", false),
        ] {
            assert_eq!(is_only_escaped_string(json, said), expected, "{json}");
        }
    }

    #[test]
    fn a_place_inside_an_escape_is_not_whole() {
        let text = r"a\n\u0041b";
        for (to, expected) in [(0, 0), (1, 1), (2, 3), (3, 3), (4, 9), (8, 9), (9, 9), (10, 10)] {
            assert_eq!(next_whole(text, 0, to), expected, "{to}");
        }
    }

    #[test]
    fn tokens_are_strings_numbers_and_words() {
        let text = r#"{"a\"": [1, true, "x"]}"#;
        let found: Vec<_> = tokens(text).map(|token| (&text[token.start..token.end], token.string)).collect();
        assert_eq!(found, [(r#"a\""#, true), ("1", false), ("true", false), ("x", true)]);
    }
}
