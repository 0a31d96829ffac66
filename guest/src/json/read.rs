//! The JSON parser, with limits and without recursion.

use std::borrow::Cow;

use super::{Error, MAX_DEPTH, MAX_VALUES, Object, Repeated, Value, plain_run};

/// A text, and the position of the reader.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
    repeated: Option<Repeated>,
}

/// A list or object that is not closed yet.
enum Open<'a> {
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>, Cow<'a, str>),
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of the text.
    pub(super) fn new(text: &'a str) -> Self {
        Reader { text, at: 0, values: 0, repeated: None }
    }

    /// Parses a text that is exactly one value.
    pub(super) fn document(self) -> Result<Value<'a>, Error> {
        self.document_noting().map(|(value, _)| value)
    }

    /// Parses a text that is exactly one value; returns it with a key that an object has more than once.
    pub(super) fn document_noting(mut self) -> Result<(Value<'a>, Option<Repeated>), Error> {
        let value = self.value()?;
        self.blanks();
        if self.at < self.text.len() {
            return Err(Error::Syntax("the end of the text", self.at));
        }
        Ok((value, self.repeated))
    }

    /// Parses the value at the start of the text; returns it with the number of bytes that it takes, and a key that an
    /// object has more than once.
    pub(super) fn prefix(mut self) -> Result<(Value<'a>, usize, Option<Repeated>), Error> {
        let value = self.value()?;
        Ok((value, self.at, self.repeated))
    }

    /// Reports whether the whole text is a number.
    pub(super) fn reads_number(mut self) -> bool {
        self.number().is_ok() && self.at == self.text.len()
    }

    /// Reads one value with an explicit stack, so that depth costs memory but no call stack.
    fn value(&mut self) -> Result<Value<'a>, Error> {
        let mut stack: Vec<Open<'a>> = Vec::new();
        loop {
            self.blanks();
            self.values += 1;
            if self.values > MAX_VALUES {
                return Err(Error::TooManyValues);
            }
            let mut value = match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.blanks();
                    if self.accept(b"}") {
                        Value::Object(Object::new())
                    } else {
                        self.push(&stack)?;
                        let key = self.key()?;
                        stack.push(Open::Object(Vec::new(), key));
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    self.blanks();
                    if self.accept(b"]") {
                        Value::Array(Vec::new())
                    } else {
                        self.push(&stack)?;
                        stack.push(Open::Array(Vec::new()));
                        continue;
                    }
                }
                Some(b'"') => Value::String(self.string()?),
                Some(b't') => self.word("true", Value::Bool(true))?,
                Some(b'f') => self.word("false", Value::Bool(false))?,
                Some(b'n') => self.word("null", Value::Null)?,
                Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
                _ => return Err(Error::Syntax("a JSON value", self.at)),
            };
            // The value is complete: add it to its container, and close the containers that end here.
            loop {
                let Some(open) = stack.last_mut() else { return Ok(value) };
                self.blanks();
                match (open, self.peek()) {
                    (Open::Array(items), Some(b',')) => {
                        self.at += 1;
                        items.push(value);
                        break;
                    }
                    (Open::Object(members, key), Some(b',')) => {
                        self.at += 1;
                        self.blanks();
                        members.push((std::mem::take(key), value));
                        *key = self.key()?;
                        break;
                    }
                    (Open::Array(_), Some(b']')) | (Open::Object(..), Some(b'}')) => {
                        self.at += 1;
                        value = match stack.pop().expect("the stack has a last element") {
                            Open::Array(mut items) => {
                                items.push(value);
                                Value::Array(items)
                            }
                            Open::Object(mut members, key) => {
                                members.push((key, value));
                                Value::Object(Object::united(members, &mut self.repeated))
                            }
                        };
                    }
                    (Open::Array(_), _) => return Err(Error::Syntax("`,` or `]`", self.at)),
                    (Open::Object(..), _) => return Err(Error::Syntax("`,` or `}`", self.at)),
                }
            }
        }
    }

    /// Returns an error if there are too many levels.
    fn push(&self, stack: &[Open<'a>]) -> Result<(), Error> {
        if stack.len() < MAX_DEPTH { Ok(()) } else { Err(Error::TooDeep) }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, Error> {
        if self.peek() != Some(b'"') {
            return Err(Error::Syntax("a quoted key", self.at));
        }
        let key = self.string()?;
        self.blanks();
        if self.accept(b":") { Ok(key) } else { Err(Error::Syntax("`:`", self.at)) }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, Error> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(Error::Syntax(word, self.at))
        }
    }

    fn number(&mut self) -> Result<Cow<'a, str>, Error> {
        let start = self.at;
        self.accept(b"-");
        if !self.accept(b"0") {
            self.digits()?;
        }
        if self.accept(b".") {
            self.digits()?;
        }
        if self.accept(b"eE") {
            self.accept(b"+-");
            self.digits()?;
        }
        Ok(Cow::Borrowed(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Error::Syntax("a digit", self.at)) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        let inside = &self.text[self.at + 1..];
        let plain = plain_run(inside.as_bytes());
        if inside.as_bytes().get(plain) == Some(&b'"') {
            self.at += plain + 2;
            return Ok(Cow::Borrowed(&inside[..plain]));
        }
        let (text, used) = unescape(inside).map_err(|at| Error::Syntax("the end of a string", self.at + 1 + at))?;
        self.at += 1 + used;
        Ok(Cow::Owned(text))
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips the next byte if it is one of these.
    fn accept(&mut self, bytes: &[u8]) -> bool {
        let found = self.peek().is_some_and(|next| bytes.contains(&next));
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// The initial capacity for a string with escapes; longer ones grow.
const USUAL_LENGTH: usize = 64;

/// Unescapes the inside of a string through its closing quote; returns the text and the number of bytes read, or the
/// position of the error. A lone surrogate becomes U+FFFD, because a Rust string cannot contain it.
fn unescape(text: &str) -> Result<(String, usize), usize> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len().min(USUAL_LENGTH));
    let mut plain = 0;
    let mut at = 0;
    loop {
        at += plain_run(&bytes[at..]);
        match bytes.get(at) {
            Some(b'"') => {
                out.push_str(&text[plain..at]);
                return Ok((out, at + 1));
            }
            Some(b'\\') => {
                out.push_str(&text[plain..at]);
                let (letter, used) = escape(&bytes[at + 1..]).ok_or(at)?;
                out.push(letter);
                at += 1 + used;
                plain = at;
            }
            // A control character, or the end of the text.
            _ => return Err(at),
        }
    }
}

/// Reads an escape after its backslash; returns the character and the number of bytes read.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let letter = match bytes.first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let high = hex4(bytes.get(1..5)?)?;
            if let (0xd800..=0xdbff, Some(b"\\u")) = (high, bytes.get(5..7)) {
                let low = hex4(bytes.get(7..11)?)?;
                if let 0xdc00..=0xdfff = low {
                    let letter = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                    return Some((letter?, 11));
                }
            }
            return Some((char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 5));
        }
        _ => return None,
    };
    Some((letter, 1))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, &digit| Some(sum * 16 + char::from(digit).to_digit(16)?))
}
