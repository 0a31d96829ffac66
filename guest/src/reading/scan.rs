//! Goes through a text once, from call to call.
//!
//! Every attempt to read a call that fails costs as many bytes as it looked at, and a text has only a few times its own
//! length to spend: so the time stays linear, whatever the text is.

use super::cursor::{Cursor, Read, Stop, is_word};
use super::known::{Named, Tools, stopped};
use super::python::{Python, name};
use super::react::{Label, label};
use super::standing::{self, Construct, ConstructKind};
use super::statements::Place;
use super::{CallForm, ReadCall, ReadingError, Standing};
use crate::json;

/// A pass through a text.
pub(super) struct Scan<'s, 't> {
    pub text: &'t str,
    pub tools: &'s Tools<'t>,
    pub calls: Vec<ReadCall>,
    /// What the calls were read from, in order.
    pub constructs: Vec<Construct>,
    pub at: usize,
    /// Whether calls that the text only mentions or quotes are read too, with their mistakes.
    loose: bool,
    /// The elements of quoted text that are open here: their names, where they begin, and whether they begin a line.
    pub open_quotes: Vec<(&'t str, usize, bool)>,
    /// The byte up to which the text is a comment of HTML.
    pub comment_end: usize,
    /// Whether the text here is what a tool has answered.
    pub in_observation: bool,
    /// Where the calls of unknown tools begin that count only in a text of nothing but calls.
    pub doubtful: Vec<usize>,
    /// The first call of an unknown tool with an argument that has no name: an error in a text of nothing but calls.
    pub unnamed: Option<ReadingError>,
    /// Whether there is anything but calls.
    pub has_prose: bool,
    /// Whether the line has only blanks and decoration so far.
    pub line_is_blank: bool,
    /// Whether the text here is in a code fence.
    pub in_fence: bool,
    /// Whether the text here is in the body of a statement.
    pub in_block: bool,
    /// The brackets that are open in code or data which is no call: what is in them is no call either.
    pub depth: usize,
    /// Whether a thought was skipped.
    pub has_thought: bool,
    /// The bytes that failed attempts may still look at.
    fuel: usize,
}

impl<'s, 't> Scan<'s, 't> {
    /// Begins at the start of a text.
    pub(super) fn new(text: &'t str, tools: &'s Tools<'t>, loose: bool) -> Self {
        Scan {
            text,
            tools,
            calls: Vec::new(),
            constructs: Vec::new(),
            at: 0,
            loose,
            open_quotes: Vec::new(),
            comment_end: 0,
            in_observation: false,
            doubtful: Vec::new(),
            unnamed: None,
            has_prose: false,
            line_is_blank: true,
            in_fence: false,
            in_block: false,
            depth: 0,
            has_thought: false,
            fuel: text.len().saturating_mul(FUEL) + MIN_FUEL,
        }
    }

    /// Finds the calls; returns them, and whether there is anything but calls.
    pub(super) fn read(mut self) -> Result<(Vec<ReadCall>, bool), ReadingError> {
        while self.at < self.text.len() {
            let (start, known) = (self.at, self.calls.len());
            if let Err(Stop::Refused(error)) = self.step() {
                // What cannot be read may have been a thought.
                match self.end_of_thought() {
                    Some(end) => self.forget(end),
                    None => self.pass_mention(start, known, *error)?,
                }
            }
        }
        self.close_quotes();
        standing::decide(self.text, &self.constructs, &mut self.calls);
        if self.has_prose {
            let doubtful = &self.doubtful;
            self.calls.retain(|call| doubtful.binary_search(&call.start).is_err());
        } else if let Some(error) = self.unnamed {
            return Err(error);
        }
        Ok((self.calls, self.has_prose))
    }

    /// Goes on after the beginning of something that cannot be read, if the text only mentions it.
    #[cold]
    fn pass_mention(&mut self, start: usize, known: usize, error: ReadingError) -> Result<(), ReadingError> {
        let is_limit = matches!(error, ReadingError::Tangled(_) | ReadingError::TooLarge(_));
        let is_quoted = self.is_quoted(start) || standing::is_mention(self.text, &self.constructs, start);
        if self.loose || is_limit || !is_quoted {
            return Err(error);
        }
        self.calls.truncate(known);
        (self.at, self.has_prose, self.line_is_blank) = (start + 1, true, false);
        match self.burn(start, self.text.len()) {
            Err(Stop::Refused(error)) => Err(*error),
            _ => Ok(()),
        }
    }

    /// Reports whether this byte is in quoted text.
    fn is_quoted(&self, at: usize) -> bool {
        at < self.comment_end || self.in_observation || self.open_quotes.iter().any(|(_, _, begins_line)| *begins_line)
    }

    /// Notes what was read between two places, if it has calls.
    pub(super) fn note(&mut self, first: usize, start: usize, end: usize, is_marked: bool) {
        if self.calls.len() == first {
            return;
        }
        let mut kind = if is_marked { ConstructKind::Marked } else { ConstructKind::Plain };
        if self.in_fence {
            kind = ConstructKind::Fenced;
        }
        let is_quoted = start < self.comment_end || self.in_observation;
        self.constructs.push(Construct { start, end, first, kind, is_quoted });
    }

    /// Notes a thought, or what else is no part of the answer.
    pub(super) fn note_thought(&mut self, start: usize, end: usize) {
        let (first, kind) = (self.calls.len(), ConstructKind::Thought);
        self.constructs.push(Construct { start, end, first, kind, is_quoted: false });
    }

    /// Marks what was read since this byte as quoted.
    pub(super) fn quote_since(&mut self, start: usize) {
        for construct in self.constructs.iter_mut().rev() {
            if construct.start < start {
                break;
            }
            construct.is_quoted = true;
        }
    }

    /// Ends the elements of quoted text that have no end: one that begins a line has the rest of the text.
    fn close_quotes(&mut self) {
        for (_, start, begins_line) in std::mem::take(&mut self.open_quotes) {
            if begins_line {
                self.quote_since(start);
                return;
            }
        }
    }

    /// Reads a call, if one begins here, or skips a little.
    fn step(&mut self) -> Read<()> {
        let bytes = self.text.as_bytes();
        match bytes[self.at] {
            b'\n' => {
                if self.line_is_blank {
                    self.depth = 0;
                }
                self.line_is_blank = true;
                if self.in_block && self.in_inner_line() {
                    self.at += 1;
                    return self.skip_line();
                }
            }
            b' ' | b'\t' | b'\r' | b'*' | b'>' | b'-' => {}
            b'`' if bytes[self.at..].starts_with(b"```") => return self.fence(),
            b'`' => {}
            b'#' if self.in_fence => return self.skip_line(),
            b'"' if self.in_fence => {
                // A text in a program is data, whatever it looks like.
                self.pass_prose();
                let rest = &bytes[self.at + 1..];
                let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\n' | b'{' | b'<'));
                self.at += end.filter(|end| rest[*end] == b'"').map_or(0, |end| end + 1);
            }
            b'<' => return self.tag(),
            b'{' => return self.brace(),
            b'[' => return self.bracket(),
            b'(' if self.depth > 0 || self.at > 0 && is_word(bytes[self.at - 1]) => self.depth += 1,
            b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            b',' | b';' | b'.' | b'(' => self.line_is_blank = false,
            b'0'..=b'9' => return self.digits(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return self.word(),
            _ => self.pass_prose(),
        }
        self.at += 1;
        Ok(())
    }

    fn pass_prose(&mut self) {
        self.has_prose = true;
        self.line_is_blank = false;
    }

    fn skip_line(&mut self) -> Read<()> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        Ok(())
    }

    /// Reports whether the next line belongs to the body of a statement: whether its calls run is not known.
    #[inline(never)]
    fn in_inner_line(&mut self) -> bool {
        let rest = &self.text[self.at + 1..];
        let bare = rest.trim_start_matches([' ', '\t']);
        if rest.len() == bare.len() || bare.starts_with("```") {
            self.in_block = bare.starts_with(['\n', '\r', ')', ']', '}', '{']);
            return false;
        }
        true
    }

    /// Skips digits, which can be the number of an item.
    #[inline(never)]
    fn digits(&mut self) -> Read<()> {
        let mut cursor = Cursor::new(self.text, self.at);
        cursor.take(is_word);
        if !(self.line_is_blank && (cursor.accept(". ") || cursor.accept(") "))) {
            self.pass_prose();
        }
        self.at = cursor.at;
        Ok(())
    }

    /// Reads a call that begins with a word.
    #[inline(never)]
    fn word(&mut self) -> Read<()> {
        let at = self.at;
        let mut cursor = Cursor::new(self.text, at);
        let word = name(&mut cursor);
        let calls = cursor.peek() == Some(b'(');
        if self.depth == 0 {
            if self.line_is_blank && !self.in_fence {
                self.in_observation = match label(self.text, at, true) {
                    Some((Label::Observation, _)) => true,
                    Some(_) => false,
                    None => self.in_observation,
                };
            }
            if self.line_is_blank && word.eq_ignore_ascii_case("action") && self.action(at)? {
                return Ok(());
            }
            if word == "to" && cursor.peek() == Some(b'=') && self.addressed(at)? {
                return Ok(());
            }
            if self.in_fence && self.line_is_blank && BLOCKS.contains(&word) {
                (self.in_block, self.has_prose) = (true, true);
                return self.skip_line();
            }
            if self.line_is_blank && self.line(at)? {
                return Ok(());
            }
            if calls && self.is_free(at) && self.inline(at)? {
                return Ok(());
            }
        }
        self.pass_prose();
        self.at = cursor.at;
        Ok(())
    }

    /// Reads a list of calls, or skips a bracket.
    #[inline(never)]
    fn bracket(&mut self) -> Read<()> {
        let at = self.at;
        let mut cursor = Cursor::new(self.text, at);
        if cursor.accept("[TOOL_CALLS]") {
            return self.tool_calls_mark(at, cursor.at);
        }
        if cursor.accept("[THINK]") {
            return self.skip_thought(cursor.at, "[/THINK]", true);
        }
        if self.depth > 0 {
            self.depth += 1;
            self.at += 1;
            return Ok(());
        }
        cursor.at += 1;
        cursor.blanks_and_comments(false);
        if cursor.peek() == Some(b'"') {
            // Texts in a list are data, whatever they look like.
            let read = json::parse_prefix(&self.text[at..]);
            let read = read.map(|(_, length, _)| at + length).map_err(|error| stopped(&error, at));
            if let Some(end) = self.attempted(at, read)? {
                self.pass_prose();
                self.at = end;
                return Ok(());
            }
        }
        cursor.accept("await ");
        if !name(&mut cursor).is_empty() && cursor.peek() == Some(b'(') {
            let mut python = Python::new(self.text, at);
            let mut calls = Vec::new();
            let read = python.calls(&mut calls).map(|()| python.cursor.at);
            if let Some(end) = self.attempted(at, read)? {
                let first = self.calls.len();
                if self.is_list(at) && self.accepted(calls, Place::Listed, end)? {
                    self.note(first, at, end, false);
                    return Ok(());
                }
            } else if !calls.is_empty() {
                // A list is read as a whole or not at all.
                self.depth = 1;
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a JSON object, or skips a brace.
    #[inline(never)]
    fn brace(&mut self) -> Read<()> {
        let at = self.at;
        self.line_is_blank = false;
        if self.depth > 0 {
            self.depth += 1;
            self.at += 1;
            return Ok(());
        }
        let known = self.calls.len();
        match self.object(at, None, 0) {
            Ok(end) => {
                self.has_prose |= self.calls.len() == known;
                self.note(known, at, end, false);
                self.at = end;
            }
            Err(Stop::NotHere(far)) => {
                self.burn(at, far)?;
                self.calls.truncate(known);
                // The inside of an object with mistakes is data of the object.
                let is_object = self.text.as_bytes()[at..far.min(self.text.len())].contains(&b':');
                self.depth = usize::from(is_object);
                self.has_prose = true;
                self.at += 1;
            }
            Err(refused) => return Err(refused),
        }
        Ok(())
    }

    /// Adds a call.
    pub(super) fn add(&mut self, named: Named, arguments: String, form: CallForm, start: usize, end: usize) {
        let standing = Standing::OwnLine;
        self.calls.push(ReadCall { name: named.name, arguments, form, standing, start, end });
    }

    /// Forgets everything before this byte.
    pub(super) fn forget(&mut self, end: usize) {
        self.calls.clear();
        self.constructs.clear();
        self.open_quotes.clear();
        self.in_observation = false;
        self.note_thought(0, end);
        self.doubtful.clear();
        self.unnamed = None;
        (self.at, self.depth) = (end, 0);
        (self.has_prose, self.in_fence, self.in_block) = (false, false, false);
        (self.line_is_blank, self.has_thought) = (true, true);
    }

    /// Pays for an attempt; returns what it read, or `None` if it failed.
    pub(super) fn attempted<T>(&mut self, from: usize, read: Read<T>) -> Read<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(Stop::NotHere(far)) => self.burn(from, far).map(|()| None),
            Err(refused) => Err(refused),
        }
    }

    /// Spends the bytes between two places.
    pub(super) fn burn(&mut self, from: usize, to: usize) -> Read<()> {
        match self.fuel.checked_sub(to.saturating_sub(from)) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => Err(Stop::refused(ReadingError::Tangled(from))),
        }
    }
}

/// The words that begin a statement with a body.
const BLOCKS: [&str; 11] = ["async", "class", "def", "elif", "else", "except", "finally", "for", "if", "try", "while"];
/// How many times its own length a text may cost in failed attempts.
const FUEL: usize = 2;
/// What every text may cost.
const MIN_FUEL: usize = 1 << 16;
