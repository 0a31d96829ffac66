//! Objects by indentation: YAML's block style, line by line.

use super::{Ending, Kind, Member, Objects, Span, flow};
use crate::masking::escapes::BREAK;

/// Returns the values of Secrets in all block mappings of a text.
pub(super) fn scan(text: &str) -> Vec<Span> {
    let mut scanner = Scanner { text, objects: Objects::default(), columns: Vec::new(), last_line: 0, is_cut: false };
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        scanner.is_cut = !line.ends_with('\n');
        scanner.line(start, line.trim_end());
        start += line.len();
    }
    scanner.close(0, Ending::Cut);
    scanner.objects.found
}

struct Scanner<'a> {
    text: &'a str,
    objects: Objects,
    /// The column of each open mapping, each further right than the last, and its value that may continue below.
    columns: Vec<(usize, Option<Value>)>,
    /// The end of the last line that was not blank.
    last_line: usize,
    /// Whether the text ends on this line and may be incomplete.
    is_cut: bool,
}

/// A value under `data` that may continue on the lines below.
#[derive(Clone, Copy)]
struct Value {
    /// Where the value begins; `None` if its first line is still to come.
    start: Option<usize>,
    /// Where the value ends if it does not continue, without a comma or comment.
    end: usize,
    /// The end of the line on which the value begins.
    line_end: usize,
    /// Whether it begins with a quote that is not closed on this line.
    open_quote: bool,
}

impl Scanner<'_> {
    fn line(&mut self, start: usize, line: &str) {
        let content = line.trim_start();
        if content.is_empty() {
            return;
        }
        let mut column = line.len() - content.len();
        if content.starts_with("---") || content.starts_with("...") || content.starts_with(BREAK) {
            self.close(column, Ending::Cut);
            self.last_line = start + line.len();
            return;
        }
        self.begin_values(start + column, column);
        // Each dash begins a new item, whose mapping starts at the column of its first key.
        let mut content = content;
        while let Some(item) = content.strip_prefix("- ") {
            self.close(column + 1, Ending::Closed);
            let blanks = item.len() - item.trim_start().len();
            column += 2 + blanks;
            content = item.trim_start();
        }
        match key(content) {
            Some((key, value)) => self.member(start + line.len(), column, key, content, value),
            // A comment ends nothing, and belongs to a value only if it is inside its lines.
            None if content.starts_with('#') => {
                if self.columns.last().is_none_or(|(own, _)| column <= *own) {
                    return;
                }
            }
            // Prose, or the continuation of a value: it ends what is further right, prematurely unless it is a brace.
            None => {
                let ending = if content.starts_with(['}', ']']) { Ending::Closed } else { Ending::Cut };
                self.close(column + 1, ending);
                self.finish_value(column);
            }
        }
        self.last_line = start + line.len();
    }

    /// Reads a key and its value on one line; `value` is the value's position in the content.
    fn member(&mut self, line_end: usize, column: usize, key: &str, content: &str, value: usize) {
        self.close(column + 1, Ending::Closed);
        self.finish_value(column);
        let member = Member::named(key);
        let is_open = self.columns.last().is_some_and(|(open, _)| *open == column);
        // A second kind or version in one mapping belongs to the next manifest, which nothing separates from the last
        // one.
        let again = is_open
            && self.objects.open.last().is_some_and(|object| match member {
                Member::Kind => object.kind != Kind::Unknown,
                Member::ApiVersion => object.core.is_some(),
                _ => false,
            });
        if again {
            self.close(column, Ending::Cut);
        }
        if !is_open || again {
            self.objects.begin(None, false);
            self.columns.push((column, None));
        }
        let Some(object) = self.objects.open.last_mut() else { return };
        object.member = member;
        let is_data = object.is_data;
        let start = line_end - content.len() + value;
        let text = uncomment(&content[value..]);
        let is_flow = text.starts_with(['{', '[']);
        if is_flow && member == Member::Data {
            flow::object(self.text, start, start + text.len(), &mut self.objects);
        }
        if is_flow && !text.trim_end_matches(',').ends_with(['}', ']']) {
            return;
        }
        let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
        let closed = quote.and_then(|quote| closing(text, quote));
        let whole = !self.is_cut;
        if let Some(close) = closed {
            self.objects.value(&text[1..close], Span::new(start + 1, start + close), whole);
            return;
        }
        let word = text.trim_end_matches(',');
        self.objects.value(word.trim_start_matches(['"', '\'']), Span::new(start, start), whole);
        let is_scalar = !word.is_empty() && !is_flow && !word.starts_with(['&', '!']);
        if !(is_data || member == Member::Data && is_scalar) || word == "null" || word == "~" {
            return;
        }
        // In JSON over several lines each line ends with a comma, and a number must become a string.
        if content.starts_with('"') && !word.is_empty() && quote.is_none() && !word.starts_with(['|', '>']) {
            let span = Span { quoted: Some(0), ..Span::new(start, start + word.len()) };
            self.objects.wait(span);
            return;
        }
        let value = Value {
            start: (!word.is_empty()).then_some(start),
            end: start + word.len(),
            line_end,
            open_quote: quote.is_some(),
        };
        if let Some((_, open)) = self.columns.last_mut() {
            *open = Some(value);
        }
    }

    /// Begins the values whose first line is this one, below their key.
    fn begin_values(&mut self, at: usize, column: usize) {
        if let Some((own, Some(value))) = self.columns.last_mut()
            && value.start.is_none()
            && column > *own
        {
            *value = Value { start: Some(at), end: at, line_end: at, open_quote: false };
        }
    }

    /// Ends the value of the innermost mapping if that is at this column or further right.
    fn finish_value(&mut self, column: usize) {
        let Some((own, value)) = self.columns.last_mut() else { return };
        if *own < column {
            return;
        }
        if let Some(Value { start: Some(start), end, line_end, open_quote }) = value.take() {
            // A value that begins below its key is a mapping, whose own values wait if it is `data`.
            let below = end == start;
            let span = if self.last_line > line_end {
                Span::new(start, self.last_line)
            } else {
                // Keep an unclosed quote, and replace only what follows it.
                Span::new(if open_quote { start + 1 } else { start }, end)
            };
            if below { self.objects.wait_in_data(span) } else { self.objects.wait(span) }
        }
    }

    /// Ends all mappings at this column or further right.
    fn close(&mut self, column: usize, ending: Ending) {
        while self.columns.last().is_some_and(|(own, _)| *own >= column) {
            self.finish_value(column);
            self.columns.pop();
            self.objects.end(self.last_line, ending);
        }
    }
}

/// Returns the key of a line, and the position of its value.
fn key(line: &str) -> Option<(&str, usize)> {
    let quote = line.chars().next().filter(|first| matches!(first, '"' | '\''));
    let (key, end) = match quote {
        Some(quote) => {
            let close = 1 + line[1..].find(quote)?;
            (&line[1..close], close + 1)
        }
        None => {
            let first = line.split([' ', '\t']).next().unwrap_or_default();
            let key = first.strip_suffix(':').unwrap_or(first);
            (key, key.len())
        }
    };
    let value = line[end..].trim_start().strip_prefix(':')?;
    let is_key = !key.is_empty() && !key.starts_with(['{', '[', '#', '"', '\'']);
    let blanks = value.len() - value.trim_start().len();
    (is_key && (blanks > 0 || value.is_empty())).then(|| (key, line.len() - value.len() + blanks))
}

/// Returns a value without the comment after it.
fn uncomment(value: &str) -> &str {
    if value.starts_with('#') {
        return "";
    }
    // In quotes, `#` is an ordinary character, and the closing quote is found anyway.
    if value.starts_with(['"', '\'']) {
        return value;
    }
    value.find(" #").map_or(value, |comment| value[..comment].trim_end())
}

/// Returns the position of the quote that closes a value.
fn closing(value: &str, quote: char) -> Option<usize> {
    let bytes = value.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if char::from(bytes[at]) == quote {
            // In single quotes, a doubled quote stands for one.
            if quote == '"' || bytes.get(at + 1) != Some(&b'\'') {
                return Some(at);
            }
            at += 1;
        } else if bytes[at] == b'\\' && quote == '"' {
            at += 1;
        }
        at += 1;
    }
    None
}
