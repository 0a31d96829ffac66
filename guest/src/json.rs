//! JSON as a small tree that loses nothing: key order and every digit of every number are kept.

use std::borrow::Cow;

/// The most values that one text may hold.
pub const MAX_VALUES: usize = 250_000;
/// The deepest nesting that one text may have.
pub const MAX_DEPTH: usize = 256;

/// One JSON value, borrowing from the text it was read from where it can.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as its digits were written.
    Number(Cow<'a, str>),
    /// A string, without its quotes and escapes.
    String(Cow<'a, str>),
    /// A list of values.
    Array(Vec<Value<'a>>),
    /// Members in the order in which they were written.
    Object(Object<'a>),
}

/// The members of an object, in order, each key once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// Why a text is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not JSON: what was expected, and the byte where it is missing.
    Syntax(&'static str, usize),
    /// It holds more than [`MAX_VALUES`] values.
    TooManyValues,
    /// It is nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Syntax(expected, at) => write!(f, "expected {expected} at byte {at}"),
            Error::TooManyValues => write!(f, "more than {MAX_VALUES} JSON values"),
            Error::TooDeep => write!(f, "nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

/// Reads one value that is the whole text.
pub fn parse(text: &str) -> Result<Value<'_>, Error> {
    let mut reader = Reader { text, at: 0, values: 0 };
    let value = reader.value()?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(Error::Syntax("the end of the text", reader.at));
    }
    Ok(value)
}

/// Whether the text is a number of JSON's grammar.
pub fn is_number(text: &str) -> bool {
    let mut reader = Reader { text, at: 0, values: 0 };
    reader.number().is_ok() && reader.at == text.len()
}

impl<'a> Value<'a> {
    /// A string value.
    pub fn string(text: impl Into<Cow<'a, str>>) -> Self {
        Value::String(text.into())
    }

    /// The member of this name, where this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_object()?.get(key)
    }

    /// The text, where this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth, where this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The items, where this is a list.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, where this is an object.
    pub fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// What JSON Schema calls this kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(digits) if is_integer(digits) => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// The same value, owning all its text.
    pub fn into_owned(self) -> Value<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        match self {
            Value::Null => Value::Null,
            Value::Bool(truth) => Value::Bool(truth),
            Value::Number(digits) => Value::Number(own(digits)),
            Value::String(text) => Value::String(own(text)),
            Value::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Value::Object(Object(members)) => {
                Value::Object(Object(members.into_iter().map(|(key, value)| (own(key), value.into_owned())).collect()))
            }
        }
    }

    /// The value as compact JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the value as compact JSON.
    pub fn write(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(digits) => out.push_str(digits),
            Value::String(text) => write_string(text, out),
            Value::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Value::Object(Object(members)) => {
                out.push('{');
                for (n, (key, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Whether a number has no fraction: `5`, `5.0` and `5e3`, but not `5.5` or `5e-3`.
fn is_integer(digits: &str) -> bool {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    !exponent.starts_with('-') && fraction.bytes().all(|digit| digit == b'0')
}

impl<'a> Object<'a> {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The member of this name.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The member of this name, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets a member: in its old place if there is one, else at the end.
    pub fn set(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(old) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// The members in order, their values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value<'a>)> {
        self.0.iter_mut().map(|(key, value)| (&**key, value))
    }
}

/// Builds an object; of members with one key the last wins, in the place of the first.
impl<'a> FromIterator<(Cow<'a, str>, Value<'a>)> for Object<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Value<'a>)>>(members: I) -> Self {
        let mut members = members.into_iter().collect();
        unite(&mut members);
        Object(members)
    }
}

/// Makes one member of all that have the same key.
fn unite<'a>(members: &mut Vec<(Cow<'a, str>, Value<'a>)>) {
    /// Up to here, comparing each key with each is quicker than sorting them.
    const FEW: usize = 12;
    if members.len() <= FEW && (1..members.len()).all(|n| members[..n].iter().all(|(key, _)| *key != members[n].0)) {
        return;
    }
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|&a, &b| members[a].0.cmp(&members[b].0));
    let twins: Vec<(usize, usize)> =
        order.windows(2).map(|pair| (pair[0], pair[1])).filter(|&(a, b)| members[a].0 == members[b].0).collect();
    if twins.is_empty() {
        return;
    }
    // The sort is stable: walking the twins backwards carries the last value to the first place.
    for &(earlier, later) in twins.iter().rev() {
        members[earlier].1 = std::mem::replace(&mut members[later].1, Value::Null);
    }
    let mut extra = vec![false; members.len()];
    twins.iter().for_each(|&(_, later)| extra[later] = true);
    let mut extra = extra.into_iter();
    members.retain(|_| !extra.next().unwrap_or(false));
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Appends a string with its quotes and escapes.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x00..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        plain = at + 1;
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

/// A list or object that has been opened and not yet closed.
enum Open<'a> {
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>, Cow<'a, str>),
}

impl<'a> Reader<'a> {
    /// Reads one value, with a stack of its own so that depth costs memory and never the call stack.
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
                    if self.peek() == Some(b'}') {
                        self.at += 1;
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
                    if self.peek() == Some(b']') {
                        self.at += 1;
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
            // The value is complete: put it where it belongs and close what it closes.
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
                                unite(&mut members);
                                Value::Object(Object(members))
                            }
                        };
                    }
                    (Open::Array(_), _) => return Err(Error::Syntax("`,` or `]`", self.at)),
                    (Open::Object(..), _) => return Err(Error::Syntax("`,` or `}`", self.at)),
                }
            }
        }
    }

    /// Refuses one more level where there are too many.
    fn push(&self, stack: &[Open<'a>]) -> Result<(), Error> {
        if stack.len() < MAX_DEPTH { Ok(()) } else { Err(Error::TooDeep) }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, Error> {
        if self.peek() != Some(b'"') {
            return Err(Error::Syntax("a quoted key", self.at));
        }
        let key = self.string()?;
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(Error::Syntax("`:`", self.at));
        }
        self.at += 1;
        Ok(key)
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
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
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
        let (text, used) =
            unescape(&self.text[self.at + 1..]).map_err(|at| Error::Syntax("the end of a string", self.at + 1 + at))?;
        self.at += 1 + used;
        Ok(text)
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// Reads the inside of a string up to and with its closing quote; gives the text and how many bytes were read,
/// or where it broke off. A lone surrogate becomes U+FFFD, since a Rust string cannot hold it.
fn unescape(text: &str) -> Result<(Cow<'_, str>, usize), usize> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut plain = 0;
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(b'"') => {
                if plain == 0 {
                    return Ok((Cow::Borrowed(&text[..at]), at + 1));
                }
                out.push_str(&text[plain..at]);
                return Ok((Cow::Owned(out), at + 1));
            }
            Some(b'\\') => {
                out.push_str(&text[plain..at]);
                let (letter, used) = escape(&bytes[at + 1..]).ok_or(at)?;
                out.push(letter);
                at += 1 + used;
                plain = at;
            }
            Some(0x00..=0x1f) | None => return Err(at),
            Some(_) => at += 1,
        }
    }
}

/// Reads what follows a backslash: the character it stands for and how many bytes it took.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        for text in [
            r#"{"b":1,"a":[true,false,null,"x"],"c":{}}"#,
            "123456789012345678901234567890",
            "[1.10,-0,1e400,2E-7]",
            r#""a\"\\\n\r\t\u0001é😀""#,
            "[]",
        ] {
            assert_eq!(parse(text).unwrap().to_json(), text);
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "tru",
            "nul",
            "\"a",
            "\"\n\"",
            "[1 2]",
            "{\"a\" 1}",
            "1 2",
            "\"\\x\"",
            "\"\\u12\"",
            "'a'",
            "NaN",
        ] {
            assert!(matches!(parse(text), Err(Error::Syntax(..))), "{text}");
        }
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(parse(r#""\u0041\ud83d\ude00\/""#).unwrap(), Value::string("A😀/"));
        assert_eq!(parse(r#""\ud800""#).unwrap(), Value::string("\u{fffd}"));
        assert_eq!(parse(r#""\ud800\u0041""#).unwrap(), Value::string("\u{fffd}A"));
        assert_eq!(parse(r#""\udc00x""#).unwrap(), Value::string("\u{fffd}x"));
    }

    #[test]
    fn of_equal_keys_the_last_value_stands_in_the_first_place() {
        assert_eq!(parse(r#"{"a":1,"b":2,"a":3,"a":4}"#).unwrap().to_json(), r#"{"a":4,"b":2}"#);
    }

    #[test]
    fn limits_hold() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&deep(100_000)), Err(Error::TooDeep));
        let wide = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert_eq!(parse(&wide), Err(Error::TooManyValues));
    }

    #[test]
    fn kinds_are_those_of_json_schema() {
        for (text, kind) in
            [("1", "integer"), ("1.0", "integer"), ("1.5", "number"), ("1e3", "integer"), ("1e-3", "number")]
        {
            assert_eq!(parse(text).unwrap().kind(), kind, "{text}");
        }
    }
}
