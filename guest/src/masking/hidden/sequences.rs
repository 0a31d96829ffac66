//! Sequences that control a terminal: colours, the place of the cursor, titles, links.

use super::super::values;
use super::letter_at;

/// Returns the end of the sequence that begins with this control character, or `None` if none does.
///
/// What follows a broken sequence is text. So is a mask: its bracket ends no sequence.
pub(in crate::masking) fn sequence_end(text: &str, at: usize) -> Option<usize> {
    let letter = letter_at(text, at);
    let body = at + letter.len_utf8();
    let end = match letter {
        '\u{9b}' => control_end(text, body)?,
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => string_end(text, body).unwrap_or(body),
        '\u{1b}' => escape_end(text, body)?,
        _ => return None,
    };
    Some(end)
}

/// Returns the end of a sequence whose escape character ends here.
fn escape_end(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let behind = at + 1;
    match *bytes.get(at)? {
        b'[' if begins_mask(text, at) => None,
        b'[' => control_end(text, behind).or(Some(behind)),
        b']' | b'^' => string_end(text, behind).or(Some(behind)),
        b'P' | b'X' | b'_' => string_end(text, behind),
        b'\\' => Some(behind),
        b' '..=b'/' => {
            let last = at + bytes[at..].iter().take_while(|byte| matches!(byte, b' '..=b'/')).count();
            let is_final = matches!(bytes.get(last), Some(b'0'..=b'~')) && !begins_mask(text, last);
            is_final.then_some(last + 1)
        }
        // A letter that begins a word is more likely the word's than the sequence's: `ESC` before a token hides none of it.
        sign if SINGLE.contains(&sign) && !is_followed_by_word(bytes, at) => Some(behind),
        _ => None,
    }
}

/// Returns the end of a control sequence whose introduction ends here: parameters, and a letter that says what they are
/// for.
fn control_end(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut last = at;
    last += bytes[last..].iter().take_while(|byte| matches!(byte, b'0'..=b'?')).count();
    last += bytes[last..].iter().take_while(|byte| matches!(byte, b' '..=b'/')).count();
    let Some(sign) = bytes.get(last) else { return Some(last) };
    let is_final = matches!(sign, b'@'..=b'~') && !begins_mask(text, last);
    // Without parameters, few letters are used; text follows some of them at once.
    let is_meant = last > at || TO_TEXT.contains(sign) || ALONE.contains(sign) && !is_followed_by_word(bytes, last);
    (is_final && is_meant).then_some(last + 1)
}

/// Returns the end of a control string (a title, a link, what a device is to do), if it ends on its line and soon.
fn string_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..text.ceil_char_boundary(text.len().min(at + MAX_STRING))];
    for (place, letter) in rest.char_indices() {
        match letter {
            '\u{7}' | '\u{9c}' => return Some(at + place + letter.len_utf8()),
            '\u{1b}' if rest[place + 1..].starts_with('\\') => return Some(at + place + 2),
            // So that no text is read again and again, the next sequence ends this one.
            '\t' => {}
            _ if letter.is_control() => return None,
            _ => {}
        }
    }
    None
}

/// Reports whether a word or another such sequence goes on after this letter.
fn is_followed_by_word(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
}

fn begins_mask(text: &str, at: usize) -> bool {
    values::mask_length(&text[at..]).is_some()
}

/// What follows an escape character alone: saving and restoring the cursor, keypads, scrolling, a reset.
const SINGLE: &[u8] = b"78=>cDEHMNOZ";
/// The letters of control sequences that are used without parameters: colours and erasing, which text follows, and moving
/// the cursor.
const TO_TEXT: &[u8] = b"mKJH";
const ALONE: &[u8] = b"ABCDEFGsu";
/// The longest control string; a terminal waits longer for its end, but a text is not to vanish.
const MAX_STRING: usize = 4096;
