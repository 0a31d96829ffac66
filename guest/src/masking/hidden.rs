//! Takes out of a text what no reader sees and a model obeys: sequences and characters that control a terminal, marks
//! that turn the direction of text, tags, selectors without a base, and characters of no width that join nothing.

mod letters;
mod sequences;

use std::fmt;

use memchr::memchr;

use super::escapes;
use crate::json::{self, Value};
use letters::invisible;
pub(super) use sequences::sequence_end;

/// What is taken out, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenKind {
    Sequence,
    Control,
    Direction,
    Tag,
    Selector,
    ZeroWidth,
    SoftHyphen,
}

/// What one and several of each kind are called in the trace.
const NAMES: [(&str, &str); 7] = [
    ("terminal sequence", "terminal sequences"),
    ("control character", "control characters"),
    ("direction mark", "direction marks"),
    ("tag character", "tag characters"),
    ("variation selector", "variation selectors"),
    ("zero-width character", "zero-width characters"),
    ("soft hyphen", "soft hyphens"),
];

/// How many of each kind were taken out of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOut([usize; NAMES.len()]);

impl TakenOut {
    /// Reports whether nothing was taken out.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    fn add(&mut self, kind: HiddenKind) {
        self.0[kind as usize] += 1;
    }
}

/// Writes the counts: `2 terminal sequences, 1 soft hyphen`.
impl fmt::Display for TakenOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (count, (one, several)) in self.0.iter().zip(NAMES) {
            if *count > 0 {
                write!(f, "{separator}{count} {}", if *count == 1 { one } else { several })?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// Returns a text without what is hidden in it, if there is anything; `known_json` says that the text is surely JSON.
///
/// In JSON, what strings say is looked at, so that escapes hide nothing and JSON stays JSON.
pub(super) fn take_out(text: &str, known_json: bool, taken: &mut TakenOut) -> Option<String> {
    let is_raw = first_hidden(text).is_some();
    if !is_raw && !may_have_escaped(text) {
        return None;
    }
    if known_json || super::is_json(text) {
        return take_out_of_json(text, 0, taken);
    }
    if is_raw { take_out_of_plain(text, taken) } else { None }
}

/// Returns JSON without what is hidden in its strings and names, if there is anything.
fn take_out_of_json(json: &str, level: u32, taken: &mut TakenOut) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    for token in escapes::tokens(json).filter(|token| token.string) {
        let inside = &json[token.start..token.end];
        if !may_have_escaped(inside) && first_hidden(inside).is_none() {
            continue;
        }
        // With its quotes, which are ASCII.
        let Ok(Value::String(said)) = json::parse(&json[token.start - 1..token.end + 1]) else { continue };
        if let Some(seen) = take_out_of_string(&said, level, taken) {
            out.push_str(&json[copied..token.start - 1]);
            json::write_string(&seen, &mut out);
            copied = token.end + 1;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&json[copied..]);
    Some(out)
}

/// Returns what a JSON string says without what is hidden in it; it may be JSON again.
fn take_out_of_string(said: &str, level: u32, taken: &mut TakenOut) -> Option<String> {
    let is_raw = first_hidden(said).is_some();
    if level < super::MAX_LEVEL && (is_raw || may_have_escaped(said)) && super::is_json(said) {
        return take_out_of_json(said, level + 1, taken);
    }
    if is_raw { take_out_of_plain(said, taken) } else { None }
}

/// Returns a text that is not JSON without what is hidden in it, if there is anything.
fn take_out_of_plain(text: &str, taken: &mut TakenOut) -> Option<String> {
    let mut seen = take_out_once(text, taken)?;
    // What joined a letter joins nothing once a backspace has taken the letter away.
    while let Some(again) = take_out_once(&seen, taken) {
        seen = again;
    }
    Some(seen)
}

/// Reads a text from its beginning to its end, and returns it without what is hidden in it, if there is anything.
fn take_out_once(text: &str, taken: &mut TakenOut) -> Option<String> {
    let mut seen = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(suspect) = next_suspect(text, at) {
        let before = last_letter(&text[copied..suspect]).or(last_letter(&seen));
        let Some(Hidden { kind, end, leaves }) = hidden_at(text, suspect, before) else {
            at = suspect + letter_at(text, suspect).len_utf8();
            continue;
        };
        seen.push_str(&text[copied..suspect]);
        match leaves {
            Leaves::Nothing => {}
            Leaves::LineBreak => seen.push('\n'),
            Leaves::OneLetterLess => erase_letter(&mut seen),
        }
        taken.add(kind);
        (at, copied) = (end, end);
    }
    if copied == 0 {
        return None;
    }
    seen.push_str(&text[copied..]);
    Some(seen)
}

/// Removes the last letter of a line, unless it ends a mask: with a backspace, the next letter is written over it.
fn erase_letter(seen: &mut String) {
    if !seen.ends_with(['\n', ']']) {
        seen.pop();
    }
}

/// Returns the place of the first thing that is hidden in a text.
fn first_hidden(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(suspect) = next_suspect(text, at) {
        if hidden_at(text, suspect, last_letter(&text[..suspect])).is_some() {
            return Some(suspect);
        }
        at = suspect + letter_at(text, suspect).len_utf8();
    }
    None
}

/// Something hidden that begins at some place.
struct Hidden {
    kind: HiddenKind,
    /// Where it ends.
    end: usize,
    /// What stays of it.
    leaves: Leaves,
}

/// What stays of something hidden.
enum Leaves {
    Nothing,
    /// It begins a new line, or the same line again.
    LineBreak,
    /// Even the letter before it goes.
    OneLetterLess,
}

/// Returns what is hidden at this place, after the letter that stays before it.
fn hidden_at(text: &str, at: usize, before: Option<char>) -> Option<Hidden> {
    let letter = letter_at(text, at);
    let end = at + letter.len_utf8();
    let control = |leaves| Some(Hidden { kind: HiddenKind::Control, end, leaves });
    match letter {
        '\t' | '\n' => None,
        '\r' if text[end..].starts_with('\n') => None,
        '\r' | '\u{b}' | '\u{c}' | '\u{85}' => control(Leaves::LineBreak),
        '\u{8}' => control(Leaves::OneLetterLess),
        _ if letter.is_control() => match sequence_end(text, at) {
            Some(end) => Some(Hidden { kind: HiddenKind::Sequence, end, leaves: Leaves::Nothing }),
            None => control(Leaves::Nothing),
        },
        _ => {
            let (kind, end) = invisible(text, at, letter, before)?;
            Some(Hidden { kind, end, leaves: Leaves::Nothing })
        }
    }
}

/// Returns the next place from which on something may be hidden.
fn next_suspect(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(odd) = next_odd(bytes, at) {
        if is_suspect(bytes[odd], bytes.get(odd + 1).copied().unwrap_or_default()) {
            return Some(odd);
        }
        at = odd + 1;
    }
    None
}

/// Reports whether a letter that begins with these two bytes may be hidden; almost no letter of any script may.
fn is_suspect(first: u8, second: u8) -> bool {
    match first {
        b'\r' => second != b'\n',
        0x00..=0x1f | 0x7f => true,
        0xc2 => second < 0xa0 || second == 0xad,
        0xcd => second == 0x8f,
        0xd8 => second == 0x9c,
        0xe1 => matches!(second, 0x85 | 0x9e | 0xa0),
        0xe2 => matches!(second, 0x80 | 0x81),
        0xe3 => second == 0x85,
        0xef => matches!(second, 0xb8 | 0xbb | 0xbe | 0xbf),
        0xf0 => matches!(second, 0x9b | 0x9d),
        0xf3 => true,
        _ => false,
    }
}

/// Returns the place of the next byte that is neither printable ASCII nor a tab nor a line feed.
pub(super) fn next_odd(bytes: &[u8], from: usize) -> Option<usize> {
    let (words, rest) = bytes[from..].as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        if may_be_odd(u64::from_le_bytes(*word))
            && let Some(at) = word.iter().position(is_odd)
        {
            return Some(from + number * 8 + at);
        }
    }
    rest.iter().position(is_odd).map(|at| from + words.len() * 8 + at)
}

fn is_odd(byte: &u8) -> bool {
    !matches!(byte, b'\t' | b'\n' | b' '..=b'~')
}

/// Reports whether one of eight bytes may be odd; a byte below a blank always may.
fn may_be_odd(word: u64) -> bool {
    let below_blank = word.wrapping_sub(EACH * 0x20);
    let is_delete = (word ^ (EACH * 0x7f)).wrapping_sub(EACH);
    (below_blank | is_delete | word) & (EACH * 0x80) != 0
}

/// A 1 in each of eight bytes.
const EACH: u64 = u64::MAX / 255;

/// Reports whether a JSON text may have escapes of something hidden: `\u200b`, `\b`, `\f`.
fn may_have_escaped(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(slash) = memchr(b'\\', &bytes[at..]) {
        at += slash + 1;
        if let Some(b'u' | b'b' | b'f' | b'r') = bytes.get(at) {
            return true;
        }
    }
    false
}

/// Returns the letter at a place inside a text.
pub(super) fn letter_at(text: &str, at: usize) -> char {
    text[at..].chars().next().unwrap_or_default()
}

fn last_letter(text: &str) -> Option<char> {
    text.chars().next_back()
}

#[cfg(test)]
mod tests;
