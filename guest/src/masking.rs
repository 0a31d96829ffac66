//! Replaces secrets in any text: what to look for, where it was found, and what replaces it.
//!
//! What no reader sees is taken out first. Every rule then reports spans of the text; overlapping spans are merged, and all
//! are replaced at once. A changed text is scanned again until nothing is found, so masking twice equals masking once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use memchr::memchr_iter;
use regex::{Regex, RegexBuilder};

use crate::json;
use automata::Word;
use finder::Finder;
pub use hidden::TakenOut;
pub use masks::{BadPattern, CustomMask, MaskError, Masks, UnknownName};
use named_values::NamedValue;
use rules::{GROUPS, PATTERNS};
use spans::{Span, covered, keep_escapes, merge};
pub(crate) use values::mask_length;

mod automata;
mod escapes;
mod finder;
mod fold;
mod hidden;
mod keys;
mod kubernetes;
mod masks;
mod named_values;
mod pem;
// The expressions are for the build script and for tests.
#[cfg_attr(not(test), allow(dead_code))]
mod rules;
mod shapes;
mod spans;
mod values;
mod view;

/// The replacement for a text that cannot be masked safely.
pub const REDACTED: &str = "[REDACTED: data masking failure — tool result could not be safely processed]";
/// The largest text that is masked, with few rules; a larger one is redacted whole.
pub const MAX_BYTES: usize = 32 << 20;
/// The maximum number of bytes that all rules read together, well within the fuel of one call.
const MAX_WORK: usize = 80 << 20;

/// Returns the names of the built-in patterns, the most specific first.
pub fn pattern_names() -> Vec<&'static str> {
    PATTERNS.iter().map(|pattern| pattern.name).collect()
}

/// Returns the names of the built-in groups.
pub fn group_names() -> Vec<&'static str> {
    GROUPS.iter().map(|(name, _)| *name).chain([ALL]).collect()
}

/// The group of all patterns.
const ALL: &str = "all";
/// The pattern, and the group, that takes out what no reader sees.
const HIDDEN: &str = "hidden";

/// Returns the patterns of a group.
fn group(name: &str) -> Option<Vec<&'static str>> {
    if name == ALL {
        return Some(pattern_names());
    }
    GROUPS.iter().find(|(group, _)| *group == name).map(|(_, members)| members.to_vec())
}

/// Returns the replacement for the values of a pattern.
fn replacement(pattern: &str) -> String {
    match pattern {
        "kubernetes_secret" => "[MASKED_SECRET_DATA]".to_owned(),
        name => format!("[MASKED_{}]", name.to_ascii_uppercase()),
    }
}

/// Compiled masks: a cache of the settings that it was built from.
#[derive(Debug)]
pub struct Masker {
    /// Whether to take out what no reader sees.
    hidden: bool,
    custom: Vec<Regex>,
    /// The rank and the finder of each built-in rule.
    finders: Vec<(usize, Finder)>,
    /// The index of the finder for each rule of the table, if the rule is wanted.
    by_rule: Vec<Option<usize>>,
    /// The replacement of each rule, by rank; if several rules find a span, the lowest rank wins.
    replacements: Vec<String>,
    /// How many rules read all of a text, so that it may not be too long.
    readers: usize,
}

impl Masker {
    /// Compiles the masks.
    pub fn new(masks: &Masks) -> Result<Masker, MaskError> {
        let mut wanted = vec![false; PATTERNS.len()];
        for group in &masks.groups {
            let members =
                self::group(group).ok_or_else(|| MaskError::UnknownGroup(UnknownName::new(group, group_names())))?;
            PATTERNS.iter().zip(&mut wanted).for_each(|(pattern, wanted)| *wanted |= members.contains(&pattern.name));
        }
        for name in &masks.patterns {
            let at = PATTERNS.iter().position(|pattern| pattern.name == name);
            wanted[at.ok_or_else(|| MaskError::UnknownPattern(UnknownName::new(name, pattern_names())))?] = true;
        }
        let custom = masks.custom.iter().map(|mask| compile(&mask.pattern)).collect::<Result<Vec<_>, _>>()?;
        let hidden = PATTERNS.iter().zip(&wanted).any(|(pattern, wanted)| *wanted && pattern.name == HIDDEN);
        let in_group = masks.groups.iter().any(|group| group != HIDDEN);
        let mut replacements = Vec::new();
        for mask in &masks.custom {
            let seen = if hidden { hidden::take_out(&mask.replacement, false, &mut TakenOut::default()) } else { None };
            replacements.push(seen.unwrap_or_else(|| mask.replacement.clone()));
        }
        let mut readers = custom.len();
        let (mut finders, mut by_rule) = (Vec::new(), Vec::new());
        for (pattern, wanted) in PATTERNS.iter().zip(wanted) {
            for (number, rule) in (by_rule.len()..).zip(pattern.rules) {
                // An unmistakable token is masked by every group.
                let is_looked_for = wanted || in_group && rule.is_in_all_groups();
                if !is_looked_for {
                    by_rule.push(None);
                    continue;
                }
                readers += usize::from(wanted);
                by_rule.push(Some(finders.len()));
                finders.push((replacements.len(), Finder::new(rule, number)));
            }
            replacements.push(replacement(pattern.name));
        }
        Ok(Masker { hidden, custom, finders, by_rule, replacements, readers })
    }

    /// Reports whether there are no masks.
    pub fn is_empty(&self) -> bool {
        !self.hidden && self.custom.is_empty() && self.finders.is_empty()
    }

    /// Counts what masking takes out of a text because no reader sees it.
    pub fn count_hidden(&self, text: &str) -> TakenOut {
        let mut taken = TakenOut::default();
        if self.hidden && !self.is_too_large(text.len()) {
            hidden::take_out(text, false, &mut taken);
        }
        taken
    }

    /// Replaces everything that the masks find; if that is not safe, redacts the whole text.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        if self.is_too_large(text.len()) {
            return Cow::Borrowed(REDACTED);
        }
        if escapes::has_spelt(text) && is_json(text) {
            return Cow::Owned(self.mask_until_still(&escapes::plain(text), false).into_owned());
        }
        self.mask_until_still(text, false)
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
            Cow::Borrowed(text) => self.mask_until_still(text, true),
            Cow::Owned(plain) => Cow::Owned(self.mask_until_still(&plain, true).into_owned()),
        }
    }

    /// Reports whether the masks surely find nothing in a JSON text, of which this text is a string. It is there already,
    /// so this takes half the time of masking, which reads the strings again and remembers where each byte came from.
    pub fn find_nothing(&self, json: &str, text: &str) -> bool {
        // A custom rule may replace line breaks, which a string does not show it.
        self.custom.is_empty()
            && !self.is_too_large(json.len())
            && self.without_hidden(json, true).is_none()
            && !escapes::has_spelt(text)
            && matches!(escapes::plain(json), Cow::Borrowed(_))
            && escapes::is_only_escaped_string(json, text)
            && self.spans(json, &escapes::around_strings(json), MAX_LEVEL).is_empty()
            && self.all_spans(text, 1).is_empty()
    }

    /// Masks tokens with a known prefix (`ghp_…`) that line breaks split, for example because a server sends them in
    /// several blocks.
    pub fn mask_across_lines<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_unmistakable = |finder: &Finder| finder.is_unmistakable();
        if !self.finders.iter().any(|(_, finder)| is_unmistakable(finder)) || self.is_too_large(text.len()) {
            return Cow::Borrowed(text);
        }
        let Some(line) = fold::one_line(text) else { return Cow::Borrowed(text) };
        let mut spans = Vec::new();
        self.find(&line.text, &whole(&line.text), is_unmistakable, &mut |span| spans.push(line.outside(span)));
        spans.retain(|span| text[span.start..span.end].contains('\n'));
        if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.replace(text, merge(spans))) }
    }

    /// Masks a text, which may be known to be JSON, repeatedly until nothing changes.
    ///
    /// The second pass usually finds nothing. But a mask can turn prose into a value, and masking twice must not change
    /// the result.
    fn mask_until_still<'a>(&self, text: &'a str, known_json: bool) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        let mut may_have_hidden = self.without_hidden(text, known_json).is_some();
        if may_have_hidden {
            // A name or a token that a sequence takes a letter of is found before it does.
            let spans = self.spans(text, &whole(text), 0);
            if !spans.is_empty() {
                masked = Cow::Owned(self.replace_spans(text, spans, known_json));
            }
        }
        for _ in 0..MAX_LOOKS {
            if may_have_hidden && let Some(seen) = self.without_hidden(&masked, known_json) {
                masked = Cow::Owned(seen);
            }
            may_have_hidden = true;
            let parts = if known_json { escapes::around_strings(&masked) } else { whole(&masked).into() };
            let spans = self.spans(&masked, &parts, 0);
            if spans.is_empty() {
                return masked;
            }
            let next = self.replace_spans(&masked, spans, known_json);
            if next == masked {
                return masked;
            }
            masked = Cow::Owned(next);
        }
        // Masks that keep creating new matches cannot be trusted.
        if known_json || is_json(text) { redacted_json() } else { Cow::Borrowed(REDACTED) }
    }

    /// Returns a text without what no reader sees, if it has any of that and it is to be taken out.
    fn without_hidden(&self, text: &str, known_json: bool) -> Option<String> {
        if self.hidden { hidden::take_out(text, known_json, &mut TakenOut::default()) } else { None }
    }

    /// Replaces what was found in a text, which stays JSON if it is.
    fn replace_spans(&self, text: &str, spans: Vec<Span>, known_json: bool) -> String {
        if known_json || is_json(text) { self.replace_in_json(text, spans) } else { self.replace(text, merge(spans)) }
    }

    /// Reports whether a text of this size is not masked: each rule reads all of it, and a larger text is redacted at once.
    fn is_too_large(&self, bytes: usize) -> bool {
        bytes > MAX_BYTES.min(MAX_WORK / self.readers.max(1))
    }

    /// Returns everything that the masks find in a text and in the JSON strings inside it, in any order.
    fn all_spans(&self, text: &str, level: u32) -> Vec<Span> {
        self.spans(text, &whole(text), level)
    }

    /// Returns everything that the masks find in these parts of a text and in the JSON strings inside it, in any order.
    fn spans(&self, text: &str, parts: &[Range<usize>], level: u32) -> Vec<Span> {
        if let Some(view) = escapes::spelt(text) {
            return self.all_spans(&view.text, level).into_iter().map(|span| view.outside(span)).collect();
        }
        let mut spans = Vec::new();
        for (rank, regex) in self.custom.iter().enumerate() {
            let has_value = regex.capture_names().any(|name| name == Some("value"));
            matches(regex, has_value, text, |start, end| {
                spans.push(Span { rank, ..Span::new(start, end) });
            });
        }
        let names = self.find(text, parts, |_| true, &mut |span| spans.push(span));
        if self.finders.iter().any(|(_, finder)| matches!(finder, Finder::Key(_))) {
            self.find_named(text, &names, &mut |span| spans.push(span));
        }
        if !spans.is_empty() {
            let done = self.done(text);
            spans.iter_mut().for_each(|span| keep_escapes(text, span));
            spans.retain(|span| span.start < span.end && !covered(&done, span));
        }
        if let Some(seen) = fold::text_as_seen(text) {
            let found = self.all_spans(&seen.text, MAX_LEVEL);
            spans.extend(found.into_iter().map(|span| seen.outside(span)));
        }
        let inner = if level < MAX_LEVEL { escapes::strings(text) } else { None };
        if let Some(view) = inner {
            let found = self.all_spans(&view.text, level + 1);
            spans.extend(found.into_iter().flat_map(|span| escapes::outside(&view, span)));
        }
        spans
    }

    /// Reports what some finders find in parts of a text; returns where there are words that names of secrets contain.
    fn find(
        &self,
        text: &str,
        parts: &[Range<usize>],
        wanted: impl Fn(&Finder) -> bool,
        report: &mut dyn FnMut(Span),
    ) -> Vec<usize> {
        let mut names = Vec::new();
        let mut scans: Vec<bool> = self.finders.iter().map(|(_, finder)| finder.reads_any_text()).collect();
        let look = |at, index: usize| {
            let (rank, finder) = &self.finders[index];
            scans[index] = true;
            if wanted(finder) { finder.look(text, at, &mut |span| report(Span { rank: *rank, ..span })) } else { None }
        };
        self.each_beginning(text, parts, look, |at| names.push(at));
        for ((rank, finder), _) in
            self.finders.iter().zip(scans).filter(|((_, finder), scans)| *scans && wanted(finder))
        {
            finder.scan(text, parts, &mut |span| report(Span { rank: *rank, ..span }));
        }
        names
    }

    /// Calls `look` where a finder may find something; if it does, `look` returns where it may find the next.
    fn each_beginning(
        &self,
        text: &str,
        parts: &[Range<usize>],
        mut look: impl FnMut(usize, usize) -> Option<usize>,
        mut name: impl FnMut(usize),
    ) {
        let mut next = vec![0; self.finders.len()];
        let mut each = |at, word: &Word| {
            if word.in_names {
                name(at);
            }
            for index in word.rules.iter().filter_map(|rule| self.by_rule[*rule]) {
                if at >= next[index]
                    && let Some(end) = look(at, index)
                {
                    next[index] = end;
                }
            }
        };
        parts.iter().for_each(|part| automata::each_word(text, part.clone(), &mut each));
    }

    /// Reports the values whose names are elsewhere in the text, given where words of names are.
    fn find_named(&self, text: &str, names: &[usize], report: &mut dyn FnMut(Span)) {
        // All cells of a column share one name.
        let mut keys: BTreeMap<(usize, usize), Vec<(usize, String)>> = BTreeMap::new();
        for NamedValue { name, value, bond } in named_values::find(text, names) {
            let keys = keys.entry((name.start, name.end)).or_insert_with(|| self.keys(&text[name]));
            for (index, key) in keys {
                let (rank, finder) = &self.finders[*index];
                if finder.is_secret(key, &text[value.start..value.end], bond) {
                    report(Span { rank: *rank, ..value });
                }
            }
        }
    }

    /// Returns the finders for whose keys this is a name, each with the key in lower case.
    fn keys(&self, name: &str) -> Vec<(usize, String)> {
        let assignment = format!("{name}=");
        let mut found = Vec::new();
        self.each_beginning(
            &assignment,
            &whole(&assignment),
            |at, index| {
                let Finder::Key(rule) = &self.finders[index].1 else { return None };
                let end = rule.key_end(&assignment, at)?;
                if end == assignment.len() {
                    found.push((index, assignment[at..].to_ascii_lowercase()));
                }
                Some(end)
            },
            |_| {},
        );
        found
    }

    /// Returns what is already masked: masks, redactions and the replacements of custom masks, in order.
    fn done(&self, text: &str) -> Vec<(usize, usize)> {
        let mut done: Vec<(usize, usize)> = memchr_iter(b'[', text.as_bytes())
            .filter_map(|at| values::mask_length(&text[at..]).map(|length| (at, at + length)))
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
        // Up to where the strings with spans have been read for escapes.
        let mut read = 0;
        let mut is_certain = true;
        spans.sort_unstable_by_key(|span| span.start);
        spans.retain_mut(|span| {
            while tokens.next_if(|token| token.end <= span.start).is_some() {}
            let is_custom = span.rank < self.custom.len();
            let token = tokens.peek().filter(|token| token.start <= span.start);
            match token {
                Some(token) if token.string && span.end <= token.end => {
                    span.level = span.level.max(1);
                    // A part of a string may be replaced if that leaves all its escapes whole.
                    read = escapes::next_whole(text, read.max(token.start), span.start);
                    is_certain &= span.quoted.is_none()
                        && read == span.start
                        && escapes::next_whole(text, read, span.end) == span.end;
                }
                // A part of a number cannot be replaced, but the whole number can, by a string.
                Some(token) if span.end <= token.end => {
                    *span = Span { start: token.start, end: token.end, quoted: Some(0), ..*span };
                    is_certain &= !is_custom;
                }
                // The built-in rules mistake `"password:"` for a key and an opening quote; custom rules mean what they
                // match.
                Some(token) if span.quoted.is_none() && !is_custom => {
                    span.end = token.end;
                    is_certain = false;
                }
                None if span.quoted.is_none() && !is_custom => return false,
                _ => is_certain = false,
            }
            true
        });
        let masked = self.replace(text, merge(spans));
        if is_certain || json::parse(&masked).is_ok() { masked } else { redacted_json().into_owned() }
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

/// Returns a text as its only part.
fn whole(text: &str) -> [Range<usize>; 1] {
    std::array::from_fn(|_| 0..text.len())
}

/// Reports whether a text is JSON with a structure to keep: `123456` is a text that happens to be JSON.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"']) && json::parse(text).is_ok()
}

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

/// Reports each match of an expression, or its group `value`.
fn matches(regex: &Regex, has_value: bool, text: &str, mut report: impl FnMut(usize, usize)) {
    if has_value {
        for found in regex.captures_iter(text) {
            if let Some(value) = found.name("value").or(found.get(0)) {
                report(value.start(), value.end());
            }
        }
    } else {
        regex.find_iter(text).for_each(|found| report(found.start(), found.end()));
    }
}

#[cfg(test)]
mod tests;
