//! Pairs of `key: value` or `key=value`, separated by commas or newlines, as people write them.

use super::Refusal;
use super::draft::{Draft, Members};
use crate::json::{self, MAX_VALUES, Value};
use crate::schema::{Kinds, Schema, measure};
use std::borrow::Cow;

/// Pairs that were read, and whether a value took in text after a separator.
#[derive(Debug)]
pub(super) struct Pairs<'a> {
    pub members: Members<'a>,
    pub joined: bool,
}

/// Reads a text that consists of pairs; returns `None` if any part is not a pair.
///
/// If the schema knows the first key, a string value takes in such a part. It also takes in a pair whose key the schema
/// forbids, unless the key looks like a misspelt property: the author should correct that.
pub(super) fn read<'a>(text: &'a str, schema: Option<Schema<'_>>) -> Result<Option<Pairs<'a>>, Refusal> {
    let schema = schema.filter(|schema| split(text).is_some_and(|(key, _)| schema.names(key)));
    let closed = schema.is_some_and(Schema::is_closed);
    let mut found: Vec<(&str, usize, usize)> = Vec::new();
    let mut joined = false;
    // Whether the last value is a string, and a quoted one; computed on demand, because a long text has many
    // separators.
    let mut last = None;
    let mut parts = Parts { text, at: 0, plain: false };
    loop {
        let start = parts.at;
        let part = match parts.next() {
            Some(Ok(part)) => part,
            Some(Err(LeftOpen)) if schema.is_some() => {
                (parts.at, parts.plain) = (start, true);
                continue;
            }
            Some(Err(LeftOpen)) => return Ok(None),
            None => break,
        };
        let end = start + part.trim_end().len();
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let pair = split(part);
        if let (Some(schema), Some((key, from, to))) = (schema, found.last_mut())
            && pair.is_none_or(|(other, _)| closed && !schema.names(other) && !schema.resembles(other))
        {
            let before = || (is_text(schema, key), is_quoted(text[*from..*to].trim()));
            let (text, quoted) = *last.get_or_insert_with(before);
            // A pair after a closing quote does not belong to the quoted text.
            if text && (pair.is_none() || !quoted) {
                (*to, last, joined) = (end, Some((true, false)), true);
                continue;
            }
        }
        let Some((key, value)) = pair else { return Ok(None) };
        if found.len() + 1 >= MAX_VALUES {
            return Err(Refusal::TooManyValues(MAX_VALUES as u64));
        }
        found.push((key, end - value.len(), end));
        last = None;
    }
    let mut values = 1;
    let mut members = Vec::with_capacity(found.len());
    for (key, from, to) in found {
        let value = value(text[from..to].trim())?;
        values += if let Draft::Word(_, value) = &value { measure(value).0 } else { 1 };
        if values > MAX_VALUES {
            return Err(Refusal::TooManyValues(MAX_VALUES as u64));
        }
        members.push((Cow::Borrowed(key), value));
    }
    Ok((!members.is_empty()).then_some(Pairs { members, joined }))
}

/// Reads a text that begins with this key as one pair, whatever its value contains.
pub(super) fn sole<'a>(text: &'a str, key: &str) -> Result<Option<Draft<'a>>, Refusal> {
    let rest = text.strip_prefix(key).map(str::trim_start).filter(|rest| !rest.starts_with("://"));
    rest.and_then(|rest| rest.strip_prefix([':', '='])).map(|rest| value(rest.trim())).transpose()
}

/// Reports whether the value of a key is a string and cannot be a list or an object.
fn is_text(schema: Schema<'_>, key: &str) -> bool {
    let kinds = schema.property(key).map_or(Kinds::NONE, Schema::kinds);
    kinds.has(Kinds::STRING) && !kinds.has(Kinds::ARRAY) && !kinds.has(Kinds::OBJECT)
}

/// Splits a pair into its key and its value.
fn split(part: &str) -> Option<(&str, &str)> {
    let bytes = part.as_bytes();
    // A key contains neither separator, so `://` can only follow the scheme of a URL, which is not a key.
    let at = bytes.iter().position(|byte| matches!(byte, b':' | b'='))?;
    if part[at..].starts_with("://") {
        return None;
    }
    let key = part[..at].trim_end();
    is_key(key).then(|| (key, part[at + 1..].trim()))
}

/// Reports whether a text is `[A-Za-z_][\w.-]*`, all ASCII.
fn is_key(text: &str) -> bool {
    let starts = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    text.as_bytes().first().is_some_and(starts) && text.bytes().all(goes_on)
}

fn value(text: &str) -> Result<Draft<'_>, Refusal> {
    match text.as_bytes() {
        [] => Ok(Draft::Text(Cow::Borrowed(""))),
        [b'{' | b'[', ..] => match json::parse(text) {
            Ok(value) => Ok(Draft::Word(text.into(), value)),
            Err(error) => Refusal::of(&error).map_or_else(|| Ok(Draft::word(text.into())), Err),
        },
        [quote, ..] if is_quoted(text) => Ok(Draft::Text(unquoted(text, *quote))),
        _ => Ok(Draft::word(text.into())),
    }
}

/// Reports whether a value is one quoted text; `"a" or "b"` is not.
fn is_quoted(text: &str) -> bool {
    match text.as_bytes() {
        [quote @ (b'"' | b'\''), .., _] => end_of_quote(&text[1..], *quote) == Some(text.len() - 2),
        _ => false,
    }
}

/// Returns the content of a quoted value; backslashes escape only in double quotes.
fn unquoted(text: &str, quote: u8) -> Cow<'_, str> {
    let inside = &text[1..text.len() - 1];
    if quote == b'\'' || !inside.contains('\\') {
        return inside.into();
    }
    if let Ok(Value::String(content)) = json::parse(text) {
        return content;
    }
    // Not a JSON string, because of a raw newline or an invalid escape: read what is readable.
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

/// Returns the position of the closing quote, given the text after the opening one.
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

/// The parts of a text between separators outside quotes and brackets.
struct Parts<'a> {
    text: &'a str,
    at: usize,
    /// A quote or bracket was never closed: treat both as letters from here on, and split at every separator.
    plain: bool,
}

/// A quote or bracket was never closed, so the separators after it are ambiguous.
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
                b'"' | b'\'' | b'(' | b'[' | b'{' if self.plain => {}
                // The quote in `don't` opens nothing; a quote at the start of a value does.
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
        read(text, None).unwrap().map(|pairs| Draft::Map(pairs.members).settle(None).to_json())
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
        assert_eq!(read(&deep, None).unwrap_err(), Refusal::TooDeep(json::MAX_DEPTH as u64));
        let many = Refusal::TooManyValues(MAX_VALUES as u64);
        assert_eq!(read(&"a=1,".repeat(MAX_VALUES), None).unwrap_err(), many);
        assert_eq!(read(&format!("a=[{}0],", "0,".repeat(100_000)).repeat(3), None).unwrap_err(), many);
    }
}
