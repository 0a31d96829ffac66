//! Takes texts apart into the words that are indexed and searched for.
//!
//! `getUserName`, `get_user_name` and `get-user.name` are `get`, `user`, `name` and, as a whole, `getusername`. Letters
//! with accents count as plain letters. Texts in other scripts become pairs or triples of letters, since not all scripts
//! have blanks between words, and the stemmer knows English only.

use unicode_normalization::char::decompose_canonical;

/// Calls a function with each word of a text, in lower case, and with whether it is several words that were written as
/// one: `getusername`.
pub(super) fn each_word(text: &str, visit: &mut dyn FnMut(&str, bool)) {
    let mut latin = Latin::default();
    let mut other = String::new();
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        if latin.text.is_empty() && other.is_empty() {
            let plain = plain_word(rest.as_bytes());
            if plain > 0 {
                visit(&rest[..plain], false);
                rest = &rest[plain..];
                continue;
            }
        }
        rest = &rest[sign.len_utf8()..];
        let class = class(sign);
        if !matches!(class, Class::Letter | Class::Mark) && !other.is_empty() {
            end_letters(&mut other, visit);
        }
        match class {
            Class::Latin => latin.push(sign, rest),
            Class::Letter => {
                latin.end(visit);
                other.extend(sign.to_lowercase());
            }
            Class::Mark => {}
            Class::Joint => latin.part(),
            Class::Blank => latin.end(visit),
        }
    }
    if !other.is_empty() {
        end_letters(&mut other, visit);
    }
    latin.end(visit);
}

/// Returns the length of the word in small letters and digits that a text begins with, or 0 if more belongs to it. Most
/// words of a description are such words.
fn plain_word(text: &[u8]) -> usize {
    let is_plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let length = text.iter().position(|byte| !is_plain(byte)).unwrap_or(text.len());
    let is_joint = |byte: Option<&u8>| matches!(byte, Some(b'_' | b'-' | b'.'));
    let behind = text.get(length + usize::from(is_joint(text.get(length))));
    let ends = behind.is_none_or(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric() && !is_joint(Some(byte)));
    if ends { length } else { 0 }
}

/// Returns a name in lower case without anything but letters and digits, so that all spellings of it are equal.
pub(super) fn squeezed(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for sign in name.chars() {
        match class(sign) {
            Class::Latin => push_plain(sign, &mut out),
            Class::Letter => out.extend(sign.to_lowercase()),
            Class::Mark | Class::Joint | Class::Blank => {}
        }
    }
    out
}

/// Returns the start of a text that has at most this many bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// What a character does in a text.
enum Class {
    /// It is a Latin letter or a digit.
    Latin,
    /// It is a letter of another script.
    Letter,
    /// It is an accent on the letter before it.
    Mark,
    /// It joins the words of a name.
    Joint,
    /// It is between words.
    Blank,
}

fn class(sign: char) -> Class {
    match sign {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Latin,
        '_' | '-' | '.' => Class::Joint,
        '\0'..='\u{7f}' => Class::Blank,
        // Wide forms of ASCII.
        '\u{ff10}'..='\u{ff19}' | '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' => Class::Latin,
        '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' if sign.is_alphabetic() => Class::Latin,
        '\u{300}'..='\u{36f}' => Class::Mark,
        _ if sign.is_alphanumeric() => Class::Letter,
        _ => Class::Blank,
    }
}

/// Appends a Latin letter in lower case and without accents.
fn push_plain(sign: char, out: &mut String) {
    match sign {
        '\0'..='\u{7f}' => out.push(sign.to_ascii_lowercase()),
        '\u{ff10}'..='\u{ff5a}' => {
            let plain = char::from_u32(sign as u32 - 0xfee0).unwrap_or(sign);
            out.push(plain.to_ascii_lowercase());
        }
        'ß' => out.push_str("ss"),
        'æ' | 'Æ' => out.push_str("ae"),
        'œ' | 'Œ' => out.push_str("oe"),
        'ø' | 'Ø' => out.push('o'),
        'ł' | 'Ł' => out.push('l'),
        'đ' | 'Đ' => out.push('d'),
        'ı' => out.push('i'),
        _ => decompose_canonical(sign, |part| {
            if !matches!(part, '\u{300}'..='\u{36f}') {
                out.extend(part.to_lowercase());
            }
        }),
    }
}

/// A run of Latin letters and digits, with the places where its words begin.
#[derive(Default)]
struct Latin {
    text: String,
    starts: Vec<usize>,
    is_joined: bool,
    last: Option<char>,
}

impl Latin {
    /// Appends a letter or a digit, given the text behind it.
    fn push(&mut self, sign: char, rest: &str) {
        let is_small = |letter: Option<char>| letter.is_some_and(char::is_lowercase);
        let mut behind = rest.chars();
        let next = behind.next();
        // `IDs` is one word.
        let is_inner = is_small(next) && (next != Some('s') || is_small(behind.next()));
        let begins = match self.last {
            None => true,
            Some(last) if sign.is_uppercase() => last.is_lowercase() || is_inner,
            Some(_) => false,
        };
        if begins || self.is_joined {
            self.starts.push(self.text.len());
        }
        self.is_joined = false;
        self.last = Some(sign);
        push_plain(sign, &mut self.text);
    }

    /// Ends a word, but not the run.
    fn part(&mut self) {
        self.is_joined = !self.text.is_empty();
    }

    /// Ends the run.
    fn end(&mut self, visit: &mut dyn FnMut(&str, bool)) {
        if self.text.is_empty() {
            return;
        }
        for (n, &start) in self.starts.iter().enumerate() {
            let end = self.starts.get(n + 1).copied().unwrap_or(self.text.len());
            if start < end {
                visit(&self.text[start..end], false);
            }
        }
        if self.starts.len() > 1 {
            visit(&self.text, true);
        }
        self.text.clear();
        self.starts.clear();
        self.is_joined = false;
        self.last = None;
    }
}

/// Ends a run of letters of other scripts: each letter and each pair of a script without blanks, else the word and each
/// three letters in it.
fn end_letters(run: &mut String, visit: &mut dyn FnMut(&str, bool)) {
    let mut places: Vec<usize> = run.char_indices().map(|(at, _)| at).collect();
    places.push(run.len());
    let letters = places.len() - 1;
    let size = if run.chars().all(has_blanks) { 3 } else { 2 };
    if size == 2 {
        places.windows(2).for_each(|ends| visit(&run[ends[0]..ends[1]], false));
    }
    if size == 3 && letters != 3 {
        visit(run, false);
    }
    places.windows(size + 1).for_each(|ends| visit(&run[ends[0]..ends[size]], false));
    run.clear();
}

/// Reports whether the script of a letter has blanks between words: Thai, Lao, Khmer, Burmese and those of East Asia
/// have none, or none that help.
fn has_blanks(letter: char) -> bool {
    !matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (text, expected) in [
            ("getUserName", "get user name getusername"),
            ("get_user-name.v2", "get user name v2 getusernamev2"),
            ("HTTPServer", "http server httpserver"),
            ("SHA256Hash", "sha256 hash sha256hash"),
            ("base64Encode", "base64 encode base64encode"),
            ("get2DayForecast", "get2 day forecast get2dayforecast"),
            ("view3DModel", "view3d model view3dmodel"),
            ("getURLs userIDs_2", "get urls geturls user ids 2 userids2"),
            ("isXSmall", "is x small isxsmall"),
            ("Read the docs. Now!", "read the docs now"),
            ("a sha-256 hash-", "a sha 256 sha256 hash"),
            ("_private__name_", "private name privatename"),
            ("don't", "don t"),
            ("Café ÀLA Straße", "cafe ala strasse"),
            ("cafe\u{301}", "cafe"),
            ("ＡＢｃ１", "a bc1 abc1"),
            ("天气预报", "天 气 预 报 天气 气预 预报"),
            ("天", "天"),
            ("get天气", "get 天 气 天气"),
            ("Погода", "погода пог ого год ода"),
            ("год", "год"),
            ("", ""),
            ("\0._-\u{301}", ""),
        ] {
            let mut words = Vec::new();
            each_word(text, &mut |word, _| words.push(word.to_owned()));
            assert_eq!(words.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn spellings_of_a_name_are_equal() {
        for name in ["get_user", "getUser", "GET-USER", "get.user", " get user ", "ＧＥＴ_üser"] {
            assert_eq!(squeezed(name), "getuser", "{name}");
        }
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aé", 9), "aé");
    }
}
