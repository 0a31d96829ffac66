//! Calls between tags and after marks: `<tool_call>…</tool_call>`, `<|python_tag|>…`, `[TOOL_CALLS]…`.

use super::cursor::{Cursor, Read, Stop, find, is_word};
use super::known::{Parameter, unambiguous};
use super::objects::{is_name, object};
use super::python::{Python, name};
use super::scan::Scan;
use super::statements::Place;
use super::{CallForm, ReadingError};
use crate::json::Value;

/// A tag or a mark between bars.
#[derive(Clone, Copy)]
pub(super) struct Tag<'t> {
    pub kind: TagKind,
    /// The name with its prefix.
    pub full: &'t str,
    /// What stands between the name and the end of the tag.
    pub attributes: &'t str,
    /// The byte after the tag.
    pub end: usize,
}

/// What a tag does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum TagKind {
    /// `<a>`
    Open,
    /// `</a>`
    Close,
    /// `<|a|>`
    Bar,
}

impl<'t> Tag<'t> {
    /// Reads the tag at this byte.
    #[inline(never)]
    pub(super) fn read(text: &'t str, at: usize) -> Option<Tag<'t>> {
        let mut cursor = Cursor::new(text, at);
        cursor.accept("<").then_some(())?;
        let kind = if cursor.accept("/") { TagKind::Close } else { TagKind::Open };
        let start = cursor.at;
        if !cursor.accept("｜DSML｜") && kind == TagKind::Open && (cursor.accept("|") || cursor.accept("｜")) {
            let inside = cursor.take(|byte| is_word(byte) || matches!(byte, b'/' | b'-' | 0x80..));
            let full = inside.strip_suffix('｜').unwrap_or(inside);
            let closes = cursor.accept("|>") || full.len() < inside.len() && cursor.accept(">");
            return closes.then_some(Tag { kind: TagKind::Bar, full, attributes: "", end: cursor.at });
        }
        cursor.take(|byte| is_word(byte) || matches!(byte, b':' | b'-'));
        let full = &text[start..cursor.at];
        let inside = &text.as_bytes()[cursor.at..text.len().min(cursor.at + MAX_TAG)];
        let length = inside.iter().position(|byte| matches!(byte, b'<' | b'>' | b'\n'))?;
        let attributes = text.get(cursor.at..cursor.at + length)?;
        let closes = inside[length] == b'>' && !full.is_empty();
        closes.then_some(Tag { kind, full, attributes, end: cursor.at + length + 1 })
    }

    /// Returns the name without its prefix.
    pub(super) fn local(&self) -> &'t str {
        self.full.rsplit([':', '｜']).next().unwrap_or_default()
    }

    /// Reports whether the name without its prefix is one of these.
    #[inline(never)]
    pub(super) fn is(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.local().eq_ignore_ascii_case(name))
    }

    /// Reports whether this is a mark between bars with one of these names.
    #[inline(never)]
    fn is_bar(&self, names: &[&str]) -> bool {
        let letters = || self.full.chars().map(|letter| if letter == '▁' { '_' } else { letter.to_ascii_lowercase() });
        self.kind == TagKind::Bar && names.iter().any(|name| letters().eq(name.chars()))
    }
}

impl<'t> Scan<'_, 't> {
    /// Reads what a tag marks, or skips the tag.
    #[inline(never)]
    pub(super) fn tag(&mut self) -> Read<()> {
        let at = self.at;
        let Some(tag) = Tag::read(self.text, at) else {
            if self.text[at..].starts_with("<!--") {
                self.comment(at)?;
            }
            (self.at, self.has_prose, self.line_is_blank) = (at + 1, true, false);
            return Ok(());
        };
        let known = self.calls.len();
        let is_blank = std::mem::replace(&mut self.line_is_blank, false);
        self.at = tag.end;
        if tag.is(&THOUGHTS) && tag.kind != TagKind::Bar {
            return self.thought(tag, is_blank);
        }
        if tag.is(&QUOTATIONS) {
            self.quotation(tag, at, is_blank);
            return Ok(());
        }
        if tag.is_bar(&["start_thinking"]) {
            return self.skip_thought(tag.end, "<|END_THINKING|>", true);
        }
        if tag.is_bar(&["channel"]) && Cursor::new(self.text, tag.end).sees("analysis<|message|>") {
            return self.skip_thought(tag.end, "<|end|>", true);
        }
        let form = match tag.kind {
            TagKind::Open if tag.is(&["tool_code"]) => Some(CallForm::ToolCode),
            TagKind::Open if tag.is(&CALL_TAGS) => Some(CallForm::ToolCallTag),
            TagKind::Bar if tag.is_bar(&["python_tag", "python_start"]) => Some(CallForm::PythonTag),
            TagKind::Bar if tag.is_bar(&CALL_MARKS) => Some(CallForm::BarMark),
            _ => None,
        };
        let read = if let Some(form) = form {
            self.contents(tag, form, at)
        } else if tag.kind == TagKind::Open && tag.is(&["function", "invoke"]) {
            self.element(at)
        } else if tag.is_bar(&["tool_call_begin"]) {
            self.bar_call(tag, at)
        } else {
            self.has_prose |= tag.kind == TagKind::Open;
            return Ok(());
        };
        self.marked(known, at, tag.end, read)
    }

    /// Enters or leaves an element whose text is quoted from elsewhere.
    fn quotation(&mut self, tag: Tag<'t>, at: usize, is_blank: bool) {
        match tag.kind {
            TagKind::Open if self.open_quotes.len() < MAX_QUOTATIONS => {
                self.open_quotes.push((tag.local(), at, is_blank));
            }
            TagKind::Close => {
                let mut open = self.open_quotes.iter();
                if let Some(place) = open.rposition(|(name, ..)| name.eq_ignore_ascii_case(tag.local())) {
                    let (_, start, _) = self.open_quotes[place];
                    self.open_quotes.truncate(place);
                    self.quote_since(start);
                }
            }
            TagKind::Open | TagKind::Bar => {}
        }
        self.has_prose = true;
    }

    /// Notes where the comment of HTML ends that begins at this byte.
    fn comment(&mut self, at: usize) -> Read<()> {
        match find(&self.text[at..], "-->") {
            Some(length) => {
                self.comment_end = self.comment_end.max(at + length);
                Ok(())
            }
            None => self.burn(at, self.text.len()),
        }
    }

    /// Goes on after marked calls, or forgets those that were read before the attempt failed; a text that breaks off
    /// inside of one is an error.
    fn marked(&mut self, known: usize, at: usize, inside: usize, read: Read<usize>) -> Read<()> {
        match read {
            Ok(end) => {
                self.note(known, at, end, true);
                (self.at, self.depth) = (end, 0);
            }
            Err(Stop::NotHere(far)) if far >= self.text.len() && self.text[inside..].contains(['{', '(', '<']) => {
                return Err(Stop::refused(ReadingError::Incomplete(at)));
            }
            Err(Stop::NotHere(far)) => {
                self.calls.truncate(known);
                self.burn(at, far)?;
            }
            Err(refused) => return Err(refused),
        }
        Ok(())
    }

    /// Reads the calls after a tag or a mark, and what closes it; returns the byte after that.
    #[inline(never)]
    fn contents(&mut self, tag: Tag<'t>, form: CallForm, start: usize) -> Read<usize> {
        let known = self.calls.len();
        let mut cursor = Cursor::new(self.text, tag.end);
        cursor.fence_mark();
        let rest = cursor.rest();
        if rest.starts_with('{') || rest.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('{')) {
            self.sequence(&mut cursor, Some(form), 0)?;
        } else if rest.starts_with('<') {
            while let Some(next) = Tag::read(self.text, cursor.at) {
                if next.kind != TagKind::Open || !next.is(&["function", "invoke"]) {
                    break;
                }
                cursor.at = self.element(cursor.at)?;
                cursor.blanks();
            }
        } else if !self.argument_tags(&mut cursor, form)? {
            let mut python = Python::new(self.text, cursor.at);
            let calls = python.block()?;
            cursor.at = python.cursor.at;
            self.accepted(calls, Place::Marked(form), cursor.at)?;
        }
        let [first, ..] = &mut self.calls[known..] else { return cursor.stop() };
        first.start = start;
        Ok(self.closed(&mut cursor, tag))
    }

    /// Moves the end of the last call behind the mark that closes the tag, if it is here; returns that end.
    #[inline(never)]
    fn closed(&mut self, cursor: &mut Cursor<'t>, tag: Tag<'t>) -> usize {
        cursor.fence_mark();
        let closing = Tag::read(self.text, cursor.at).filter(|other| closes(tag, *other));
        let last = self.calls.last_mut().expect("a call was read");
        last.end = closing.map_or(last.end, |closing| closing.end);
        last.end
    }

    /// Reads `f<arg_key>a</arg_key><arg_value>1</arg_value>`.
    #[inline(never)]
    fn argument_tags(&mut self, cursor: &mut Cursor<'t>, form: CallForm) -> Read<bool> {
        let start = cursor.at;
        let name = name(cursor);
        cursor.blanks();
        if name.is_empty() || !(cursor.sees("<arg_key>") || cursor.sees("</")) {
            cursor.at = start;
            return Ok(false);
        }
        let mut parameters = Vec::new();
        while cursor.accept("<arg_key>") {
            let name = cursor.take_until("</arg_key>")?.trim();
            cursor.blanks();
            cursor.expect("<arg_value>")?;
            parameters.push(Parameter { name, text: cursor.take_until("</arg_value>")?, is_text: false });
            cursor.blanks();
        }
        if cursor.peek().is_none() {
            return cursor.stop();
        }
        let named = self.tools.named(name);
        let arguments = self.tools.typed(named.tool, parameters, start)?;
        self.add(named, arguments, form, start, cursor.at);
        Ok(true)
    }

    /// Reads `f<|tool_sep|>{…}<|tool_call_end|>`, or the name after `function<|tool_sep|>`.
    #[inline(never)]
    fn bar_call(&mut self, tag: Tag<'t>, start: usize) -> Read<usize> {
        let mut cursor = Cursor::new(self.text, tag.end);
        let mut name = cursor.take(|byte| byte != b'<' && byte != b'{').trim();
        match Tag::read(self.text, cursor.at) {
            Some(tag) if tag.is_bar(&["tool_sep", "tool_call_argument_begin"]) => cursor.at = tag.end,
            _ => return cursor.stop(),
        }
        if name == "function" {
            name = cursor.take(|byte| byte != b'\n' && byte != b'{').trim();
        }
        // The number of the call can follow the name: `functions.f:0`.
        let bare = name.trim_end_matches(|last: char| last.is_ascii_digit());
        let name = bare.strip_suffix(':').unwrap_or(name);
        cursor.fence_mark();
        self.call_with(name, &mut cursor, CallForm::BarMark, start)?;
        Ok(self.closed(&mut cursor, tag))
    }

    /// Reads what follows `[TOOL_CALLS]`: a list, or `f[ARGS]{…}` and more of them.
    #[inline(never)]
    pub(super) fn tool_calls_mark(&mut self, at: usize, inside: usize) -> Read<()> {
        self.at = inside;
        self.line_is_blank = false;
        let known = self.calls.len();
        let mut cursor = Cursor::new(self.text, inside);
        let read = self.marked_calls(&mut cursor).map(|()| cursor.at);
        if let Some(first) = self.calls.get_mut(known) {
            first.start = at;
        } else if read.is_ok() {
            return Ok(());
        }
        self.marked(known, at, inside, read)
    }

    #[inline(never)]
    fn marked_calls(&mut self, cursor: &mut Cursor<'t>) -> Read<()> {
        cursor.blanks();
        if let Some(b'[' | b'{') = cursor.peek() {
            self.sequence(cursor, Some(CallForm::ToolCallsMark), 0)?;
            cursor.at = self.calls.last().map_or(cursor.at, |last| last.end);
            return Ok(());
        }
        loop {
            let start = cursor.at;
            let name = name(cursor);
            if cursor.accept("[CALL_ID]") {
                cursor.take(is_word);
            }
            let has_arguments = cursor.accept("[ARGS]") || cursor.peek() == Some(b'{');
            if !has_arguments {
                cursor.at = start;
                return Ok(());
            }
            cursor.blanks();
            self.call_with(name, cursor, CallForm::ToolCallsMark, start)?;
        }
    }

    /// Reads `to=f<|channel|>commentary json<|message|>{…}`; returns false if that is not here.
    #[inline(never)]
    pub(super) fn addressed(&mut self, start: usize) -> Read<bool> {
        let mut cursor = Cursor::new(self.text, start);
        cursor.accept("to=");
        let name = name(&mut cursor);
        for _ in 0..MAX_HEADER {
            cursor.take(|byte| is_word(byte) || byte == b' ');
            let Some(tag) = Tag::read(self.text, cursor.at) else { return Ok(false) };
            cursor.at = tag.end;
            if tag.is_bar(&["message"]) {
                self.at = tag.end;
                cursor.blanks();
                let known = self.calls.len();
                let read = self.call_with(name, &mut cursor, CallForm::BarMark, start);
                return self.marked(known, start, tag.end, read).map(|()| true);
            }
        }
        Ok(false)
    }

    /// Adds the call of a named tool whose arguments are the object here; returns the byte after it.
    fn call_with(&mut self, name: &str, cursor: &mut Cursor<'t>, form: CallForm, start: usize) -> Read<usize> {
        let named = self.tools.named(name);
        if named.tool.is_none() && !is_name(&named.name) {
            return cursor.stop();
        }
        let located = object(self.text, cursor.at)?;
        cursor.at = located.end;
        unambiguous(located.repeated.as_ref(), start)?;
        self.add(named, Value::Object(located.object).to_json(), form, start, located.end);
        Ok(located.end)
    }

    /// Skips a thought; what stands before the end of one that was never opened is a thought too.
    #[inline(never)]
    fn thought(&mut self, tag: Tag<'t>, is_blank: bool) -> Read<()> {
        if tag.kind == TagKind::Close {
            if !self.has_thought {
                self.forget(tag.end);
            }
            return Ok(());
        }
        self.skip_thought(tag.end, &format!("</{}>", tag.full), is_blank)
    }

    /// Skips the thought that begins here, up to and with its end.
    pub(super) fn skip_thought(&mut self, start: usize, closing: &str, is_blank: bool) -> Read<()> {
        let mut cursor = Cursor::new(self.text, start);
        match cursor.take_until(closing) {
            Ok(_) => {
                self.note_thought(start, cursor.at);
                (self.at, self.line_is_blank, self.has_thought) = (cursor.at, true, true);
                Ok(())
            }
            // A thought that does not end is all that is left; a word about thoughts is not.
            Err(_) if is_blank => {
                self.at = self.text.len();
                Ok(())
            }
            Err(_) => self.burn(start, self.text.len()),
        }
    }

    /// Returns the byte after the end of the thought that the text here is in, if it is in one that was never opened.
    pub(super) fn end_of_thought(&self) -> Option<usize> {
        if self.has_thought {
            return None;
        }
        let mut cursor = Cursor::new(self.text, self.at);
        while cursor.take_until("<").is_ok() {
            let tag = Tag::read(self.text, cursor.at - 1).filter(|tag| tag.is(&THOUGHTS));
            if let Some(tag) = tag {
                return (tag.kind == TagKind::Close).then_some(tag.end);
            }
        }
        None
    }
}

/// Reports whether a tag closes what another one opened.
fn closes(open: Tag<'_>, other: Tag<'_>) -> bool {
    match other.kind {
        TagKind::Open => false,
        TagKind::Close => other.local().eq_ignore_ascii_case(open.local()),
        TagKind::Bar => {
            other.full.starts_with('/') || find(other.full, "end").is_some() || find(other.full, "END").is_some()
        }
    }
}

/// The tags around thoughts.
const THOUGHTS: [&str; 5] = ["think", "thinking", "reasoning", "thought", "scratch_pad"];
/// The tags around text that is quoted from elsewhere.
const QUOTATIONS: [&str; 24] = [
    "blockquote",
    "q",
    "quote",
    "quotation",
    "cite",
    "code",
    "pre",
    "tool_response",
    "tool_responses",
    "tool_result",
    "tool_results",
    "tool_output",
    "function_response",
    "function_result",
    "function_results",
    "observation",
    "document",
    "documents",
    "page",
    "webpage",
    "web_page",
    "search_results",
    "example",
    "examples",
];
/// The maximum number of such tags that are open.
const MAX_QUOTATIONS: usize = 64;
/// The tags around calls.
const CALL_TAGS: [&str; 7] =
    ["tool_call", "tool_calls", "toolcall", "function_call", "function_calls", "functioncall", "tool_use"];
/// The marks before calls.
const CALL_MARKS: [&str; 5] = ["tool_call", "tool_calls", "tool_call_start", "function_call", "start_action"];
/// The maximum number of marks before a message.
const MAX_HEADER: usize = 3;
/// The maximum length of what follows the name in a tag.
const MAX_TAG: usize = 512;
