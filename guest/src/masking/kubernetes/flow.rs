//! Objects in braces: JSON, Python literals, and YAML's flow style.

use super::{Ending, Member, Objects, Span};
use crate::masking::escapes::BREAK;

/// Returns the values of Secrets in all objects of a text.
pub(super) fn scan(text: &str) -> Vec<Span> {
    let mut objects = Objects::default();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // Outside objects there is only prose.
        match bytes[at..].iter().position(|byte| matches!(byte, b'{' | b'[')) {
            Some(found) => at = object(text, at + found, text.len(), &mut objects),
            None => break,
        }
    }
    objects.found
}

/// Reads the object or list at `start`, up to its end or to `end`; returns the position after it.
pub(super) fn object(text: &str, start: usize, end: usize, objects: &mut Objects) -> usize {
    let bytes = &text.as_bytes()[..end];
    let base = objects.open.len();
    let mut at = start;
    while at < end {
        match bytes[at] {
            b'{' | b'[' if objects.open.len() < base + MAX_DEPTH => {
                objects.begin(Some(at), bytes[at] == b'[');
                at += 1;
            }
            // Deeper than any manifest: this is not JSON, so forget what it has opened.
            b'{' | b'[' => break,
            b'}' | b']' => {
                at += 1;
                objects.end(at, Ending::Closed);
                if objects.open.len() <= base {
                    return at;
                }
                finish_member(objects);
            }
            b',' => {
                at += 1;
                finish_member(objects);
            }
            byte if byte.is_ascii_whitespace() || byte == b':' => at += 1,
            byte if char::from(byte) == BREAK => break,
            quote @ (b'"' | b'\'') => {
                let close = closing_quote(bytes, at + 1, quote);
                let after = (close + 1).min(end);
                // A quote before a letter opens the next string, after a stray quote in prose.
                let opens = bytes.get(close) == Some(&quote) && bytes.get(after).is_some_and(u8::is_ascii_alphanumeric);
                if opens {
                    at = close;
                    continue;
                }
                at = token(text, Span::new(at + 1, close), after, None, objects);
            }
            _ => {
                let is_value =
                    objects.open.last().is_some_and(|object| object.is_list || object.member != Member::None);
                let ends = |byte: &u8| matches!(byte, b',' | b'{' | b'}' | b'[' | b']' | b'"' | b'\n' | 0);
                let length = bytes[at..].iter().take_while(|byte| !ends(byte) && (is_value || **byte != b':')).count();
                let trimmed = text[at..at + length.max(1)].trim_end().len();
                at = token(text, Span::new(at, at + trimmed), at + length.max(1), Some(0), objects);
            }
        }
    }
    objects.cut(base, at);
    at.max(start + 1)
}

/// The maximum nesting that is followed.
const MAX_DEPTH: usize = 512;

fn finish_member(objects: &mut Objects) {
    if let Some(object) = objects.open.last_mut().filter(|object| !object.is_list) {
        object.member = Member::None;
    }
}

/// Records a string or word as a key if a colon follows, else as a value; returns the position after it.
fn token(text: &str, span: Span, after: usize, quoted: Option<u32>, objects: &mut Objects) -> usize {
    let word = &text[span.start..span.end];
    if is_key(text.as_bytes(), after, objects) {
        if let Some(object) = objects.open.last_mut() {
            object.member = Member::named(word);
        }
    } else if !(quoted.is_some() && word == "null") {
        objects.value(word, Span { quoted, ..span }, after < text.len());
    }
    after
}

fn is_key(bytes: &[u8], after: usize, objects: &Objects) -> bool {
    let is_free = objects.open.last().is_some_and(|object| !object.is_list && object.member == Member::None);
    is_free && bytes[after..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// Returns the end of a string: its quote, the end of the line (JSON strings have only one), or the end of the text.
fn closing_quote(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while at < bytes.len() && bytes[at] != quote && !matches!(bytes[at], b'\n' | 0) {
        at += if bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|next| next.is_ascii() && *next != b'\n') {
            2
        } else {
            1
        };
    }
    at.min(bytes.len())
}
