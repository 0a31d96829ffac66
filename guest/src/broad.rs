//! The broad reading of a text: as a program reads it that composes letters, takes look-alike signs for plain ones, drops
//! what is invisible, or undoes escapes. Rules look at it beside the text itself, so that no spelling hides an address.

use std::borrow::Cow;

/// Returns a text and every other way in which a program may read it: broadly, and with its escapes undone.
pub(crate) fn readings(text: &str) -> Vec<Cow<'_, str>> {
    let mut all = vec![Cow::Borrowed(text)];
    if text.is_ascii() && !has_escapes(text) {
        return all;
    }
    for _ in 0..MAX_ESCAPES {
        let latest = all.last().map_or(text, |latest| latest);
        let plain = reading(latest).into_owned();
        let decoded = unescaped(&plain).into_owned();
        if decoded == *latest {
            break;
        }
        if plain != *latest && plain != decoded {
            all.push(Cow::Owned(plain));
        }
        all.push(Cow::Owned(decoded));
    }
    all
}

/// How often a text can be escaped before the escapes within are taken for what they are.
const MAX_ESCAPES: usize = 4;

/// Returns a text with plain signs, digits and letters, and without what is invisible.
pub(crate) fn reading(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut read = String::with_capacity(text.len());
    for sign in text.chars() {
        push_plain(sign, &mut read);
    }
    Cow::Owned(read)
}

/// Reports whether a program that composes letters or drops signs may see other points, slashes and other signs of
/// addresses and paths than there are, or a blank or sign that a reader does not see.
pub(crate) fn changes_signs(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let mut plain = String::new();
    text.chars().filter(|sign| !sign.is_ascii()).any(|sign| {
        plain.clear();
        push_plain(sign, &mut plain);
        plain.is_empty() || plain.contains(|sign: char| sign.is_ascii_punctuation() || sign == ' ')
    })
}

/// Returns the letters of a member's name as far as servers tell names apart by them: some ignore case, and some take
/// `filePath`, `file_path` and `file-path` for the same.
pub(crate) fn folded(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for sign in reading(name).chars() {
        if !is_joint(sign) {
            push_folded(sign, &mut folded);
        }
    }
    folded
}

/// Reports whether two names of members mean the same to some server.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    if !one.is_ascii() || !other.is_ascii() {
        return folded(one) == folded(other);
    }
    let mut ones = one.chars().filter(|sign| !is_joint(*sign));
    let mut others = other.chars().filter(|sign| !is_joint(*sign));
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one.eq_ignore_ascii_case(&other) => {}
            _ => return false,
        }
    }
}

/// Reports whether a sign only joins the words of a name.
fn is_joint(sign: char) -> bool {
    matches!(sign, '_' | '-' | '.') || sign.is_whitespace()
}

/// Returns a text in which letters that differ in case only are the same.
pub(crate) fn case_folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    text.chars().for_each(|sign| push_folded(sign, &mut folded));
    folded
}

/// Folds the case of a letter. Once down, up and down again is what Unicode calls full folding, but for the dotless `ı`,
/// which becomes an `i` here.
fn push_folded(sign: char, folded: &mut String) {
    if sign.is_ascii() {
        folded.push(sign.to_ascii_lowercase());
        return;
    }
    let upper = sign.to_lowercase().flat_map(char::to_uppercase);
    folded.extend(upper.flat_map(char::to_lowercase));
}

/// Reports whether a sign shows nothing: Unicode's ignorable ones, and the anchors of annotations.
pub(crate) fn is_invisible(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Appends what a sign is read as: nothing, a plain sign, or itself.
fn push_plain(sign: char, read: &mut String) {
    if sign.is_ascii() {
        return read.push(sign);
    }
    if is_invisible(sign) {
        return;
    }
    if let Some(digit) = digit(sign) {
        return read.push(digit);
    }
    if sign.is_whitespace() || sign == '\u{2800}' {
        return read.push(' ');
    }
    match sign {
        '\u{ff01}'..='\u{ff5e}' => read.push(offset(sign, '\u{ff01}', '!', 94)),
        '\u{24b6}'..='\u{24cf}' => read.push(offset(sign, '\u{24b6}', 'A', 26)),
        '\u{24d0}'..='\u{24e9}' => read.push(offset(sign, '\u{24d0}', 'a', 26)),
        '\u{1f130}'..='\u{1f149}' => read.push(offset(sign, '\u{1f130}', 'A', 26)),
        '\u{1d400}'..='\u{1d6a3}' => read.push(mathematical(sign)),
        '\u{2469}'..='\u{2473}' => push_number(10 + distance(sign, '\u{2469}'), read),
        '\u{3251}'..='\u{325f}' => push_number(21 + distance(sign, '\u{3251}'), read),
        '\u{32b1}'..='\u{32bf}' => push_number(36 + distance(sign, '\u{32b1}'), read),
        '\u{2488}'..='\u{249b}' => {
            push_number(1 + distance(sign, '\u{2488}'), read);
            read.push('.');
        }
        _ if sign.is_alphabetic() => read.push(sign),
        _ => match SIGNS.iter().find(|(signs, _)| signs.contains(sign)) {
            Some((_, plain)) => read.push_str(plain),
            None => read.push(sign),
        },
    }
}

/// What look-alikes of signs, and single signs for several, are read as.
const SIGNS: &[(&str, &str)] = &[
    ("\u{3002}\u{ff61}\u{2024}\u{fe52}", "."),
    ("\u{2025}\u{fe30}", ".."),
    ("\u{2026}\u{fe19}", "..."),
    ("\u{2044}\u{2215}\u{29f8}", "/"),
    ("\u{2216}\u{29f5}\u{29f9}\u{fe68}", "\\"),
    ("\u{2236}\u{a789}\u{fe13}\u{fe55}", ":"),
    ("\u{fe6b}", "@"),
    ("\u{fe6a}", "%"),
    ("\u{fe69}", "$"),
    ("\u{223c}", "~"),
    ("\u{fe5f}", "#"),
    ("\u{2048}\u{2049}\u{fe16}\u{fe56}", "?"),
    ("\u{fe60}", "&"),
    ("\u{fe66}\u{207c}\u{208c}", "="),
    ("\u{fe62}\u{207a}\u{208a}\u{fb29}", "+"),
    ("\u{2010}\u{2011}\u{2212}\u{fe63}", "-"),
    ("\u{fe33}\u{fe34}\u{fe4d}\u{fe4e}\u{fe4f}", "_"),
    ("\u{37e}\u{fe14}\u{fe54}", ";"),
    ("\u{fe10}\u{fe50}", ","),
    ("\u{fe64}", "<"),
    ("\u{fe65}", ">"),
    ("\u{fe15}\u{fe57}\u{203c}", "!"),
    ("\u{207d}\u{208d}\u{fe35}\u{fe59}", "("),
    ("\u{207e}\u{208e}\u{fe36}\u{fe5a}", ")"),
    ("\u{fe47}", "["),
    ("\u{fe48}", "]"),
    ("\u{2a74}", "::="),
    ("\u{2100}", "a/c"),
    ("\u{2101}", "a/s"),
    ("\u{2105}", "c/o"),
    ("\u{2106}", "c/u"),
    ("\u{33c2}", "a.m."),
    ("\u{33c7}", "Co."),
    ("\u{33d8}", "p.m."),
    ("\u{1f100}", "0."),
];

/// Returns the plain digit that a sign stands for, in any script, also raised, lowered or in a circle.
fn digit(sign: char) -> Option<char> {
    let value = match sign {
        '\u{b9}' => 1,
        '\u{b2}' | '\u{b3}' => 2 + distance(sign, '\u{b2}'),
        '\u{2070}' | '\u{24ea}' | '\u{24ff}' | '〇' => 0,
        '\u{2074}'..='\u{2079}' => distance(sign, '\u{2070}'),
        '\u{1d7ce}'..='\u{1d7ff}' => distance(sign, '\u{1d7ce}') % 10,
        '一' => 1,
        '二' => 2,
        '三' => 3,
        '四' => 4,
        '五' => 5,
        '六' => 6,
        '七' => 7,
        '八' => 8,
        '九' => 9,
        _ => place_in_row(sign, ZEROS, 10).or_else(|| place_in_row(sign, ONES, 9).map(|place| place + 1))?,
    };
    char::from_digit(value, 10)
}

/// Returns the place of a sign in one of several rows, which are given by their first signs in order.
fn place_in_row(sign: char, rows: &[u32], length: u32) -> Option<u32> {
    let behind = rows.partition_point(|first| *first <= u32::from(sign));
    let first = rows.get(behind.checked_sub(1)?)?;
    Some(u32::from(sign) - first).filter(|place| *place < length)
}

/// Where the digits of a script begin: ten signs, with zero first.
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20,
    0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0x2080, 0xa620,
    0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136,
    0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0,
    0x11c50, 0x11d50, 0x11da0, 0x11de0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1ccf0, 0x1e140,
    0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0,
];

/// Where nine digits begin with one: those that are raised, in circles, and of scripts without a zero.
const ONES: &[u32] = &[0x1369, 0x2460, 0x24f5, 0x2776, 0x2780, 0x278a, 0x10a40, 0x10e60, 0x11052];

/// Returns the plain letter for a mathematical one: bold, italic and so on.
fn mathematical(sign: char) -> char {
    let place = u8::try_from(distance(sign, '\u{1d400}') % 52).unwrap_or_default();
    char::from(if place < 26 { b'A' + place } else { b'a' + place - 26 })
}

/// Returns the sign at the same place of another row.
fn offset(sign: char, first: char, plain: char, count: u32) -> char {
    let place = distance(sign, first).min(count - 1);
    char::from_u32(u32::from(plain) + place).unwrap_or(sign)
}

fn distance(sign: char, first: char) -> u32 {
    u32::from(sign) - u32::from(first)
}

fn push_number(number: u32, read: &mut String) {
    read.push_str(&number.to_string());
}

/// Reports whether a text may have escapes.
fn has_escapes(text: &str) -> bool {
    text.contains(['%', '&', '\\']) || text.contains("=?")
}

/// Undoes the escapes of URLs, HTML, JSON, Markdown and encoded words of mail headers, once.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !has_escapes(text) {
        return Cow::Borrowed(text);
    }
    let is_encoded_word = text.contains("=?");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['%', '&', '\\', '=']) {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let length = match escape(rest, is_encoded_word) {
            Some((Escaped::Byte(byte), length)) => {
                bytes.push(byte);
                length
            }
            Some((Escaped::Sign(sign), length)) => {
                bytes.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
                length
            }
            None => {
                bytes.push(rest.as_bytes()[0]);
                1
            }
        };
        rest = &rest[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// What an escape stands for.
enum Escaped {
    Byte(u8),
    Sign(char),
}

/// Returns what the escape at the start of a text stands for, and its length.
fn escape(text: &str, is_encoded_word: bool) -> Option<(Escaped, usize)> {
    let rest = text.get(1..)?;
    match text.as_bytes()[0] {
        b'%' => hex_byte(rest).map(|byte| (Escaped::Byte(byte), 3)),
        b'=' if is_encoded_word => hex_byte(rest).map(|byte| (Escaped::Byte(byte), 3)),
        b'&' => entity(rest).map(|(sign, length)| (Escaped::Sign(sign), 1 + length)),
        b'\\' => behind_backslash(rest).map(|(sign, length)| (Escaped::Sign(sign), 1 + length)),
        _ => None,
    }
}

fn hex_byte(text: &str) -> Option<u8> {
    let digits = text.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

/// Reads the digits of a character's number at the start of a text; returns the character and their length.
fn numbered(text: &str, radix: u32, most: usize) -> Option<(char, usize)> {
    let length = text.bytes().take(most).take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let sign = char::from_u32(u32::from_str_radix(&text[..length], radix).ok()?)?;
    Some((sign, length))
}

/// Reads an entity of HTML, without its `&`; the semicolon may be left out.
fn entity(text: &str) -> Option<(char, usize)> {
    let (sign, length) = match text.strip_prefix('#') {
        Some(digits) if digits.starts_with(['x', 'X']) => {
            let (sign, length) = numbered(&digits[1..], 16, 8)?;
            (sign, length + 2)
        }
        Some(digits) => {
            let (sign, length) = numbered(digits, 10, 8)?;
            (sign, length + 1)
        }
        None => {
            let (name, sign) = ENTITIES.iter().find(|(name, _)| text.starts_with(name))?;
            (*sign, name.len())
        }
    };
    let semicolon = usize::from(text[length..].starts_with(';'));
    Some((sign, length + semicolon))
}

/// Entities of signs that addresses have.
const ENTITIES: [(&str, char); 10] = [
    ("commat;", '@'),
    ("period;", '.'),
    ("sol;", '/'),
    ("colon;", ':'),
    ("amp;", '&'),
    ("lowbar;", '_'),
    ("percnt;", '%'),
    ("bsol;", '\\'),
    ("Tab;", '\t'),
    ("NewLine;", '\n'),
];

/// Reads what is behind a backslash: the number of a character, or a sign that stands for itself.
fn behind_backslash(text: &str) -> Option<(char, usize)> {
    let sign = text.chars().next()?;
    let rest = text.get(1..)?;
    match sign {
        'u' if rest.starts_with('{') => {
            let (sign, length) = numbered(&rest[1..], 16, 6)?;
            rest[1 + length..].starts_with('}').then_some((sign, length + 3))
        }
        'u' => numbered(rest, 16, 4).filter(|(_, length)| *length == 4).map(|(sign, length)| (sign, length + 1)),
        'x' => numbered(rest, 16, 2).filter(|(_, length)| *length == 2).map(|(sign, length)| (sign, length + 1)),
        // Two backslashes may begin the name of a host.
        '.' | '/' | ':' | '@' | '-' | '_' | '%' | '&' => Some((sign, 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
