//! Strings of Python, as far as their value is certain.

use super::cursor::{Read, Stop};
use super::python::Python;
use std::borrow::Cow;

/// How a string begins.
struct Start {
    /// The bytes of the prefix and the opening quotes.
    length: usize,
    /// What closes the string: one of these.
    closing: &'static [&'static str],
    /// A backslash is a letter.
    is_raw: bool,
}

impl<'t> Python<'t> {
    /// Reports whether a string begins here.
    pub(super) fn sees_string(&self) -> bool {
        match self.cursor.peek() {
            Some(b'"' | b'\'') => true,
            // A prefix, or the first byte of a typographic quote.
            Some(b'r' | b'R' | b'u' | b'U' | 0xe2) => start(self.cursor.rest()).is_some(),
            _ => false,
        }
    }

    /// Reads one string or several in a row, which Python joins.
    pub(super) fn strings(&mut self) -> Read<Cow<'t, str>> {
        let mut joined = self.string()?;
        loop {
            let end = self.cursor.at;
            self.cursor.blanks_and_comments(false);
            if !self.sees_string() {
                self.cursor.at = end;
                return Ok(joined);
            }
            let next = self.string()?;
            joined.to_mut().push_str(&next);
        }
    }

    fn string(&mut self) -> Read<Cow<'t, str>> {
        let Some(start) = start(self.cursor.rest()) else { return self.cursor.stop() };
        self.cursor.at += start.length;
        let mut text = String::new();
        loop {
            let rest = self.cursor.rest();
            let special = |byte: u8| matches!(byte, b'\\' | b'"' | b'\'' | 0xe2);
            let plain = rest.bytes().position(special).unwrap_or(rest.len());
            self.cursor.at += plain;
            let (plain, rest) = rest.split_at(plain);
            if let Some(quote) = start.closing.iter().find(|quote| rest.starts_with(**quote)) {
                self.cursor.at += quote.len();
                if text.is_empty() {
                    return Ok(Cow::Borrowed(plain));
                }
                text.push_str(plain);
                return Ok(Cow::Owned(text));
            }
            text.push_str(plain);
            let mut letters = rest.chars();
            let Some(letter) = letters.next() else { return Err(Stop::NotHere(self.cursor.text.len())) };
            self.cursor.at += letter.len_utf8();
            match letter {
                '\\' if start.is_raw => {
                    text.push('\\');
                    // Even in a raw string, a quote after a backslash does not close it.
                    if let Some(next) = letters.next() {
                        text.push(next);
                        self.cursor.at += next.len_utf8();
                    }
                }
                '\\' => self.escape(&mut text)?,
                other => text.push(other),
            }
        }
    }

    /// Reads an escape after its backslash.
    fn escape(&mut self, text: &mut String) -> Read<()> {
        let rest = self.cursor.rest();
        let Some(letter) = rest.chars().next() else { return self.cursor.stop() };
        self.cursor.at += letter.len_utf8();
        let plain = match letter {
            '\n' => return Ok(()),
            '\r' => {
                self.cursor.accept("\n");
                return Ok(());
            }
            '\\' | '\'' | '"' => letter,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            '0'..='7' => {
                let digits = rest.bytes().take(3).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
                self.cursor.at += digits - 1;
                let code = rest[..digits].bytes().fold(0, |sum, digit| sum * 8 + u32::from(digit - b'0'));
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            // The name of a letter needs a table of all names.
            'N' => return self.cursor.stop(),
            // Python keeps the backslash of an unknown escape.
            other => {
                text.push('\\');
                other
            }
        };
        text.push(plain);
        Ok(())
    }

    /// Reads the code of a letter in hexadecimal digits. Two halves of a surrogate pair are one letter, as in JSON.
    fn code(&mut self, digits: usize) -> Read<char> {
        let code = self.hex(digits)?;
        if let 0xd800..=0xdbff = code {
            let end = self.cursor.at;
            if self.cursor.accept("\\u") {
                let low = self.hex(4)?;
                if let 0xdc00..=0xdfff = low {
                    let letter = char::from_u32(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
                    return Ok(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                self.cursor.at = end;
            }
        }
        match char::from_u32(code) {
            Some(letter) => Ok(letter),
            None if code <= 0xffff => Ok(char::REPLACEMENT_CHARACTER),
            None => self.cursor.stop(),
        }
    }

    fn hex(&mut self, digits: usize) -> Read<u32> {
        let code = self.cursor.rest().get(..digits).filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|code| u32::from_str_radix(code, 16).ok()) {
            Some(code) => {
                self.cursor.at += digits;
                Ok(code)
            }
            None => self.cursor.stop(),
        }
    }
}

/// Returns how a string begins, if one begins at the start of the text.
fn start(text: &str) -> Option<Start> {
    // Bytes are no text, and a format string has to be computed.
    let is_raw = text.starts_with(['r', 'R']);
    let prefix = usize::from(is_raw || text.starts_with(['u', 'U']));
    let quotes = &text[prefix..];
    let (length, closing): (usize, &'static [&'static str]) = if quotes.starts_with("\"\"\"") {
        (3, &["\"\"\""])
    } else if quotes.starts_with("'''") {
        (3, &["'''"])
    } else {
        match quotes.chars().next()? {
            '"' => (1, &["\""]),
            '\'' => (1, &["'"]),
            // What a word processor makes of quotes.
            '“' | '”' if prefix == 0 => (3, &["”", "“"]),
            '‘' | '’' if prefix == 0 => (3, &["’", "‘"]),
            _ => return None,
        }
    };
    Some(Start { length: prefix + length, closing, is_raw })
}
