//! Decides which Python calls count where they stand: alone on a line, in a list, in a fence or in a sentence.

use super::cursor::{Cursor, Read, Stop, is_word};
use super::objects::is_name;
use super::python::{Python, PythonCall, name};
use super::scan::Scan;
use super::{CallForm, ReadCall, ReadingError, Standing, UnnamedArgument};
use crate::json::Value;

/// Where Python calls stand.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// In a tag, after a mark or in a fence that says so.
    Marked(CallForm),
    /// Alone on their lines, or as the only content of a code fence.
    Alone,
    /// In a list.
    Listed,
    /// In a sentence.
    Inline,
}

impl<'t> Scan<'_, 't> {
    /// Reads the calls on a line that has nothing else.
    #[inline(never)]
    pub(super) fn line(&mut self, at: usize) -> Read<bool> {
        let mut python = Python::new(self.text, at);
        let mut calls = Vec::new();
        let read = python.line(&mut calls).map(|()| python.cursor.at);
        let Some(end) = self.attempted(at, read)? else { return Ok(false) };
        let first = self.calls.len();
        let is_accepted = self.accepted(calls, Place::Alone, end)?;
        self.note(first, at, end, false);
        Ok(is_accepted)
    }

    /// Reads a call in the middle of a line.
    #[inline(never)]
    pub(super) fn inline(&mut self, at: usize) -> Read<bool> {
        let mut cursor = Cursor::new(self.text, at);
        if self.tools.named(name(&mut cursor)).tool.is_none() {
            return Ok(false);
        }
        let mut python = Python::new(self.text, at);
        let read = python.call().map(|call| (call, python.cursor.at));
        let Some((call, end)) = self.attempted(at, read)? else { return Ok(false) };
        let first = self.calls.len();
        let is_accepted = self.accepted(vec![call], Place::Inline, end)?;
        self.note(first, at, end, false);
        Ok(is_accepted)
    }

    /// Reports whether a name here is neither a part of something longer, nor quoted, nor defined.
    pub(super) fn is_free(&self, at: usize) -> bool {
        let before = &self.text[..at];
        let joined = before.as_bytes().last().is_some_and(|byte| is_word(*byte) || b".\\/$@\"'".contains(byte));
        !joined && !DEFINITIONS.iter().any(|word| before.trim_end_matches(' ').ends_with(word))
    }

    /// Reports whether a list here is not a part of an expression.
    pub(super) fn is_list(&self, at: usize) -> bool {
        let before = &self.text[..at];
        let joined = before.as_bytes().last().is_some_and(|byte| is_word(*byte) || b".])".contains(byte));
        !joined && !before.trim_end_matches([' ', '\t']).ends_with(['=', '(', '[', '{'])
    }

    /// Enters or leaves a code fence; the calls in a fence of nothing but calls are read at once.
    #[inline(never)]
    pub(super) fn fence(&mut self) -> Read<()> {
        let mut cursor = Cursor::new(self.text, self.at);
        cursor.take(|byte| byte == b'`');
        self.depth = 0;
        self.line_is_blank = true;
        (self.in_fence, self.in_block) = (!self.in_fence, false);
        self.at = cursor.at;
        if !self.in_fence {
            return Ok(());
        }
        let language = cursor.language();
        self.at = cursor.at;
        cursor.blanks_and_comments(false);
        if !cursor.peek().is_some_and(|byte| is_word(byte) || byte == b'[') {
            return Ok(());
        }
        let place = match language {
            "tool_code" => Place::Marked(CallForm::ToolCode),
            "tool_call" | "tool_calls" | "function_call" => Place::Marked(CallForm::ToolCallTag),
            _ => Place::Alone,
        };
        let mut python = Python::new(self.text, cursor.at);
        let read = python.block().map(|calls| (calls, python.cursor.at));
        if let Some((calls, end)) = self.attempted(cursor.at, read)? {
            // The calls stand alone: they are not in a fence with something else.
            let first = self.calls.len();
            self.in_fence = false;
            self.accepted(calls, place, end)?;
            self.in_fence = true;
            self.note(first, cursor.at, end, true);
        }
        Ok(())
    }

    /// Adds Python calls if all of them count where they stand; then goes on after them.
    #[inline(never)]
    pub(super) fn accepted(&mut self, calls: Vec<PythonCall<'t>>, place: Place, behind: usize) -> Read<bool> {
        let (marked, form) = match place {
            Place::Marked(form) => (true, form),
            _ => (false, CallForm::Python),
        };
        let (mut meant, mut doubtful) = (Vec::with_capacity(calls.len()), Vec::new());
        for call in calls {
            let named = self.tools.named(call.name);
            // A program calls many functions, and a sentence has many words; only the name of a tool as it is makes one
            // of them the call of a tool.
            let is_program = place == Place::Inline || self.in_fence && !marked;
            let is_known = if is_program { named.is_exact() } else { named.tool.is_some() };
            let is_path = || is_name(&named.name) && !named.name.contains(['-', '/']);
            if !is_known && (is_program || !is_path()) {
                return Ok(false);
            }
            let (start, end) = (call.start, call.end);
            let arguments = match self.tools.bound(call, named.tool)? {
                Ok(arguments) => arguments,
                Err(_) if place == Place::Inline => return Ok(false),
                Err(position) => {
                    let error = ReadingError::Unnamed(UnnamedArgument { at: start, tool: named.name, position });
                    if marked || is_known {
                        return Err(Stop::refused(error));
                    }
                    // Beside other words, `printf(3)` is a name with a number; alone, it is a call.
                    self.unnamed.get_or_insert(error);
                    (self.at, self.line_is_blank) = (behind, false);
                    return Ok(true);
                }
            };
            let fits = |tool| !arguments.is_empty() && self.tools.fits(tool, &arguments);
            if place == Place::Inline && !named.tool.is_some_and(fits) {
                return Ok(false);
            }
            let mut json = String::with_capacity(end - start);
            Value::Object(arguments).write(&mut json);
            let standing = Standing::OwnLine;
            meant.push(ReadCall { name: named.name, arguments: json, form, standing, start, end });
            if place == Place::Alone && !is_known && !self.tools.is_empty() {
                doubtful.push(start);
            }
        }
        self.calls.append(&mut meant);
        self.doubtful.append(&mut doubtful);
        (self.at, self.line_is_blank) = (behind, false);
        Ok(true)
    }
}

impl<'t> Cursor<'t> {
    /// Skips the marks of a code fence that opens or closes here, and the white space around them.
    #[inline(never)]
    pub(super) fn fence_mark(&mut self) {
        self.blanks();
        if self.accept("```") {
            self.language();
            self.blanks();
        }
    }

    /// Takes the language after the marks of a code fence; a word that is followed by more words is content.
    pub(super) fn language(&mut self) -> &'t str {
        let start = self.at;
        self.spaces();
        let language = self.take(|byte| is_word(byte) || matches!(byte, b'-' | b'+' | b'.' | b'#'));
        self.spaces();
        if matches!(self.peek(), None | Some(b'\n' | b'{' | b'[')) {
            return language;
        }
        self.at = start;
        ""
    }
}

/// Words before a name that make it the name of a definition.
const DEFINITIONS: [&str; 6] = ["def", "class", "function", "fn", "func", "new"];
