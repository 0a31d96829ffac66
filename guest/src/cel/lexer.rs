//! Splits a condition into tokens, each with the place where it begins.

use super::CelError;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lexeme {
    /// A name, or a word such as `true` or `in`.
    Word(String),
    /// The name of a member in backquotes.
    Quoted(String),
    /// A whole number without its sign.
    Int(u64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A string, unescaped.
    String(String),
    /// An operator, a bracket or a comma.
    Sign(&'static str),
    /// The end of the condition.
    End,
}

/// Returns the tokens of a condition, each with the byte at which it begins.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Lexeme)>, CelError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Lexeme::End;
        tokens.push((start, token));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, CelError> {
        Err(CelError { at, message: message.into() })
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
            self.at += blanks;
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn token(&mut self) -> Result<Lexeme, CelError> {
        let bytes = self.rest().as_bytes();
        let Some(first) = bytes.first() else { return Ok(Lexeme::End) };
        if let Some(start) = string_start(bytes) {
            return self.string(start);
        }
        let is_number = first.is_ascii_digit() || *first == b'.' && bytes.get(1).is_some_and(u8::is_ascii_digit);
        if is_number {
            return self.number();
        }
        let word = self.count(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if word > 0 {
            return Ok(Lexeme::Word(self.take(word).to_owned()));
        }
        if *first == b'`' {
            return self.quoted_name();
        }
        match SIGNS.iter().find(|sign| self.rest().starts_with(**sign)) {
            Some(sign) => {
                self.at += sign.len();
                Ok(Lexeme::Sign(sign))
            }
            None => {
                let found = self.rest().chars().next().unwrap_or_default();
                let hint = match found {
                    '=' => "; to compare, write `==`",
                    '&' => "; write `&&`",
                    '|' => "; write `||`",
                    _ => "",
                };
                self.error(self.at, format!("{found:?} means nothing here{hint}"))
            }
        }
    }

    /// Counts the bytes from here on that pass a test.
    fn count(&self, test: impl Fn(u8) -> bool) -> usize {
        self.rest().bytes().take_while(|byte| test(*byte)).count()
    }

    fn take(&mut self, bytes: usize) -> &str {
        let start = self.at;
        self.at += bytes;
        &self.text[start..self.at]
    }

    fn number(&mut self) -> Result<Lexeme, CelError> {
        let start = self.at;
        if self.rest().starts_with("0x") {
            self.at += 2;
            let digits = self.count(|byte| byte.is_ascii_hexdigit());
            let number = u64::from_str_radix(self.take(digits), 16);
            return match number {
                Ok(number) => self.whole(start, number),
                Err(_) => self.error(start, "this is no hexadecimal number of at most 64 bits"),
            };
        }
        let digits = |lexer: &Self| lexer.count(|byte| byte.is_ascii_digit());
        self.at += digits(self);
        let mut is_double = false;
        // A point without a digit behind it selects a member.
        if self.rest().starts_with('.') && self.rest()[1..].starts_with(|next: char| next.is_ascii_digit()) {
            is_double = true;
            self.at += 1;
            self.at += digits(self);
        }
        let exponent = self.rest().strip_prefix(['e', 'E']).map(|rest| rest.trim_start_matches(['+', '-']));
        if let Some(rest) = exponent.filter(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit())) {
            is_double = true;
            self.at = self.text.len() - rest.len();
            self.at += digits(self);
        }
        let written = &self.text[start..self.at];
        match is_double {
            true => match written.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Lexeme::Double(number)),
                _ => self.error(start, "this number is too large"),
            },
            false => match written.parse() {
                Ok(number) => self.whole(start, number),
                Err(_) => self.error(start, "this number has more than 64 bits"),
            },
        }
    }

    /// Returns a whole number, unless letters follow it.
    fn whole(&self, start: usize, number: u64) -> Result<Lexeme, CelError> {
        match self.rest().bytes().next() {
            Some(b'u' | b'U') => self.error(start, "unsigned numbers are not supported; leave out the `u`"),
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' => self.error(self.at, "a number ends here"),
            _ => Ok(Lexeme::Int(number)),
        }
    }

    fn quoted_name(&mut self) -> Result<Lexeme, CelError> {
        let start = self.at;
        self.at += 1;
        let length = self.count(|byte| byte.is_ascii_alphanumeric() || b"_./ -".contains(&byte));
        let name = self.take(length).to_owned();
        if name.is_empty() || !self.rest().starts_with('`') {
            return self.error(start, "in backquotes, a name has letters, digits, blanks and `_`, `.`, `/`, `-`");
        }
        self.at += 1;
        Ok(Lexeme::Quoted(name))
    }

    fn string(&mut self, StringStart { length, quote, is_raw }: StringStart) -> Result<Lexeme, CelError> {
        let start = self.at;
        self.at += length;
        let mut text = String::new();
        loop {
            if self.rest().starts_with(quote) {
                self.at += quote.len();
                return Ok(Lexeme::String(text));
            }
            let Some(next) = self.rest().chars().next() else { return self.error(start, "this string has no end") };
            if matches!(next, '\n' | '\r') && quote.len() == 1 {
                return self.error(start, "this string has no end on its line");
            }
            self.at += next.len_utf8();
            match next {
                '\\' if !is_raw => text.push(self.escape()?),
                other => text.push(other),
            }
        }
    }

    /// Reads an escape behind its backslash.
    fn escape(&mut self) -> Result<char, CelError> {
        let start = self.at - 1;
        let Some(letter) = self.rest().chars().next() else { return self.error(start, "this string has no end") };
        self.at += letter.len_utf8();
        let code = match letter {
            'a' => return Ok('\u{7}'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'v' => return Ok('\u{b}'),
            '\\' | '"' | '\'' | '`' | '?' => return Ok(letter),
            'x' | 'X' => self.digits(2, 16),
            'u' => self.digits(4, 16),
            'U' => self.digits(8, 16),
            '0'..='3' => {
                self.at -= 1;
                self.digits(3, 8)
            }
            _ => None,
        };
        match code.and_then(char::from_u32) {
            Some(letter) => Ok(letter),
            None => self.error(start, "this is no escape; for a backslash, write two"),
        }
    }

    fn digits(&mut self, count: usize, radix: u32) -> Option<u32> {
        let digits = self.rest().get(..count).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)))?;
        let code = u32::from_str_radix(digits, radix).ok();
        self.at += count;
        code
    }
}

/// How a string begins.
#[derive(Clone, Copy)]
struct StringStart {
    /// The length of its prefix and its opening quote.
    length: usize,
    /// What ends it.
    quote: &'static str,
    /// Whether backslashes are ordinary characters.
    is_raw: bool,
}

/// Returns how a string begins, if one begins here.
fn string_start(bytes: &[u8]) -> Option<StringStart> {
    let is_raw = matches!(bytes.first(), Some(b'r' | b'R'));
    let rest = &bytes[usize::from(is_raw)..];
    let quote = [r#"""""#, "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote.as_bytes()))?;
    Some(StringStart { length: usize::from(is_raw) + quote.len(), quote, is_raw })
}

/// All signs, longer ones before those that they begin with.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Lexeme> {
        let mut tokens = tokens(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(tokens.pop(), Some((text.len(), Lexeme::End)));
        tokens.into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn strings_have_four_quotes_and_all_escapes_of_cel() {
        for (text, expected) in [
            (r#""a'b""#, "a'b"),
            (r#"'a"b'"#, "a\"b"),
            ("'''a\n'b'''", "a\n'b"),
            (r#"r"a\n""#, r"a\n"),
            (r#""\x41\u00e9\U0001f600\101\t\?""#, "Aé😀A\t?"),
        ] {
            assert_eq!(read(text), [Lexeme::String(expected.to_owned())], "{text}");
        }
        for text in ["'a", "'a\n'", r"'\q'", r"'\ud800'", r"'\400'", r"'\x4'", "'''a''"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_whole_or_have_a_fraction_or_an_exponent() {
        for (text, expected) in [
            ("12", Lexeme::Int(12)),
            ("0x1F", Lexeme::Int(31)),
            ("9223372036854775808", Lexeme::Int(1 << 63)),
            ("1.5", Lexeme::Double(1.5)),
            (".5", Lexeme::Double(0.5)),
            ("1e3", Lexeme::Double(1000.0)),
            ("1.5E-1", Lexeme::Double(0.15)),
        ] {
            assert_eq!(read(text), [expected], "{text}");
        }
        for text in ["12u", "12a", "0x", "0X1", "1e400", "99999999999999999999"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blanks_and_comments_separate_and_places_are_those_of_bytes() {
        let tokens = tokens("é == 1").unwrap_err();
        assert_eq!((tokens.at, tokens.message.as_str()), (0, "'é' means nothing here"));
        let [a, c] = ["a", "c"].map(|word| Lexeme::Word(word.to_owned()));
        assert_eq!(read("a // b\n&& c"), [a, Lexeme::Sign("&&"), c]);
    }
}
