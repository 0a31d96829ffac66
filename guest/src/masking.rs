//! Secrets in any text, replaced: what to look for, where it was found, and what stands in its place.
//!
//! Every rule reports spans of the text as it came; spans that overlap become one, and all are replaced at once. A text
//! that was changed is looked at again until nothing is left to be found, so masking twice is masking once.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use crate::json;
use fold::Folded;
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

/// What stands for a text that cannot be masked safely.
pub const REDACTED: &str = "[REDACTED: data masking failure — tool result could not be safely processed]";
/// The largest text that is masked by few rules; a larger one is redacted whole.
pub const MAX_BYTES: usize = 32 << 20;
/// The most bytes that all rules together read, well within the fuel of one call.
const MAX_WORK: usize = 80 << 20;

/// What to mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Names of built-in groups.
    pub groups: Vec<String>,
    /// Names of built-in patterns.
    pub patterns: Vec<String>,
    /// Patterns of one's own.
    pub custom: Vec<CustomMask>,
}

/// A pattern of one's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomMask {
    /// A regular expression; where it has a group named `value`, only that is replaced.
    pub pattern: String,
    /// What stands in its place, taken literally.
    pub replacement: String,
}

/// Why masks cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskError {
    /// There is no such group.
    UnknownGroup(UnknownName),
    /// There is no such pattern.
    UnknownPattern(UnknownName),
    /// A custom pattern does not compile, or matches nothing at all (the empty text).
    BadPattern(BadPattern),
}

/// A name that names nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The name as given.
    pub name: String,
    /// The names that there are.
    pub known: Vec<String>,
}

impl UnknownName {
    fn new(name: &str, known: Vec<&str>) -> Self {
        UnknownName { name: name.to_owned(), known: known.into_iter().map(str::to_owned).collect() }
    }
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The names of the built-in patterns, the most specific first.
pub fn pattern_names() -> Vec<&'static str> {
    PATTERNS.iter().map(|pattern| pattern.name).collect()
}

/// The names of the built-in groups.
pub fn group_names() -> Vec<&'static str> {
    patterns::GROUPS.iter().map(|(name, _)| *name).chain([patterns::ALL]).collect()
}

/// Compiled masks; it holds nothing but what it was built from.
#[derive(Debug)]
pub struct Masker {
    custom: Vec<Regex>,
    finders: Vec<(usize, Finder)>,
    /// Which of them know a token by how it begins, so that it is found in pieces too.
    unmistakable: Vec<usize>,
    /// Which of the finders have something to look for in a text.
    hints: Hints,
    /// What a rule writes, by its rank: a lower rank names a span that several rules found.
    replacements: Vec<String>,
}

/// A stretch of text to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
    /// Which rule found it.
    rank: usize,
    /// In how many JSON strings it stands, one in another; what is written there is escaped as often.
    level: u32,
    /// Where a value without quotes must become a string: the backslashes before each of its quotes.
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

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.custom.is_empty() && self.finders.is_empty()
    }

    /// Replaces what the masks find; what cannot be masked safely is redacted whole.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        if self.is_too_large(text.len()) {
            return Cow::Borrowed(REDACTED);
        }
        // A number is no structure worth keeping: `123456` is text that happens to be JSON.
        let is_json = |text: &str| text.trim_start().starts_with(['{', '[', '"']) && json::parse(text).is_ok();
        if text.contains("\\u") && is_json(text) {
            return Cow::Owned(self.mask_until_still(&escapes::plain(text), is_json).into_owned());
        }
        self.mask_until_still(text, is_json)
    }

    /// Masks a JSON text and gives JSON: the masked text, or the redaction as a string.
    pub fn mask_json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.is_empty() && (self.is_too_large(text.len()) || json::parse(text).is_err()) {
            return redacted_json();
        }
        self.mask_parsed(text)
    }

    /// Masks what is known to be JSON.
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

    /// Masks tokens that are known by how they begin (`ghp_…`) and that line breaks part, as where a server sends one in
    /// several blocks.
    pub fn mask_across_lines<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unmistakable.is_empty() || self.is_too_large(text.len()) {
            return Cow::Borrowed(text);
        }
        let Some(line) = Folded::as_one_line(text) else { return Cow::Borrowed(text) };
        let mut spans = Vec::new();
        for (rank, finder) in self.unmistakable.iter().map(|at| &self.finders[*at]) {
            finder.find(&line.text, &mut |span| spans.push(line.outside(Span { rank: *rank, ..span })));
        }
        spans.retain(|span| text[span.start..span.end].contains('\n'));
        if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.replace(text, merge(spans))) }
    }

    /// Masks a text again while there is something to mask.
    ///
    /// Mostly the second look finds nothing. But a mask can make a value of what was prose before, and what is masked
    /// must not depend on how often.
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
        // Masks that make new work for one another without end are not to be trusted.
        if is_json(text) { redacted_json() } else { Cow::Borrowed(REDACTED) }
    }

    /// Whether a text of so many bytes is not masked: each rule reads all of it, and what cannot be paid for is redacted at
    /// once.
    fn is_too_large(&self, bytes: usize) -> bool {
        bytes > MAX_BYTES.min(MAX_WORK / (self.finders.len() + self.custom.len()).max(1))
    }

    /// All that the masks find in a text and in the JSON strings in it, in no order.
    fn spans(&self, text: &str, level: u32) -> Vec<Span> {
        if let Some(view) = escapes::View::spelt(text) {
            return self.spans(&view.text, level).into_iter().map(|span| view.within(span)).collect();
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
        if let Some(seen) = Folded::as_seen(text) {
            let found = self.spans(&seen.text, MAX_LEVEL);
            spans.extend(found.into_iter().map(|span| seen.outside(span)));
        }
        let inner = if level < MAX_LEVEL { escapes::View::of(text) } else { None };
        if let Some(view) = inner {
            let found = self.spans(&view.text, level + 1);
            spans.extend(found.into_iter().flat_map(|span| view.outside(span)));
        }
        spans
    }

    /// What is masked already: masks, redactions and the replacements of custom masks, in order.
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

    /// Replaces spans of a text that is JSON, and makes sure that it stays JSON.
    fn replace_in_json(&self, text: &str, mut spans: Vec<Span>) -> String {
        let mut tokens = escapes::tokens(text).peekable();
        spans.sort_unstable_by_key(|span| span.start);
        spans.retain_mut(|span| {
            while tokens.next_if(|token| token.end <= span.start).is_some() {}
            let token = tokens.peek().filter(|token| token.start <= span.start);
            match token {
                Some(token) if token.string && span.end <= token.end => span.level = span.level.max(1),
                // Part of a number cannot be replaced; the whole of it can, by a string.
                Some(token) if span.end <= token.end => {
                    *span = Span { start: token.start, end: token.end, quoted: Some(0), ..*span };
                }
                // The rules for any text take `"password:"` for a key and an opening quote; custom ones mean it.
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

    /// Writes the text anew with its spans, which are in order and apart, replaced.
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

/// How often a text is looked at; each look but the last leaves less to be masked.
const MAX_LOOKS: usize = 6;
/// How deep JSON strings in JSON strings are looked into; each level doubles the backslashes.
const MAX_LEVEL: u32 = 8;
/// The most memory that one custom pattern may take when compiled.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The redaction as JSON.
fn redacted_json() -> Cow<'static, str> {
    Cow::Owned(json::Value::string(REDACTED).to_json())
}

fn compile(pattern: &str) -> Result<Regex, MaskError> {
    let bad = |reason: String| MaskError::BadPattern(BadPattern { pattern: pattern.to_owned(), reason });
    let regex = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => bad(format!("takes more than {limit} bytes when compiled")),
        // The parser draws a picture of several lines; its last line says what is wrong.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            bad(last.strip_prefix("error: ").unwrap_or(last).to_owned())
        }
    })?;
    if regex.is_match("") { Err(bad("matches the empty text".to_owned())) } else { Ok(regex) }
}

/// Keeps a span from cutting an escape such as `\n` in two, which would break the JSON string it stands in.
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

/// Whether a span lies within one of the sorted ranges.
fn covered(done: &[(usize, usize)], span: &Span) -> bool {
    let next = done.partition_point(|(start, _)| *start <= span.start);
    next > 0 && span.end <= done[next - 1].1
}

/// Puts spans in order and makes one of those that overlap.
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
