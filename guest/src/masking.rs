//! Replaces secrets in any text: what to look for, where it was found, and what replaces it.
//!
//! Every rule reports spans of the original text; overlapping spans are merged, and all are replaced at once. A changed
//! text is scanned again until nothing is found, so masking twice equals masking once.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use crate::json;
use hints::Hints;
use patterns::{Finder, PATTERNS};

mod escapes;
mod fold;
mod hints;
mod kubernetes;
mod named_values;
mod patterns;
mod pem;
mod values;
mod view;

/// The replacement for a text that cannot be masked safely.
pub const REDACTED: &str = "[REDACTED: data masking failure — tool result could not be safely processed]";
/// The largest text that is masked, with few rules; a larger one is redacted whole.
pub const MAX_BYTES: usize = 32 << 20;
/// The maximum number of bytes that all rules read together, well within the fuel of one call.
const MAX_WORK: usize = 80 << 20;

/// What to mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// The names of built-in groups.
    pub groups: Vec<String>,
    /// The names of built-in patterns.
    pub patterns: Vec<String>,
    /// Custom patterns.
    pub custom: Vec<CustomMask>,
}

/// A custom pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomMask {
    /// A regular expression; if it has a group named `value`, only that group is replaced.
    pub pattern: String,
    /// The replacement, taken literally.
    pub replacement: String,
}

/// The reason why masks are not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskError {
    /// There is no such group.
    UnknownGroup(UnknownName),
    /// There is no such pattern.
    UnknownPattern(UnknownName),
    /// A custom pattern does not compile, or matches the empty text.
    BadPattern(BadPattern),
}

/// A group or pattern name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The name as given.
    pub name: String,
    /// The names that exist.
    pub known: Vec<String>,
}

impl UnknownName {
    fn new(name: &str, known: Vec<&str>) -> Self {
        UnknownName { name: name.to_owned(), known: known.into_iter().map(str::to_owned).collect() }
    }
}

/// A pattern that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with the pattern.
    pub reason: String,
}

/// Returns the names of the built-in patterns, the most specific first.
pub fn pattern_names() -> Vec<&'static str> {
    PATTERNS.iter().map(|pattern| pattern.name).collect()
}

/// Returns the names of the built-in groups.
pub fn group_names() -> Vec<&'static str> {
    patterns::GROUPS.iter().map(|(name, _)| *name).chain([patterns::ALL]).collect()
}

/// Compiled masks: a cache of the settings that it was built from.
#[derive(Debug)]
pub struct Masker {
    custom: Vec<Regex>,
    finders: Vec<(usize, Finder)>,
    /// The finders that recognize a token by its prefix, even if it is split.
    unmistakable: Vec<usize>,
    /// Tells which finders can find something in a text.
    hints: Hints,
    /// The replacement of each rule, by rank; if several rules find a span, the lowest rank wins.
    replacements: Vec<String>,
}

/// A range of text to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
    /// The rule that found it.
    rank: usize,
    /// How many JSON strings it is nested in; its replacement is escaped as many times.
    level: u32,
    /// If an unquoted value must become a string: the number of backslashes before each of its quotes.
    quoted: Option<u32>,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        Span { start, end, rank: 0, level: 0, quoted: None }
    }
}

impl Masker {
    /// Compiles the masks.
    pub fn new(masks: &Masks) -> Result<Masker, MaskError> {
        let mut wanted = vec![false; PATTERNS.len()];
        for group in &masks.groups {
            let members = patterns::group(group)
                .ok_or_else(|| MaskError::UnknownGroup(UnknownName::new(group, group_names())))?;
            PATTERNS.iter().zip(&mut wanted).for_each(|(pattern, wanted)| *wanted |= members.contains(&pattern.name));
        }
        for name in &masks.patterns {
            let at = PATTERNS.iter().position(|pattern| pattern.name == name);
            wanted[at.ok_or_else(|| MaskError::UnknownPattern(UnknownName::new(name, pattern_names())))?] = true;
        }
        let custom = masks.custom.iter().map(|mask| compile(&mask.pattern)).collect::<Result<_, _>>()?;
        let mut replacements: Vec<String> = masks.custom.iter().map(|mask| mask.replacement.clone()).collect();
        let (mut finders, mut hints, mut unmistakable) = (Vec::new(), Vec::new(), Vec::new());
        for (pattern, _) in PATTERNS.iter().zip(wanted).filter(|(_, wanted)| *wanted) {
            for (finder, words) in pattern.finders() {
                if finder.is_unmistakable() && !words.is_empty() {
                    unmistakable.push(finders.len());
                }
                finders.push((replacements.len(), finder));
                hints.push(words);
            }
            replacements.push(pattern.replacement());
        }
        Ok(Masker { custom, finders, unmistakable, hints: Hints::new(hints), replacements })
    }

    /// Reports whether there are no masks.
    pub fn is_empty(&self) -> bool {
        self.custom.is_empty() && self.finders.is_empty()
    }

    /// Replaces everything that the masks find; if that is not safe, redacts the whole text.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        if self.is_too_large(text.len()) {
            return Cow::Borrowed(REDACTED);
        }
        // A number has no structure to keep: `123456` is a text that happens to be JSON.
        let is_json = |text: &str| text.trim_start().starts_with(['{', '[', '"']) && json::parse(text).is_ok();
        if text.contains("\\u") && is_json(text) {
            return Cow::Owned(self.mask_until_still(&escapes::plain(text), is_json).into_owned());
        }
        self.mask_until_still(text, is_json)
    }

    /// Masks a JSON text; returns masked JSON, or the redaction as a JSON string.
    pub fn mask_json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.is_empty() && (self.is_too_large(text.len()) || json::parse(text).is_err()) {
            return redacted_json();
        }
        self.mask_parsed(text)
    }

    /// Masks a text that is known to be JSON.
    pub fn mask_parsed<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        if self.is_too_large(text.len()) {
            return redacted_json();
        }
        match escapes::plain(text) {
            Cow::Borrowed(text) => self.mask_until_still(text, |_| true),
            Cow::Owned(plain) => Cow::Owned(self.mask_until_still(&plain, |_| true).into_owned()),
        }
    }

    /// Masks tokens with a known prefix (`ghp_…`) that line breaks split, for example because a server sends them in
    /// several blocks.
    pub fn mask_across_lines<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unmistakable.is_empty() || self.is_too_large(text.len()) {
            return Cow::Borrowed(text);
        }
        let Some(line) = fold::one_line(text) else { return Cow::Borrowed(text) };
        let mut spans = Vec::new();
        for (rank, finder) in self.unmistakable.iter().map(|at| &self.finders[*at]) {
            finder.find(&line.text, &mut |span| spans.push(line.outside(Span { rank: *rank, ..span })));
        }
        spans.retain(|span| text[span.start..span.end].contains('\n'));
        if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.replace(text, merge(spans))) }
    }

    /// Masks a text repeatedly until nothing changes.
    ///
    /// The second pass usually finds nothing. But a mask can turn prose into a value, and masking twice must not change
    /// the result.
    fn mask_until_still<'a>(&self, text: &'a str, is_json: impl Fn(&str) -> bool) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for _ in 0..MAX_LOOKS {
            let spans = self.spans(&masked, 0);
            if spans.is_empty() {
                return masked;
            }
            let next = if is_json(&masked) {
                self.replace_in_json(&masked, spans)
            } else {
                self.replace(&masked, merge(spans))
            };
            if next == masked {
                return masked;
            }
            masked = Cow::Owned(next);
        }
        // Masks that keep creating new matches cannot be trusted.
        if is_json(text) { redacted_json() } else { Cow::Borrowed(REDACTED) }
    }

    /// Reports whether a text of this size is not masked: each rule reads all of it, and a larger text is redacted at once.
    fn is_too_large(&self, bytes: usize) -> bool {
        bytes > MAX_BYTES.min(MAX_WORK / (self.finders.len() + self.custom.len()).max(1))
    }

    /// Returns everything that the masks find in a text and in the JSON strings inside it, in any order.
    fn spans(&self, text: &str, level: u32) -> Vec<Span> {
        if let Some(view) = escapes::spelt(text) {
            return self.spans(&view.text, level).into_iter().map(|span| view.outside(span)).collect();
        }
        let mut spans = Vec::new();
        for (rank, regex) in self.custom.iter().enumerate() {
            let has_value = regex.capture_names().any(|name| name == Some("value"));
            patterns::matches(regex, has_value, text, |start, end| {
                spans.push(Span { rank, ..Span::new(start, end) });
            });
        }
        let hints = self.hints.in_text(text);
        let hinted = || self.finders.iter().zip(&hints).filter(|(_, hinted)| **hinted).map(|(finder, _)| finder);
        for (rank, finder) in hinted() {
            finder.find(text, &mut |span| spans.push(Span { rank: *rank, ..span }));
        }
        if hinted().any(|(_, finder)| matches!(finder, Finder::Key(..))) {
            let named = named_values::find(text);
            for (rank, finder) in hinted() {
                finder.find_named(text, &named, &mut |span| spans.push(Span { rank: *rank, ..span }));
            }
        }
        if !spans.is_empty() {
            let done = self.done(text);
            spans.iter_mut().for_each(|span| keep_escapes(text, span));
            spans.retain(|span| span.start < span.end && !covered(&done, span));
        }
        if let Some(seen) = fold::text_as_seen(text) {
            let found = self.spans(&seen.text, MAX_LEVEL);
            spans.extend(found.into_iter().map(|span| seen.outside(span)));
        }
        let inner = if level < MAX_LEVEL { escapes::strings(text) } else { None };
        if let Some(view) = inner {
            let found = self.spans(&view.text, level + 1);
            spans.extend(found.into_iter().flat_map(|span| escapes::outside(&view, span)));
        }
        spans
    }

    /// Returns what is already masked: masks, redactions and the replacements of custom masks, in order.
    fn done(&self, text: &str) -> Vec<(usize, usize)> {
        let mut done: Vec<(usize, usize)> = text
            .match_indices('[')
            .filter_map(|(at, _)| values::mask_length(&text[at..]).map(|length| (at, at + length)))
            .collect();
        for replacement in self.replacements[..self.custom.len()].iter().filter(|text| !text.is_empty()) {
            done.extend(text.match_indices(replacement.as_str()).map(|(at, found)| (at, at + found.len())));
        }
        done.sort_unstable();
        done.dedup_by(|next, last| {
            let nested = next.0 < last.1;
            last.1 = if nested { last.1.max(next.1) } else { last.1 };
            nested
        });
        done
    }

    /// Replaces spans in JSON, and makes sure that the result is JSON.
    fn replace_in_json(&self, text: &str, mut spans: Vec<Span>) -> String {
        let mut tokens = escapes::tokens(text).peekable();
        spans.sort_unstable_by_key(|span| span.start);
        spans.retain_mut(|span| {
            while tokens.next_if(|token| token.end <= span.start).is_some() {}
            let token = tokens.peek().filter(|token| token.start <= span.start);
            match token {
                Some(token) if token.string && span.end <= token.end => span.level = span.level.max(1),
                // A part of a number cannot be replaced, but the whole number can, by a string.
                Some(token) if span.end <= token.end => {
                    *span = Span { start: token.start, end: token.end, quoted: Some(0), ..*span };
                }
                // The built-in rules mistake `"password:"` for a key and an opening quote; custom rules mean what they
                // match.
                Some(token) if span.quoted.is_none() && span.rank >= self.custom.len() => span.end = token.end,
                None if span.quoted.is_none() && span.rank >= self.custom.len() => return false,
                _ => {}
            }
            true
        });
        let masked = self.replace(text, merge(spans));
        match json::parse(&masked) {
            Ok(_) => masked,
            Err(_) => redacted_json().into_owned(),
        }
    }

    /// Replaces the spans, which are sorted and do not overlap.
    fn replace(&self, text: &str, spans: Vec<Span>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for span in spans {
            out.push_str(&text[copied..span.start]);
            let mut replacement = Cow::Borrowed(self.replacements[span.rank].as_str());
            for _ in 0..span.level {
                let escaped = json::Value::string(replacement.as_ref()).to_json();
                replacement = Cow::Owned(escaped[1..escaped.len() - 1].to_owned());
            }
            let quote = span.quoted.map_or(String::new(), |slashes| "\\".repeat(slashes as usize) + "\"");
            out.extend([&quote, replacement.as_ref(), &quote]);
            copied = span.end;
        }
        out.push_str(&text[copied..]);
        out
    }
}

/// The maximum number of passes over a text.
const MAX_LOOKS: usize = 6;
/// The maximum nesting of JSON strings in JSON strings that is searched; each level doubles the backslashes.
const MAX_LEVEL: u32 = 8;
/// The maximum size of a compiled custom pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Returns the redaction as JSON.
fn redacted_json() -> Cow<'static, str> {
    Cow::Owned(json::Value::string(REDACTED).to_json())
}

fn compile(pattern: &str) -> Result<Regex, MaskError> {
    let bad = |reason: String| MaskError::BadPattern(BadPattern { pattern: pattern.to_owned(), reason });
    let regex = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => bad(format!("takes more than {limit} bytes when compiled")),
        // The parser's message has several lines; the last one says what is wrong.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            bad(last.strip_prefix("error: ").unwrap_or(last).to_owned())
        }
    })?;
    if regex.is_match("") { Err(bad("matches the empty text".to_owned())) } else { Ok(regex) }
}

/// Keeps a span from splitting an escape such as `\n`, which would break the JSON string around it.
fn keep_escapes(text: &str, span: &mut Span) {
    let bytes = text.as_bytes();
    if span.start > 0 && bytes[span.start - 1] == b'\\' {
        match bytes.get(span.start) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => span.start += 1,
            Some(b'u') => {
                let hex = bytes[span.start + 1..].iter().take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
                span.start += 1 + hex;
            }
            _ => {}
        }
    }
    while span.end > span.start && bytes[span.end - 1] == b'\\' {
        span.end -= 1;
    }
}

/// Reports whether a span lies within one of the sorted ranges.
fn covered(done: &[(usize, usize)], span: &Span) -> bool {
    let next = done.partition_point(|(start, _)| *start <= span.start);
    next > 0 && span.end <= done[next - 1].1
}

/// Sorts spans and merges those that overlap.
fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.start, span.end, span.rank));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => {
                last.end = last.end.max(span.end);
                last.rank = last.rank.min(span.rank);
                last.level = last.level.max(span.level);
                last.quoted = last.quoted.or(span.quoted);
            }
            _ => merged.push(span),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
