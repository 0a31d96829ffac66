//! Pairs of `key: value` or `key=value`, separated by commas or newlines, as people write them.

use super::Refusal;
use super::draft::{Draft, Members};
use crate::json::{self, MAX_VALUES, Value};
use crate::schema::measure;
use std::borrow::Cow;

/// Reads a text that is nothing but pairs; `None` where one part of it is none.
pub fn read(text: &str) -> Result<Option<Members<'_>>, Refusal> {
    let mut pairs = Vec::new();
    let mut values = 1;
    for part in (Parts { text, at: 0 }) {
        let Ok(part) = part else { return Ok(None) };
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let Some((key, text)) = split(part) else { return Ok(None) };
        let value = value(text)?;
        values += if let Draft::Word(_, value) = &value { measure(value).0 } else { 1 };
        if values > MAX_VALUES {
            return Err(Refusal::TooManyValues(MAX_VALUES as u64));
        }
        pairs.push((Cow::Borrowed(key), value));
    }
    Ok(Some(pairs).filter(|pairs| !pairs.is_empty()))
}

/// The key and the value of one pair.
fn split(part: &str) -> Option<(&str, &str)> {
    let bytes = part.as_bytes();
    // A key may hold neither separator, so that `://` can only stand before the first one that splits.
    let at = bytes.iter().position(|byte| matches!(byte, b':' | b'='))?;
    if part[at..].starts_with("://") {
        return None;
    }
    let key = part[..at].trim_end();
    is_key(key).then(|| (key, part[at + 1..].trim()))
}

/// Whether a text is `[A-Za-z_][\w.-]*`, all ASCII.
fn is_key(text: &str) -> bool {
    let starts = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    text.as_bytes().first().is_some_and(starts) && text.bytes().all(goes_on)
}

fn value(text: &str) -> Result<Draft<'_>, Refusal> {
    let quote = match text.as_bytes() {
        [] => return Ok(Draft::Text(Cow::Borrowed(""))),
        [b'{' | b'[', ..] => {
            return match json::parse(text) {
                Ok(value) => Ok(Draft::Word(text.into(), value)),
                Err(error) => Refusal::of(&error).map_or_else(|| Ok(Draft::word(text.into())), Err),
            };
        }
        [quote @ (b'"' | b'\''), .., _] => *quote,
        _ => return Ok(Draft::word(text.into())),
    };
    let inside = &text[1..];
    Ok(match end_of_quote(inside, quote) {
        Some(end) if end + 1 == inside.len() => Draft::Text(unquoted(text, quote)),
        // Text that only begins with a quote, such as `"a" or "b"`, is no quoted value.
        _ => Draft::word(text.into()),
    })
}

/// The content of a value in quotes; a backslash escapes in double quotes alone.
fn unquoted(text: &str, quote: u8) -> Cow<'_, str> {
    let inside = &text[1..text.len() - 1];
    if quote == b'\'' || !inside.contains('\\') {
        return inside.into();
    }
    if let Ok(Value::String(content)) = json::parse(text) {
        return content;
    }
    // Not a string of JSON, because of a raw newline or a backslash that escapes nothing: read what can be read.
    let mut content = String::with_capacity(inside.len());
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        let escaped = match (letter, letters.as_str().chars().next()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some(quoted @ ('"' | '\\'))) => quoted,
            _ => {
                content.push(letter);
                continue;
            }
        };
        content.push(escaped);
        letters.next();
    }
    content.into()
}

/// Where the quote closes, in the text after it has opened.
fn end_of_quote(text: &str, quote: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The parts between separators that stand outside of quotes and brackets.
struct Parts<'a> {
    text: &'a str,
    at: usize,
}

/// A quote or bracket was left open, and there are separators behind it whose meaning is therefore unknown.
struct LeftOpen;

impl<'a> Iterator for Parts<'a> {
    type Item = Result<&'a str, LeftOpen>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        if start >= bytes.len() {
            return None;
        }
        let mut depth = 0usize;
        let mut quote_open = false;
        let mut hides_separator = false;
        let mut before = b',';
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                // The quote in `don't` opens nothing; one at the start of a value does.
                b'"' | b'\'' if opens_quote(before) => {
                    let inside = &self.text[self.at + 1..];
                    let end = end_of_quote(inside, byte);
                    quote_open = end.is_none();
                    hides_separator |= quote_open && inside.contains([',', '\n']);
                    self.at += 1 + end.unwrap_or(inside.len());
                }
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    hides_separator &= depth > 0;
                }
                b',' | b'\n' if depth == 0 => {
                    let part = &self.text[start..self.at];
                    self.at += 1;
                    return Some(Ok(part));
                }
                b',' | b'\n' => hides_separator = true,
                _ => {}
            }
            before = byte;
            self.at += 1;
        }
        self.at = bytes.len();
        let left_open = depth > 0 || quote_open;
        Some(if left_open && hides_separator { Err(LeftOpen) } else { Ok(&self.text[start..]) })
    }
}

fn opens_quote(before: u8) -> bool {
    matches!(before, b',' | b':' | b'=' | b'(' | b'[' | b'{') || before.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<String> {
        read(text).unwrap().map(|pairs| Draft::Map(pairs).settle(None).to_json())
    }

    #[test]
    fn pairs_are_read_as_people_mean_them() {
        for (text, expected) in [
            ("namespace: default", r#"{"namespace":"default"}"#),
            ("namespace=default", r#"{"namespace":"default"}"#),
            ("namespace: default, limit: 10", r#"{"namespace":"default","limit":10}"#),
            ("namespace: default\r\nlimit: 10", r#"{"namespace":"default","limit":10}"#),
            ("namespace: default, verbose=true\nlimit: 5,\n", r#"{"namespace":"default","verbose":true,"limit":5}"#),
            ("url=http://x:80/", r#"{"url":"http://x:80/"}"#),
            ("url: http://x:80/?a=b", r#"{"url":"http://x:80/?a=b"}"#),
            ("labels: app=nginx", r#"{"labels":"app=nginx"}"#),
            (r#"query: up{a="b",c="d"}"#, r#"{"query":"up{a=\"b\",c=\"d\"}"}"#),
            (r#"query: f("x)", 1), n: 2"#, r#"{"query":"f(\"x)\", 1)","n":2}"#),
            ("time: 12:30", r#"{"time":"12:30"}"#),
            ("a.b-c_1 = x", r#"{"a.b-c_1":"x"}"#),
            ("a:", r#"{"a":""}"#),
            ("a: , b: 1", r#"{"a":"","b":1}"#),
            (r#"a: "1, b: 2", c: '3'"#, r#"{"a":"1, b: 2","c":"3"}"#),
            (r#"a: "x\"y\n\u0041""#, r#"{"a":"x\"y\nA"}"#),
            ("a: \"C:\\dir\\\"", r#"{"a":"\"C:\\dir\\\""}"#),
            ("a: \"\\d\\n\"", r#"{"a":"\\d\n"}"#),
            (r"a: 'x\'", r#"{"a":"x\\"}"#),
            ("a: don't, b: won't", r#"{"a":"don't","b":"won't"}"#),
            (r#"a: "x" or "y""#, r#"{"a":"\"x\" or \"y\""}"#),
            ("a: [1,2], b: {\"c\":[]}", r#"{"a":[1,2],"b":{"c":[]}}"#),
            ("a: [x, y], b: 1", r#"{"a":"[x, y]","b":1}"#),
            ("a: sad :-(", r#"{"a":"sad :-("}"#),
            ("a: x), b: 1", r#"{"a":"x)","b":1}"#),
            ("a: 5\"", r#"{"a":"5\""}"#),
            ("a: it is \"", r#"{"a":"it is \""}"#),
            ("a: 1, a: 2", r#"{"a":2}"#),
            ("a: \"", r#"{"a":"\""}"#),
        ] {
            assert_eq!(json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn one_part_that_is_no_pair_rejects_them_all() {
        for text in [
            "default",
            "get all pods in the default namespace",
            "https://e.com/x",
            "https://e.com/x?a=b",
            "note: a, b",
            "a: 1\nand then: 2",
            "12:30",
            "é: 1",
            ": 1",
            ",",
            "a: :-(, b: 1",
            "a: 'tis, b: 1",
            "a: {x, b: 1",
            "\0",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
    }

    #[test]
    fn limits_hold() {
        let deep = format!("a: {}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(read(&deep).unwrap_err(), Refusal::TooDeep(json::MAX_DEPTH as u64));
        let many = Refusal::TooManyValues(MAX_VALUES as u64);
        assert_eq!(read(&"a=1,".repeat(MAX_VALUES)).unwrap_err(), many);
        assert_eq!(read(&format!("a=[{}0],", "0,".repeat(100_000)).repeat(3)).unwrap_err(), many);
    }
}
