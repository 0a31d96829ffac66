//! Values that Python writes as literals: numbers, words, lists, tuples and dictionaries.

use super::ReadingError;
use super::cursor::{Read, Stop, is_word};
use super::python::Python;
use crate::json::{self, MAX_DEPTH, MAX_VALUES, Object, Value};
use std::borrow::Cow;

impl<'t> Python<'t> {
    /// Reads a value that needs nothing to be computed; `depth` is the number of brackets around it.
    pub(super) fn value(&mut self, depth: usize) -> Read<Value<'t>> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(Stop::refused(ReadingError::TooManyValues(MAX_VALUES as u64)));
        }
        if depth >= MAX_DEPTH {
            return Err(Stop::refused(ReadingError::TooDeep(MAX_DEPTH as u64)));
        }
        match self.cursor.peek() {
            Some(b'[' | b'(') => self.list(depth),
            Some(b'{') => self.dictionary(depth),
            Some(b'0'..=b'9' | b'.' | b'-' | b'+') => self.number(),
            _ if self.sees_string() => Ok(Value::String(self.strings()?)),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Read<Value<'t>> {
        let start = self.cursor.at;
        let value = match self.cursor.take(|byte| is_word(byte) || byte >= 0x80) {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            _ => {
                // The value of a variable or of another call is not known here.
                self.cursor.at = start;
                return self.cursor.stop();
            }
        };
        Ok(value)
    }

    /// Reads a list, a tuple, or a value in parentheses.
    fn list(&mut self, depth: usize) -> Read<Value<'t>> {
        let is_list = self.cursor.accept("[");
        let closer = if is_list { "]" } else { ")" };
        self.cursor.at += usize::from(!is_list);
        let mut items = Vec::new();
        while self.entry(closer, items.is_empty())? {
            items.push(self.value(depth + 1)?);
            self.cursor.blanks_and_comments(false);
            if !is_list && items.len() == 1 && self.cursor.accept(")") {
                return Ok(items.remove(0));
            }
        }
        Ok(Value::Array(items))
    }

    fn dictionary(&mut self, depth: usize) -> Read<Value<'t>> {
        self.cursor.at += 1;
        let mut members: Vec<(Cow<'t, str>, Value<'t>)> = Vec::new();
        while self.entry("}", members.is_empty())? {
            let key = match self.value(depth + 1)? {
                Value::String(key) | Value::Number(key) => key,
                _ => return self.cursor.stop(),
            };
            self.cursor.blanks_and_comments(false);
            self.cursor.expect(":")?;
            self.cursor.blanks_and_comments(false);
            members.push((key, self.value(depth + 1)?));
        }
        Ok(Value::Object(Object::united(members, &mut self.repeated)))
    }

    /// Moves to the next entry; returns false at the end, after the closing bracket.
    fn entry(&mut self, closer: &str, is_first: bool) -> Read<bool> {
        self.cursor.blanks_and_comments(false);
        let comma = is_first || self.cursor.accept(",");
        self.cursor.blanks_and_comments(false);
        if self.cursor.accept(closer) {
            return Ok(false);
        }
        if comma { Ok(true) } else { self.cursor.stop() }
    }

    /// Reads a number and writes it as JSON does: `1_000` is `1000`, and `.5` is `0.5`.
    fn number(&mut self) -> Read<Value<'t>> {
        let negative = self.cursor.accept("-");
        if !negative {
            self.cursor.accept("+");
        }
        let start = self.cursor.at;
        let is_part = |byte: u8| is_word(byte) || byte == b'.' || byte >= 0x80;
        self.cursor.take(is_part);
        if matches!(self.cursor.peek(), Some(b'-' | b'+')) && self.cursor.text[..self.cursor.at].ends_with(['e', 'E']) {
            self.cursor.at += 1;
            self.cursor.take(is_part);
        }
        let written = &self.cursor.text[start..self.cursor.at];
        let mut digits = Cow::Borrowed(written);
        // `1__0` and `1_` are no numbers.
        if written.as_bytes().contains(&b'_') {
            let is_digit = |edge: Option<u8>| edge.is_some_and(|byte| byte.is_ascii_digit());
            if !written.split('_').all(|part| is_digit(part.bytes().next()) && is_digit(part.bytes().last())) {
                return self.cursor.stop();
            }
            digits = Cow::Owned(written.replace('_', ""));
        }
        if digits.starts_with('.') {
            digits.to_mut().insert(0, '0');
        }
        if digits.ends_with('.') {
            digits.to_mut().push('0');
        }
        // `1j`, `5m` and `007` are no numbers; nobody writes `0x1F` in a call.
        if !json::is_number(&digits) {
            return self.cursor.stop();
        }
        if negative {
            digits.to_mut().insert(0, '-');
        }
        Ok(Value::Number(digits))
    }
}
