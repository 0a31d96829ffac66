//! Finds credentials in what servers say, in whatever encoding, and hides them.

use std::borrow::Cow;
use std::ops::Range;

use super::finder::{SecretFinder, merge_ranges};
use super::{json, names};

/// The credentials of a configuration, ready for searching.
#[derive(Debug, Default)]
pub struct Credentials(SecretFinder);

impl Credentials {
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        Credentials(SecretFinder::new(values.filter(|value| !names::is_protocol_word(value))))
    }

    /// Replaces every credential in a text by `[REDACTED]`; JSON stays JSON. A text without credentials is not copied.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        json::redact(text, &find(&self.0, text))
    }
}

/// Returns the ranges of credentials in a text as it is, and after its escapes are resolved: JSON may contain JSON, and
/// any letter may be written as an escape.
fn find(finder: &SecretFinder, text: &str) -> Vec<Range<usize>> {
    let mut found = finder.find(text, is_part);
    let mut levels: Vec<UnescapedText> = Vec::new();
    while levels.len() < MOST_LEVELS {
        let last = levels.last().map_or(text, |level| &level.text);
        if !has_escapes(last) {
            break;
        }
        let level = UnescapedText::new(last);
        let places = finder.find(&level.text, is_part);
        levels.push(level);
        let in_text = |place| levels.iter().rev().fold(place, |place, level| level.source_range(place));
        found.extend(places.into_iter().map(in_text));
    }
    found.sort_by_key(|place| (place.end, place.start));
    merge_ranges(found.into_iter())
}

/// Reports whether a range is only part of a longer word, name or number: a password may be an ordinary word, which is
/// then hidden only where it is a word of its own.
fn is_part(text: &str, place: &Range<usize>) -> bool {
    let (before, after) = (&text[..place.start], &text[place.end..]);
    let value = &text.as_bytes()[place.clone()];
    let digits = value.iter().all(u8::is_ascii_digit);
    let word = value.len() < LONG_WORD && value.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    if digits {
        return before.ends_with(|c: char| c.is_ascii_digit()) || after.starts_with(|c: char| c.is_ascii_digit());
    }
    let joins = |c: char| c.is_alphanumeric() || "_-/\\".contains(c);
    let dotted = after.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    word && (before.ends_with(joins) && !ends_with_escape(before)
        || before.ends_with('.')
        || dotted
        || after.starts_with(joins) && !starts_with_escape(after))
}

/// Reports whether a text ends with an escape such as `\n`, so that what follows begins a line.
fn ends_with_escape(text: &str) -> bool {
    let Some(rest) = text.strip_suffix(['n', 'r', 't']) else { return false };
    rest.len() > rest.trim_end_matches('\\').len()
}

/// Reports whether a text begins with an escape such as `\n` or `\"`.
fn starts_with_escape(text: &str) -> bool {
    text.strip_prefix('\\').is_some_and(|rest| rest.starts_with(['n', 'r', 't', '"', '\\']))
}

/// Reports whether a text has escapes that the encoded forms of a value do not cover: letters as numbers, `\/`, and
/// escaped escapes. Line breaks and quotes are covered.
fn has_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'\\', &bytes[from..]).map(|at| from + at) {
        if matches!(bytes.get(at + 1), Some(b'u' | b'/' | b'\\')) {
            return true;
        }
        from = (at + 2).min(bytes.len());
    }
    false
}

/// A text with its escapes resolved once.
struct UnescapedText {
    text: String,
    /// The pieces of the text, with their offsets here and in the source.
    pieces: Vec<TextPiece>,
    /// The length of the source.
    source_len: usize,
}

#[derive(Clone, Copy)]
struct TextPiece {
    start: usize,
    source_start: usize,
    escape: bool,
}

impl UnescapedText {
    fn new(text: &str) -> Self {
        let mut resolved =
            UnescapedText { text: String::with_capacity(text.len()), pieces: Vec::new(), source_len: text.len() };
        let mut done = 0;
        let mut from = 0;
        while let Some(at) = memchr::memchr(b'\\', &text.as_bytes()[from..]).map(|at| from + at) {
            let Some((c, length)) = escaped(&text[at..]) else {
                from = at + 1;
                continue;
            };
            resolved.push_plain(text, done..at);
            resolved.pieces.push(TextPiece { start: resolved.text.len(), source_start: at, escape: true });
            resolved.text.push(c);
            done = at + length;
            from = done;
        }
        resolved.push_plain(text, done..text.len());
        resolved
    }

    fn push_plain(&mut self, text: &str, place: Range<usize>) {
        if !place.is_empty() {
            self.pieces.push(TextPiece { start: self.text.len(), source_start: place.start, escape: false });
            self.text.push_str(&text[place]);
        }
    }

    /// Converts a range of this text to a range of the source.
    fn source_range(&self, place: Range<usize>) -> Range<usize> {
        let at = |here: usize| self.pieces.partition_point(|piece| piece.start <= here) - 1;
        let (first, last) = (at(place.start), at(place.end - 1));
        let start = match self.pieces[first] {
            TextPiece { escape: true, source_start, .. } => source_start,
            TextPiece { start: here, source_start, .. } => source_start + place.start - here,
        };
        let end = match self.pieces[last] {
            TextPiece { escape: true, .. } => {
                self.pieces.get(last + 1).map_or(self.source_len, |next| next.source_start)
            }
            TextPiece { start: here, source_start, .. } => source_start + place.end - here,
        };
        start..end
    }
}

/// Returns the character that an escape at the start of a text stands for, and the length of the escape.
fn escaped(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    Some(match text.as_bytes().get(1)? {
        b'"' => ('"', 2),
        b'\\' => ('\\', 2),
        b'/' => ('/', 2),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        b'u' => match unit(text)? {
            high @ 0xd800..0xdc00 => {
                let low = unit(text.get(6..)?).filter(|low| (0xdc00..0xe000).contains(low))?;
                (char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?, 12)
            }
            unit => (char::from_u32(unit)?, 6),
        },
        _ => return None,
    })
}

/// JSON in JSON in JSON; at deeper levels, only the plain forms are found.
const MOST_LEVELS: usize = 3;
/// A word with this many letters is hidden even within a longer one.
const LONG_WORD: usize = 12;

#[cfg(test)]
mod tests {
    use super::super::{REDACTED, Secrets};
    use super::*;

    #[track_caller]
    fn check(values: &[&str], text: &str, expected: &str) {
        let mut secrets = Secrets::default();
        values.iter().for_each(|value| secrets.add(value));
        let credentials = secrets.credentials();
        let hidden = credentials.hide(text);
        assert_eq!(hidden, expected, "{values:?}");
        assert_eq!(credentials.hide(&hidden), expected, "hidden once more");
    }

    #[test]
    fn a_credential_is_found_however_json_spells_it() {
        for text in [
            r#"{"a":"x tok/1234-Ab y"}"#,
            r#"{"a":"x tok\/1234-Ab y"}"#,
            r#"{"a":"x \u0074ok/1234-Ab y"}"#,
            r#"{"a":"x tok\u002F1234\u002dAb y"}"#,
            r#"{"a":"x \u0074\u006f\u006b\u002f\u0031\u0032\u0033\u0034\u002d\u0041\u0062 y"}"#,
            r#"{"a":"x tok%2F1234-Ab y"}"#,
        ] {
            check(&["tok/1234-Ab"], text, r#"{"a":"x [REDACTED] y"}"#);
        }
        check(
            &["tok/1234-Ab"],
            r#"{"a":"{\"b\":\"tok\\/1234-Ab\",\"c\":\"\\u0074ok/1234-Ab\\n\"}"}"#,
            r#"{"a":"{\"b\":\"[REDACTED]\",\"c\":\"[REDACTED]\\n\"}"}"#,
        );
        check(&["a\"b\\c-12"], r#"["a\"b\\c-12","a\u0022b\u005cc-12"]"#, r#"["[REDACTED]","[REDACTED]"]"#);
        check(&["end-😀1234"], r#"["end-\ud83d\ude001234","\ud83d"]"#, r#"["[REDACTED]","\ud83d"]"#);
    }

    #[test]
    fn a_credential_is_found_as_it_was_sent() {
        let mut secrets = Secrets::default();
        secrets.add_header("Authorization", "Basic bWU6cEBzc3dvcmQ=");
        let credentials = secrets.credentials();
        for text in ["bWU6cEBzc3dvcmQ=", "p@ssword", "p%40ssword", "cEBzc3dvcmQ", "70407373776f7264"] {
            assert_eq!(credentials.hide(text), "[REDACTED]", "{text}");
        }
    }

    #[test]
    fn a_word_or_number_is_hidden_where_it_stands_alone() {
        check(
            &["opensesame", "123456"],
            r#"{"a":"opensesame, say \"opensesame\"\nopensesame\nopensesame. 123456!","/x/opensesame":"opensesame_id 91234567","n":123456}"#,
            r#"{"a":"[REDACTED], say \"[REDACTED]\"\n[REDACTED]\n[REDACTED]. [REDACTED]!","/x/opensesame":"opensesame_id 91234567","n":"[REDACTED]"}"#,
        );
        check(&["description"], r#"{"description":"x"}"#, r#"{"description":"x"}"#);
    }

    #[test]
    fn only_credentials_are_hidden_and_a_text_without_any_is_not_copied() {
        let mut secrets = Secrets::default();
        secrets.add_variable("PROJECT_DIR", "/home/me/project");
        secrets.add_variable("DBHOST", "db.example.com");
        assert!(matches!(secrets.credentials().hide("/home/me/project on db.example.com"), Cow::Borrowed(_)));
        assert_eq!(secrets.redact("/home/me/project"), REDACTED);
        secrets.add_variable("PROJECT_KEY", "x7Gh29aBq");
        assert_eq!(secrets.credentials().hide("/home/me/project x7Gh29aBq"), "/home/me/project [REDACTED]");
        assert!(matches!(secrets.credentials().hide(r"a\u0041\\b"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_becomes_a_credential_later_is_hidden_from_then_on() {
        let mut secrets = Secrets::default();
        secrets.add_variable("DBNAME", "orders-7f");
        assert_eq!(secrets.credentials().hide("orders-7f"), "orders-7f");
        let mut later = Secrets::default();
        later.add("orders-7f");
        secrets.merge(&later);
        assert_eq!(secrets.credentials().hide("orders-7f"), REDACTED);
        secrets.remove("orders-7f");
        assert_eq!(secrets.credentials().hide("orders-7f"), "orders-7f");
    }
}
