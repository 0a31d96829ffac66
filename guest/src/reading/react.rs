//! Calls as lines: `Action: f`, then `Action Input: …` up to the next label.

use super::CallForm;
use super::cursor::{Cursor, Read, find};
use super::known::Named;
use super::objects::{is_name, object};
use super::scan::Scan;

/// The labels of lines.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Label {
    Action,
    Input,
    /// A label before what a tool has answered.
    Observation,
    /// A label that ends an input.
    Other,
}

impl<'t> Scan<'_, 't> {
    /// Reads the call whose label begins at this byte; returns false if there is none.
    #[inline(never)]
    pub(super) fn action(&mut self, start: usize) -> Read<bool> {
        // In a text whose labels are capitalized, a line such as `question: …` belongs to the input.
        let any_case = !self.text[start..].starts_with("Action");
        let Some((Label::Action, name_at)) = label(self.text, start, any_case) else { return Ok(false) };
        let line = line_at(self.text, name_at);
        let mut same_line = find(line, "Action Input:");
        if any_case {
            let line = line.to_ascii_lowercase();
            same_line = find(&line, "action input:").or_else(|| find(&line, "action_input:"));
        }
        let name = &line[..same_line.unwrap_or(line.len())];
        let written = name.trim_matches(|edge: char| edge.is_whitespace() || "`*\"'.".contains(edge));
        let written = written.strip_prefix('[').and_then(|bare| bare.strip_suffix(']')).unwrap_or(written);
        let mut cursor = Cursor::new(self.text, name_at + name.len());
        cursor.blanks();
        let next = cursor.at;
        let named = self.tools.named(written);
        if named.tool.is_none() && !is_name(&named.name) || is_nothing(&named.name) {
            return self.bracketed(written, start, name_at + line.trim_end().len());
        }
        let input = match label(self.text, skip_decoration(self.text, next), any_case) {
            Some((Label::Input, input)) => input,
            // Without input, nothing may be required.
            other => {
                let is_over = other.is_some() || cursor.at_end();
                let fits = named.tool.is_some_and(|tool| self.tools.fits(tool, &Default::default()));
                if is_over && fits {
                    return self.called(named, "", start, name_at + name.trim_end().len());
                }
                return Ok(false);
            }
        };
        let end = self.end_of_input(input, any_case);
        let text = self.text[input..end].trim_end();
        let (text, end) = self.object_alone(text, input);
        self.called(named, text, start, end)
    }

    /// Adds a call with this input.
    fn called(&mut self, named: Named, input: &str, start: usize, end: usize) -> Read<bool> {
        let is_none = is_nothing(input.trim_matches(|edge: char| edge.is_whitespace() || "`*\"'.()".contains(edge)));
        let input = match named.tool {
            Some(tool) if is_none && self.tools.requires_nothing(tool) => "",
            _ => input,
        };
        let arguments = self.tools.arguments(named.tool, input, start)?;
        let first = self.calls.len();
        self.add(named, arguments, CallForm::React, start, end);
        self.note(first, start, end, true);
        (self.at, self.line_is_blank) = (end, false);
        Ok(true)
    }

    /// Reads `f[input]` of a known tool.
    fn bracketed(&mut self, written: &str, start: usize, end: usize) -> Read<bool> {
        let parts = written.strip_suffix(']').and_then(|written| written.split_once('['));
        let Some((name, input)) = parts else { return Ok(false) };
        let named = self.tools.named(name);
        if named.tool.is_some() { self.called(named, input, start, end) } else { Ok(false) }
    }

    /// Returns where an input ends: before the next label, or at the end of the fence that it stands in.
    fn end_of_input(&self, input: usize, any_case: bool) -> usize {
        let opens_fence = self.text[input..].trim_start().starts_with("```");
        let mut at = input + line_at(self.text, input).len();
        while at < self.text.len() {
            at += 1;
            let line = line_at(self.text, at);
            let closes = self.in_fence && !opens_fence && line.trim_start().starts_with("```");
            if closes || label(self.text, skip_decoration(self.text, at), any_case).is_some() {
                return at;
            }
            at += line.len();
        }
        self.text.len()
    }

    /// Returns the object at the start of an input if only other paragraphs follow it, else the whole input.
    fn object_alone(&self, text: &'t str, input: usize) -> (&'t str, usize) {
        let bare = text.trim_start();
        let start = input + text.len() - bare.len();
        let whole = (bare, input + text.len());
        if !bare.starts_with('{') {
            return whole;
        }
        match object(&self.text[..whole.1], start) {
            Ok(located) if self.text[located.end..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                let json = &self.text[start..located.end];
                (json, located.end)
            }
            _ => whole,
        }
    }
}

/// Reads the label at this byte, in its own case or in any; returns it with the byte after its colon.
pub(super) fn label(text: &str, at: usize, any_case: bool) -> Option<(Label, usize)> {
    let bytes = &text.as_bytes()[at..];
    let (word, label) = LABELS.iter().find(|(word, _)| begins_with(bytes, word.as_bytes(), any_case))?;
    let mut cursor = Cursor::new(text, at + word.len());
    // Papers number their steps, and Markdown makes labels bold.
    cursor.take(|byte| matches!(byte, b' ' | b'*' | b'0'..=b'9'));
    if !cursor.accept(":") {
        return None;
    }
    cursor.take(|byte| byte == b'*');
    cursor.spaces();
    Some((*label, cursor.at))
}

/// Reports whether a text begins with a word, in its own case or in any.
fn begins_with(text: &[u8], word: &[u8], any_case: bool) -> bool {
    text.get(..word.len()).is_some_and(|written| written == word || any_case && written.eq_ignore_ascii_case(word))
}

/// Returns the byte after the blanks and the decoration at the start of a line.
fn skip_decoration(text: &str, at: usize) -> usize {
    let mut cursor = Cursor::new(text, at);
    cursor.take(|byte| matches!(byte, b' ' | b'\t' | b'*' | b'>' | b'#' | b'-'));
    cursor.at
}

/// Returns the line from this byte on, without its line break.
#[inline(never)]
fn line_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find('\n').unwrap_or(rest.len())]
}

/// Reports whether a model writes this for no action at all.
fn is_nothing(name: &str) -> bool {
    ["none", "n/a", "null", "nothing", ""].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// The labels as models write them, the longer ones first.
const LABELS: [(&str, Label); 8] = [
    ("Action Input", Label::Input),
    ("ActionInput", Label::Input),
    ("Action_Input", Label::Input),
    ("Action", Label::Action),
    ("Observation", Label::Observation),
    ("Thought", Label::Other),
    ("Final Answer", Label::Other),
    ("Question", Label::Other),
];
