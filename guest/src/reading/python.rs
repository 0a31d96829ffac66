//! Calls as Python writes them: `f(a=1)`, lists of calls, and lines and blocks of them.

use super::cursor::{Cursor, Read, Stop, is_word};
use crate::json::{Repeated, Value};
use std::borrow::Cow;

/// A parser of calls and their arguments.
pub(super) struct Python<'t> {
    pub cursor: Cursor<'t>,
    /// The number of values that were read.
    pub values: usize,
    /// A key that a dictionary of the current call has more than once.
    pub repeated: Option<Repeated>,
    /// Whether the call stands in a list, whose `]` also ends a call without `)`.
    in_list: bool,
}

/// A call as it is written, before its positions have names.
pub(super) struct PythonCall<'t> {
    pub name: &'t str,
    pub positions: Vec<Value<'t>>,
    pub keywords: Vec<(Cow<'t, str>, Value<'t>)>,
    pub start: usize,
    pub end: usize,
    /// A key that a dictionary has more than once.
    pub repeated: Option<Repeated>,
}

impl<'t> Python<'t> {
    /// Begins at this byte of a text.
    pub(super) fn new(text: &'t str, at: usize) -> Self {
        Python { cursor: Cursor::new(text, at), values: 0, repeated: None, in_list: false }
    }

    /// Reads the statements up to the end of a block; stops if one of them is no call.
    pub(super) fn block(&mut self) -> Read<Vec<PythonCall<'t>>> {
        let mut calls = Vec::new();
        loop {
            self.cursor.blanks_and_comments(false);
            if self.cursor.at_end() {
                return Ok(calls);
            }
            self.line(&mut calls)?;
        }
    }

    /// Reads the statements of a line, separated by `;` or `,`; stops if anything else is on the line. A comma also joins
    /// lines.
    pub(super) fn line(&mut self, calls: &mut Vec<PythonCall<'t>>) -> Read<()> {
        loop {
            self.statement(calls)?;
            // In Markdown, a call often stands between backticks or asterisks.
            if !self.cursor.sees("```") {
                self.cursor.take(|byte| matches!(byte, b'`' | b'*'));
            }
            self.cursor.spaces();
            let comma = self.cursor.accept(",");
            let separator = comma || self.cursor.accept(";");
            self.cursor.spaces();
            if matches!(self.cursor.peek(), Some(b'\n' | b'#')) {
                if !comma {
                    return Ok(());
                }
                self.cursor.blanks_and_comments(false);
            }
            if self.cursor.at_end() {
                return Ok(());
            }
            if !separator {
                return self.cursor.stop();
            }
        }
    }

    /// Reads a call, a list of calls, the assignment of one, or one that is awaited or printed.
    fn statement(&mut self, calls: &mut Vec<PythonCall<'t>>) -> Read<()> {
        let start = self.cursor.at;
        self.cursor.take(is_word);
        self.cursor.spaces();
        let is_target = self.cursor.at > start && self.cursor.accept("=") && !self.cursor.sees("=");
        if !is_target {
            self.cursor.at = start;
        }
        self.cursor.spaces();
        self.skip_await();
        if self.cursor.peek() == Some(b'[') {
            return self.calls(calls);
        }
        // To print is no tool of anybody; what is printed can be a call.
        let is_printed = self.cursor.accept("print(");
        if is_printed {
            self.cursor.blanks_and_comments(false);
            self.skip_await();
        }
        calls.push(self.call()?);
        if is_printed {
            self.cursor.blanks_and_comments(false);
            self.cursor.expect(")")?;
        }
        Ok(())
    }

    fn skip_await(&mut self) {
        if self.cursor.peek() == Some(b'a') && self.cursor.accept("await ") {
            self.cursor.spaces();
        }
    }

    /// Reads a list of calls.
    pub(super) fn calls(&mut self, calls: &mut Vec<PythonCall<'t>>) -> Read<()> {
        self.cursor.expect("[")?;
        self.in_list = true;
        loop {
            self.cursor.blanks_and_comments(false);
            self.skip_await();
            calls.push(self.call()?);
            self.cursor.blanks_and_comments(false);
            let comma = self.cursor.accept(",");
            self.cursor.blanks_and_comments(false);
            // Every call of the list is complete, so a missing bracket at the end changes nothing.
            if self.cursor.accept("]") || self.cursor.at_end() {
                break;
            }
            if !comma {
                return self.cursor.stop();
            }
        }
        self.in_list = false;
        self.stop_if_computed()
    }

    /// Stops before a call, an index or a member of what was read, which would have to be computed; `[f()](link)` is a
    /// link.
    fn stop_if_computed(&self) -> Read<()> {
        match self.cursor.rest().as_bytes() {
            [b'(' | b'[', ..] => self.cursor.stop(),
            [b'.', next, ..] if is_word(*next) => self.cursor.stop(),
            _ => Ok(()),
        }
    }

    /// Reads a call whose arguments are values.
    pub(super) fn call(&mut self) -> Read<PythonCall<'t>> {
        let start = self.cursor.at;
        let name = name(&mut self.cursor);
        if name.is_empty() || KEYWORDS.contains(&name) {
            self.cursor.at = start;
            return self.cursor.stop();
        }
        self.cursor.expect("(")?;
        let (positions, keywords) = (Vec::new(), Vec::new());
        let mut call = PythonCall { name, positions, keywords, start, end: 0, repeated: None };
        self.repeated = None;
        loop {
            self.cursor.blanks_and_comments(false);
            if self.ends_call() {
                break;
            }
            self.argument(&mut call)?;
            self.cursor.blanks_and_comments(false);
            if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Some(b')' | b']')) {
                return self.cursor.stop();
            }
        }
        call.end = self.cursor.at;
        call.repeated = self.repeated.take();
        self.stop_if_computed()?;
        Ok(call)
    }

    fn ends_call(&mut self) -> bool {
        self.cursor.accept(")") || self.in_list && self.cursor.peek() == Some(b']')
    }

    /// Reads `value`, `key=value`, `key: value` or `**{…}`.
    fn argument(&mut self, call: &mut PythonCall<'t>) -> Read<()> {
        if self.cursor.peek() == Some(b'*') && self.cursor.accept("**") {
            let Value::Object(members) = self.value(1)? else { return self.cursor.stop() };
            call.keywords.extend(members);
            return Ok(());
        }
        let start = self.cursor.at;
        let key = if self.sees_string() {
            self.strings()?
        } else {
            cleaned(self.cursor.take(|byte| is_word(byte) || matches!(byte, b'\\' | b'-' | 0x80..)))
        };
        self.cursor.spaces();
        let is_key = !key.is_empty() && !self.cursor.sees("==") && (self.cursor.accept("=") || self.cursor.accept(":"));
        if is_key {
            self.cursor.blanks_and_comments(false);
            let value = self.value(1)?;
            call.keywords.push((key, value));
            return Ok(());
        }
        self.cursor.at = start;
        if !call.keywords.is_empty() {
            return Err(Stop::NotHere(start));
        }
        let value = self.value(1)?;
        call.positions.push(value);
        Ok(())
    }
}

/// Takes the name of a function, which can have dots and, as names of tools do, dashes and slashes.
pub(super) fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if !cursor.peek().is_some_and(starts) {
        return "";
    }
    cursor.take(|byte| is_word(byte) || matches!(byte, b'.' | b'-' | b'/' | b'\\'))
}

/// Returns a name without the backslashes that Markdown puts before underscores.
#[inline(never)]
pub(super) fn cleaned(name: &str) -> Cow<'_, str> {
    if !name.as_bytes().windows(2).any(|pair| pair == b"\\_") {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter == '_' && out.ends_with('\\') {
            out.pop();
        }
        out.push(letter);
    }
    Cow::Owned(out)
}

/// Words that look like a call before `(`.
const KEYWORDS: [&str; 14] =
    ["and", "assert", "class", "def", "elif", "except", "for", "if", "in", "not", "or", "print", "return", "while"];
