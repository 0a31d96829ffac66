//! Which letters nobody sees, and which of them mean something where they stand.

use super::HiddenKind;

/// Returns what kind of hidden letter this is and where it ends, after the letter that stays before it; `None` if it
/// may be seen or means something here.
pub(super) fn invisible(text: &str, at: usize, letter: char, before: Option<char>) -> Option<(HiddenKind, usize)> {
    let end = at + letter.len_utf8();
    let after = text[end..].chars().next();
    let is_after = |test: fn(char) -> bool| before.is_some_and(test);
    let is_before = |test: fn(char) -> bool| after.is_some_and(test);
    let kind = match letter {
        '\u{ad}' => HiddenKind::SoftHyphen,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            HiddenKind::Direction
        }
        // A joiner forms one emoji of two, or gives a letter of some scripts another form.
        '\u{200d}' if is_after(is_of_emoji) && is_before(is_emoji) => return None,
        '\u{200c}' | '\u{200d}' if is_after(is_joining) || is_before(is_joining) && !is_after(is_joiner) => {
            return None;
        }
        // Fillers take the place of a missing part of a Korean syllable.
        '\u{115f}' | '\u{1160}' if is_after(is_jamo) || is_before(is_jamo) => return None,
        '\u{180b}'..='\u{180f}' if is_after(is_mongolian) => return None,
        '\u{180b}'..='\u{180d}' | '\u{180f}' => HiddenKind::Selector,
        '\u{fe00}'..='\u{fe0f}' if takes_selector(letter, before, after) => return None,
        '\u{e0100}'..='\u{e01ef}' if is_after(is_ideograph) => return None,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => HiddenKind::Selector,
        '\u{e0020}'..='\u{e007f}' if is_inside_flag(text, at) => return None,
        '\u{e0000}'..='\u{e0fff}' => HiddenKind::Tag,
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' => HiddenKind::ZeroWidth,
        _ => return None,
    };
    Some((kind, end))
}

/// Reports whether a variation selector means something after this letter and before the next.
fn takes_selector(selector: char, before: Option<char>, after: Option<char>) -> bool {
    let Some(base) = before else { return false };
    let is_for_emoji = matches!(selector, '\u{fe0e}' | '\u{fe0f}');
    if is_for_emoji && matches!(base, '0'..='9' | '#' | '*') {
        // The signs on the keys of a telephone.
        return after == Some('\u{20e3}');
    }
    is_for_emoji && is_emoji(base)
        || !is_for_emoji
            && (is_ideograph(base)
                || matches!(base, '\u{1000}'..='\u{109f}' | '\u{2200}'..='\u{22ff}' | '\u{2a00}'..='\u{2aff}'
                    | '\u{3001}'..='\u{3002}' | '\u{a840}'..='\u{a87f}' | '\u{ff01}'..='\u{ff1f}'))
}

/// Reports whether a letter may be an emoji by itself.
fn is_emoji(letter: char) -> bool {
    matches!(letter,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' | '\u{2934}' | '\u{2935}'
        | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Reports whether a letter ends an emoji: it is one, or selects how the one before it is shown.
fn is_of_emoji(letter: char) -> bool {
    is_emoji(letter) || letter == '\u{fe0f}'
}

/// Reports whether a letter belongs to a script in which joiners change how letters are written: Arabic and its
/// neighbours, the scripts of India and South-East Asia, Mongolian.
fn is_joining(letter: char) -> bool {
    matches!(letter,
        '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1700}'..='\u{17b3}'
        | '\u{17b6}'..='\u{180a}' | '\u{1810}'..='\u{18af}' | '\u{1900}'..='\u{1aaf}' | '\u{1b00}'..='\u{1c4f}'
        | '\u{a800}'..='\u{abff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10a00}'..='\u{10aff}'
        | '\u{10d00}'..='\u{10d3f}' | '\u{11000}'..='\u{11fff}' | '\u{1e900}'..='\u{1e95f}')
}

fn is_joiner(letter: char) -> bool {
    matches!(letter, '\u{200c}' | '\u{200d}')
}

fn is_jamo(letter: char) -> bool {
    matches!(letter, '\u{1100}'..='\u{115e}' | '\u{1161}'..='\u{11ff}')
}

fn is_mongolian(letter: char) -> bool {
    matches!(letter, '\u{1810}'..='\u{18af}')
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

const BLACK_FLAG: char = '\u{1f3f4}';

/// The flags that are written with tags: of England, Scotland and Wales. Any other word of tags could say something.
const FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];

/// Returns the length of the tags of a flag at the start of a text, through the tag that ends it.
fn flag_length(tags: &str) -> Option<usize> {
    let mut name = String::new();
    for (at, tag) in tags.char_indices() {
        if tag == '\u{e007f}' {
            return FLAGS.contains(&name.as_str()).then_some(at + tag.len_utf8());
        }
        let letter = u32::from(tag).checked_sub(TAGS).and_then(char::from_u32)?;
        if !letter.is_ascii_lowercase() || name.len() == FLAGS[0].len() {
            return None;
        }
        name.push(letter);
    }
    None
}

/// Reports whether the tag at a place belongs to a flag that begins before it.
fn is_inside_flag(text: &str, at: usize) -> bool {
    let mut start = at;
    for _ in 0..=FLAGS[0].len() {
        let Some(letter) = text[..start].chars().next_back() else { return false };
        if letter == BLACK_FLAG {
            return flag_length(&text[start..]).is_some_and(|length| at < start + length);
        }
        start -= letter.len_utf8();
    }
    false
}

/// Where the tags begin; the tag of an ASCII character comes that much behind it.
const TAGS: u32 = 0xe0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tags_of_a_flag_are_those_of_a_flag() {
        let tags =
            |word: &str| -> String { word.chars().filter_map(|c| char::from_u32(TAGS + u32::from(c))).collect() };
        for (word, expected) in [
            ("gbeng\u{7f}", Some(24)),
            ("gbwls\u{7f}ab", Some(24)),
            ("gbeng", None),
            ("gbxyz\u{7f}", None),
            ("gben\u{7f}", None),
            ("gbengx\u{7f}", None),
            ("", None),
        ] {
            assert_eq!(flag_length(&tags(word)), expected, "{word}");
        }
    }
}
