//! A text as a reader sees it: without invisible characters, and with plain letters instead of look-alikes that Unicode
//! treats as equal (`ｐａｓｓｗｏｒｄ`). Rules search it in addition to the original text.

use memchr::memchr2;

use super::escapes::BREAK;
use super::hidden::{letter_at, next_odd, sequence_end};
use super::view::View;

/// What happens to a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Keep,
    Drop,
    As(char),
}

/// Returns the text as a reader sees it, if that differs.
pub(super) fn text_as_seen(text: &str) -> Option<View> {
    // Most texts have few letters beyond ASCII.
    folded(text, next_odd, seen_at)
}

/// Returns what a reader sees at a place, and where the rest begins.
fn seen_at(text: &str, at: usize) -> (Fold, usize) {
    let letter = letter_at(text, at);
    let end = at + letter.len_utf8();
    match letter {
        '\t' | '\n' | '\r' => (Fold::Keep, end),
        // It separates the strings of a view.
        BREAK if text[..at].ends_with('\n') && text[end..].starts_with('\n') => (Fold::Keep, end),
        _ if letter.is_control() => (Fold::Drop, sequence_end(text, at).unwrap_or(end)),
        _ => (as_seen(letter), end),
    }
}

/// Returns the text without line breaks, if it has any.
pub(super) fn one_line(text: &str) -> Option<View> {
    folded(text, next_line_break, |_, at| (Fold::Drop, at + 1))
}

fn next_line_break(bytes: &[u8], from: usize) -> Option<usize> {
    memchr2(b'\n', b'\r', &bytes[from..]).map(|at| from + at)
}

/// Folds a text where something may have to be folded; returns `None` if all stays.
fn folded(
    text: &str,
    next: impl Fn(&[u8], usize) -> Option<usize>,
    fold: impl Fn(&str, usize) -> (Fold, usize),
) -> Option<View> {
    let mut view = View::default();
    let (mut at, mut copied) = (0, 0);
    while let Some(place) = next(text.as_bytes(), at) {
        let (fold, end) = fold(text, place);
        at = end;
        if fold == Fold::Keep {
            continue;
        }
        view.text.push_str(&text[copied..place]);
        if let Fold::As(seen) = fold {
            view.text.push(seen);
        }
        copied = end;
        view.turn(copied);
    }
    if copied == 0 {
        return None;
    }
    view.text.push_str(&text[copied..]);
    Some(view)
}

/// Returns what a reader sees instead of a character.
pub(super) fn as_seen(c: char) -> Fold {
    let from = |first: u32, becomes: u8| {
        let at = u8::try_from(u32::from(c) - first).expect("a range of letters is short");
        Fold::As(char::from(becomes + at))
    };
    match c {
        '\0'..'\u{ad}' => Fold::Keep,
        // Soft hyphens, joiners, direction marks, selectors and tags are invisible; combining accents join a letter.
        '\u{ad}'
        | '\u{300}'..='\u{36f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Fold::Drop,
        // Full-width letters and digits. Full-width punctuation is normal in Chinese and Japanese, and stays.
        '\u{ff10}'..='\u{ff19}' => from(0xff10, b'0'),
        '\u{ff21}'..='\u{ff3a}' => from(0xff21, b'A'),
        '\u{ff41}'..='\u{ff5a}' => from(0xff41, b'a'),
        '\u{ff3f}' => Fold::As('_'),
        '\u{ff0d}' => Fold::As('-'),
        // Circled letters, and mathematical bold, italic and so on.
        '\u{24b6}'..='\u{24cf}' => from(0x24b6, b'A'),
        '\u{24d0}'..='\u{24e9}' => from(0x24d0, b'a'),
        '\u{1d400}'..='\u{1d6a3}' => {
            let letter = u8::try_from((u32::from(c) - 0x1d400) % 52).expect("there are 52 letters");
            Fold::As(char::from(if letter < 26 { b'A' + letter } else { b'a' + letter - 26 }))
        }
        '\u{1d7ce}'..='\u{1d7ff}' => {
            let digit = u8::try_from((u32::from(c) - 0x1d7ce) % 10).expect("there are ten digits");
            Fold::As(char::from(b'0' + digit))
        }
        _ => Fold::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masking::Span;

    #[test]
    fn a_text_is_seen_without_what_is_invisible_and_in_plain_letters() {
        for (text, seen) in [
            ("pass\u{200b}wo\u{ad}rd: x", Some("password: x")),
            ("ｐａｓｓｗｏｒｄ＿１: ｘ", Some("password_1: x")),
            ("\u{feff}𝐩𝒂𝙨𝚜 𝟙 ⓟＷ", Some("pass 1 pW")),
            ("𝐀𝐙 𝒶𝓏 𝟎𝟗 Ⓐⓩ ａ－ｂ ＡＺ０９", Some("AZ az 09 Az a-b AZ09")),
            ("g\0h\0p\0_\x1b[01;31m\x1b[Kx\x1b[m\u{9b}1mx\x07", Some("ghp_xx")),
            ("one\n\0\ntwo", None),
            ("密码：ordinary，text é", None),
            ("plain", None),
        ] {
            assert_eq!(text_as_seen(text).map(|folded| folded.text).as_deref(), seen, "{text}");
        }
    }

    #[test]
    fn spans_find_their_place_in_the_text_before() {
        let text = "é ｐ\u{200b}ａss: ｘ\u{200b}y!";
        let folded = text_as_seen(text).unwrap();
        for part in ["pass", "xy", "ss: ", "!", "é"] {
            let at = folded.text.find(part).unwrap();
            let span = folded.outside(Span::new(at, at + part.len()));
            let before = text_as_seen(&text[span.start..span.end]).map(|folded| folded.text);
            assert_eq!(before.as_deref().unwrap_or(&text[span.start..span.end]), part);
        }
    }
}
