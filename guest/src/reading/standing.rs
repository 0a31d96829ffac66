//! How a call stands in its text: for itself, or as something that the text mentions or quotes.

use super::cursor::Cursor;
use super::marks::{Tag, TagKind};
use super::react::{Label, label};
use super::{ReadCall, Standing};

/// A part of the text that was read as a whole: one call, or several with what is around them.
#[derive(Debug)]
pub(super) struct Construct {
    pub start: usize,
    pub end: usize,
    /// The place of its first call.
    pub first: usize,
    pub kind: ConstructKind,
    /// Whether it stands in something that is quoted.
    pub is_quoted: bool,
}

/// What a construct is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ConstructKind {
    Plain,
    /// In a code fence.
    Fenced,
    /// In tags, after a mark or under a label.
    Marked,
    /// A thought, which has no calls.
    Thought,
}

/// What is on the line before a construct.
struct Before {
    /// Whether it is nothing but decoration.
    is_clean: bool,
    /// Whether it begins as a quote.
    is_quote: bool,
}

/// Says of each call how it stands.
pub(super) fn decide(text: &str, constructs: &[Construct], calls: &mut [ReadCall]) {
    let (before, in_quotes) = look_back(text, constructs);
    let after = look_ahead(text, constructs);
    let mut end = calls.len();
    for (place, construct) in constructs.iter().enumerate().rev() {
        let is_alone = before[place].is_clean && after[place];
        let is_quoted = construct.is_quoted || before[place].is_quote || in_quotes[place];
        let standing = match construct.kind {
            _ if is_quoted => Standing::Quoted,
            _ if !is_alone && is_in_quotes(text, construct) => Standing::Quoted,
            _ if !is_alone => Standing::Inline,
            ConstructKind::Fenced => Standing::Fenced,
            ConstructKind::Marked => Standing::Marked,
            ConstructKind::Plain | ConstructKind::Thought => Standing::OwnLine,
        };
        let first = construct.first.min(end);
        for call in &mut calls[first..end] {
            call.standing = standing;
        }
        end = first;
    }
}

/// Reports whether what is on the line before this byte, after the last construct, is more than decoration.
pub(super) fn is_mention(text: &str, constructs: &[Construct], at: usize) -> bool {
    let from = constructs.last().map_or(0, |last| last.end).min(at);
    let line = last_line(&text[from..at]);
    !is_decoration(line, Side::Before) || line.trim_start().starts_with('>')
}

/// Looks at what is before each construct; also says which constructs stand between quotation marks.
fn look_back(text: &str, constructs: &[Construct]) -> (Vec<Before>, Vec<bool>) {
    let mut before: Vec<Before> = Vec::with_capacity(constructs.len());
    let mut quotes = Quotes { open: None, waiting: Vec::new(), quoted: vec![false; constructs.len()] };
    let mut at = 0;
    for (place, construct) in constructs.iter().enumerate() {
        let gap = &text[at..construct.start.max(at)];
        let line = last_line(gap);
        let mut is_clean = is_decoration(line, Side::Before);
        let mut is_quote = line.trim_start().starts_with('>');
        if line.len() == gap.len()
            && let Some(last) = before.last()
            && constructs[place - 1].kind != ConstructKind::Thought
        {
            is_clean &= last.is_clean;
            is_quote = last.is_quote;
        }
        before.push(Before { is_clean, is_quote });
        quotes.pass(gap);
        quotes.enter(place);
        at = construct.end.max(at);
    }
    quotes.pass(&text[at..]);
    (before, quotes.quoted)
}

/// Reports of each construct whether nothing but decoration follows it on its line.
fn look_ahead(text: &str, constructs: &[Construct]) -> Vec<bool> {
    let mut after = vec![true; constructs.len()];
    for (place, construct) in constructs.iter().enumerate().rev() {
        let next = constructs.get(place + 1);
        let gap = &text[construct.end..next.map_or(text.len(), |next| next.start.max(construct.end))];
        let line = gap.split('\n').next().unwrap_or_default();
        let goes_on = line.len() == gap.len() && next.is_some_and(|next| next.kind != ConstructKind::Thought);
        let is_free_to_end = !goes_on || after[place + 1];
        after[place] = is_free_to_end && is_decoration(line, Side::After);
    }
    after
}

/// The quotation marks of a paragraph, from construct to construct.
struct Quotes {
    /// The mark that closes the quotation that is open.
    open: Option<char>,
    /// The constructs in the open quotation, which counts only if it is closed.
    waiting: Vec<usize>,
    quoted: Vec<bool>,
}

impl Quotes {
    /// Goes through the text between two constructs.
    fn pass(&mut self, gap: &str) {
        let mut is_blank = false;
        for line in gap.split_inclusive('\n') {
            // A quotation ends with its paragraph.
            if is_blank && line.trim().is_empty() || line.trim_start().starts_with("```") {
                self.open = None;
                self.waiting.clear();
            }
            is_blank = line.ends_with('\n');
            for letter in line.chars() {
                if self.open == Some(letter) {
                    self.open = None;
                    for place in self.waiting.drain(..) {
                        self.quoted[place] = true;
                    }
                } else if self.open.is_none() {
                    self.open = closing_quote(letter);
                }
            }
        }
    }

    fn enter(&mut self, place: usize) {
        if self.open.is_some() {
            self.waiting.push(place);
        }
    }
}

/// Returns the mark that closes a quotation which this one opens. Apostrophes look like single quotes, so these do not
/// count.
fn closing_quote(letter: char) -> Option<char> {
    Some(match letter {
        '"' => '"',
        '“' | '„' => '”',
        '«' => '»',
        _ => return None,
    })
}

/// Reports whether a construct has a quotation mark or a backtick directly before it.
fn is_in_quotes(text: &str, construct: &Construct) -> bool {
    let before = text[..construct.start].trim_end_matches([' ', '*', '[', '<']);
    before.ends_with(['"', '\'', '`', '“', '”', '„', '‘', '’', '‚', '«', '»'])
}

/// Returns the last line of a text.
fn last_line(text: &str) -> &str {
    text.rfind('\n').map_or(text, |at| &text[at + 1..])
}

/// The side of a construct that a part of its line is on.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Before,
    After,
}

/// Reports whether a part of a line has nothing but what models write around a call: brackets, the marks of Markdown,
/// tags; before it the number of an item or the label `Action:`, and after it a comment.
fn is_decoration(line: &str, side: Side) -> bool {
    let mut line = line.trim();
    if side == Side::Before {
        if line.strip_prefix("```").is_some_and(is_language) {
            return true;
        }
        line = without_number(line);
        // An item of a list of things to do.
        if line.contains("[ ]") {
            return false;
        }
    }
    let mut cursor = Cursor::new(line, 0);
    let mut has_mark = false;
    loop {
        cursor.take(|byte| b" \t\r`*_->[](){},;+".contains(&byte));
        if let Some(bullet) = cursor.rest().chars().next().filter(|letter| "•◦▪‣·".contains(*letter)) {
            cursor.at += bullet.len_utf8();
            continue;
        }
        match cursor.peek() {
            None => return true,
            Some(b'#') if side == Side::After => return true,
            Some(b'/') if side == Side::After && cursor.sees("//") => return true,
            Some(b'<') => match Tag::read(line, cursor.at) {
                Some(tag) => {
                    has_mark |= tag.kind == TagKind::Bar;
                    cursor.at = tag.end;
                }
                None => return false,
            },
            // The header of a message names its author and its channel.
            Some(_) if has_mark => {
                if !HEADERS.contains(&cursor.take(|byte| byte.is_ascii_lowercase())) {
                    return false;
                }
            }
            Some(_) => match label(line, cursor.at, true) {
                Some((Label::Action, end)) if side == Side::Before => cursor.at = end,
                _ => return false,
            },
        }
    }
}

/// Reports whether a text after the beginning of a code fence is at most the name of a language.
fn is_language(text: &str) -> bool {
    let language = text.trim_start_matches('`').trim();
    language.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-+.#".contains(letter))
}

/// Returns a line without the number of an item at its beginning.
fn without_number(line: &str) -> &str {
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match rest.strip_prefix(['.', ')']) {
        Some(item) if rest.len() < line.len() => item,
        _ => line,
    }
}

/// The words between the marks of a message's header.
const HEADERS: [&str; 4] = ["assistant", "commentary", "analysis", "final"];
