//! Makes characters visible that control a screen, change the writing direction or show nothing.

use std::borrow::Cow;

/// Escapes each character that a person could not see, or that would move others, as `\u{202e}`.
///
/// Line breaks are among them, so the result is one line. In JSON, which doubles its own backslashes, nothing else can
/// look like such an escape.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_except(text, "")
}

/// Escapes hidden characters as [`escape`] does, except for those in `kept`.
pub fn escape_except<'t>(text: &'t str, kept: &str) -> Cow<'t, str> {
    let hides = |letter: char| is_hidden_char(letter) && !kept.contains(letter);
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for letter in text.chars() {
        if hides(letter) { out.extend(letter.escape_unicode()) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

/// Cuts a text to this many characters; an ellipsis shows that something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reports whether a person would not see this character, or would see others in the wrong place because of it.
///
/// These are control and format characters, line and paragraph separators, spaces other than the plain one, everything
/// that Unicode allows to ignore (`Default_Ignorable_Code_Point`: fillers, variation selectors, tags), and
/// noncharacters.
pub fn is_hidden_char(letter: char) -> bool {
    match letter {
        ' '..='~' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'
        | '\u{fdd0}'..='\u{fdef}' => true,
        _ => letter.is_control() || letter.is_whitespace() || u32::from(letter) & 0xfffe == 0xfffe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let hidden = [
            ("a\u{202e}b", r"a\u{202e}b"),
            ("a\u{200b}\u{200d}\u{feff}b", r"a\u{200b}\u{200d}\u{feff}b"),
            ("a\nb\r\tc\u{1b}[2J\u{7f}\u{9b}", r"a\u{a}b\u{d}\u{9}c\u{1b}[2J\u{7f}\u{9b}"),
            ("\u{2028}\u{2029}\u{85}", r"\u{2028}\u{2029}\u{85}"),
            ("v\u{fe0f}\u{e0100}", r"v\u{fe0f}\u{e0100}"),
            ("t\u{e0001}\u{e0041}\u{e007f}", r"t\u{e0001}\u{e0041}\u{e007f}"),
            ("f\u{3164}\u{ffa0}\u{115f}\u{2800}\u{ad}\u{34f}", r"f\u{3164}\u{ffa0}\u{115f}\u{2800}\u{ad}\u{34f}"),
            ("s\u{a0}\u{2003}\u{3000}\u{202f}", r"s\u{a0}\u{2003}\u{3000}\u{202f}"),
            ("i\u{2066}x\u{2069}\u{61c}", r"i\u{2066}x\u{2069}\u{61c}"),
            ("n\u{ffff}\u{1fffe}", r"n\u{ffff}\u{1fffe}"),
        ];
        for (text, expected) in hidden {
            assert_eq!(escape(text), expected);
        }
        for text in ["plain text, \"quoted\" \\ `x`", "é ü 漢字 עברית العربية e\u{301}", "😀"] {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert_eq!(escape_except("a\nb\t\u{202e}", "\n\t"), "a\nb\t\\u{202e}");
    }
}
