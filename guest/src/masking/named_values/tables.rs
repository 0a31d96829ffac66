//! Tables with a header, and values on the line below their name.

use std::ops::Range;

use memchr::{memchr, memrchr};

use super::{MAX_NAME, MIN_VALUE, NameRelation, NamedValue, may_name};
use crate::masking::Span;

/// Reports the cells of tables and the values below names, given where words of names are, in order.
pub(super) fn find(text: &str, words: &[usize], found: &mut Vec<NamedValue>) {
    let mut words = words;
    let mut start = 0;
    loop {
        words = &words[words.partition_point(|word| *word < start)..];
        let Some(word) = words.first() else { return };
        start = memrchr(b'\n', &text.as_bytes()[..*word]).map_or(0, |newline| newline + 1);
        let (line, next) = line_at(text, start);
        let header = if line.len() <= MAX_LINE { Header::read(text, start, line, next) } else { None };
        let near = start + line.len().saturating_sub(MAX_LINE);
        if words.iter().take_while(|word| **word < next).any(|word| *word >= near) {
            below(text, start, line, next, found);
        }
        start = next;
        // The rows follow; the first line that is none may be the header of the next table.
        while let Some(header) = &header
            && start < text.len()
        {
            let (line, next) = line_at(text, start);
            if !header.row(text, start, line, found) {
                break;
            }
            start = next;
        }
    }
}

/// Returns a line without its line break, and the position of the next line.
fn line_at(text: &str, start: usize) -> (&str, usize) {
    let end = memchr(b'\n', &text.as_bytes()[start..]).map_or(text.len(), |at| start + at);
    (text[start..end].trim_end_matches('\r'), (end + 1).min(text.len()))
}

/// Finds a value alone on the line below `name:`, possibly after an empty line.
fn below(text: &str, start: usize, line: &str, next: usize, found: &mut Vec<NamedValue>) {
    let shown = line.trim_end().trim_end_matches(['*', '_', '`']);
    let Some(name) = shown.strip_suffix([':', '=']).map(str::trim_end) else { return };
    let name = name.trim_end_matches(['*', '_', '`', '"', '\'']);
    let (mut at, mut candidate, mut after) = (next, "", next);
    for _ in 0..2 {
        let (line, next) = line_at(text, after);
        (at, candidate, after) = (after, line, next);
        if !candidate.trim().is_empty() {
            break;
        }
    }
    let value = candidate.trim().trim_matches(['`', '*']);
    let at = at + (candidate.len() - candidate.trim_start().len());
    let at = at + text[at..].bytes().take_while(|byte| b"`*".contains(byte)).count();
    // The other rules find quoted values.
    let begins = value.starts_with(['"', '\'', '-', '#', '/', '<', '{', '[', '(', '|', '>', '$', '%', '@', '=']);
    if value.len() < MIN_VALUE || begins || value.contains(char::is_whitespace) || is_member(value) {
        return;
    }
    let from = name.ceil_char_boundary(name.len().saturating_sub(MAX_NAME));
    let value = Span::new(at, at + value.len());
    found.push(NamedValue { name: start + from..start + name.len(), value, bond: NameRelation::Below });
}

/// Reports whether a text is `name:`, `name=value` or `name: value`; the padding of base64 does not count.
fn is_member(value: &str) -> bool {
    let name = value.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte)).count();
    match &value.as_bytes()[name..] {
        [b':', ..] => true,
        [b'=', rest @ ..] => rest.iter().any(|byte| *byte != b'='),
        _ => false,
    }
}

/// The column names of a table.
struct Header {
    delimiter: char,
    names: Vec<Range<usize>>,
    bond: NameRelation,
}

impl Header {
    fn read(text: &str, start: usize, line: &str, next: usize) -> Option<Header> {
        let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '(' | ')' | '#');
        // Most lines are no header, and this is sooner seen than which cells they have.
        let is_any = |c: char| is_letter(c) || matches!(c, '\t' | '|' | ';' | ',' | '"') || c.is_whitespace();
        if line.ends_with('.') || !line.chars().all(is_any) {
            return None;
        }
        let delimiter = ['\t', '|', ';', ','].into_iter().find(|delimiter| line.contains(*delimiter))?;
        let names = cells(start, line, delimiter);
        let fits = |name: &Range<usize>| {
            let name = &text[name.clone()];
            (1..=MAX_CELL).contains(&name.len())
                && name.chars().all(is_letter)
                && name.contains(char::is_alphabetic)
                && name.split(' ').count() <= 3
        };
        if !(2..=MAX_COLUMNS).contains(&names.len()) || !names.iter().all(fits) {
            return None;
        }
        let ruled = is_rule(line_at(text, next).0);
        let bond = match delimiter {
            // Pipes between cells begin the line or have a rule below them; a cell of a Markdown table may be prose.
            '|' if line.trim_start().starts_with('|') => NameRelation::Loose,
            '|' if ruled => NameRelation::Column,
            '|' => return None,
            // In prose, a blank follows a comma.
            ',' | ';' if line.contains(' ') => NameRelation::Loose,
            _ => NameRelation::Column,
        };
        Some(Header { delimiter, names, bond })
    }

    /// Reports the cells of a line if it is a row of the table.
    fn row(&self, text: &str, start: usize, line: &str, found: &mut Vec<NamedValue>) -> bool {
        if is_rule(line) {
            return true;
        }
        let cells = cells(start, line, self.delimiter);
        if cells.len() != self.names.len() {
            return false;
        }
        for (name, cell) in self.names.iter().zip(cells) {
            let value = &text[cell.clone()];
            if may_name(&text[name.clone()]) && value.len() >= MIN_VALUE && !value.contains(char::is_whitespace) {
                found.push(NamedValue { name: name.clone(), value: Span::new(cell.start, cell.end), bond: self.bond });
            }
        }
        true
    }
}

/// Reports whether a line is a rule such as `|---|:--:|` or `-----+-----`.
fn is_rule(line: &str) -> bool {
    line.contains("--") && line.bytes().all(|byte| b"-+|: ".contains(&byte))
}

/// Returns the cells of a line, without surrounding blanks and quotes.
fn cells(start: usize, line: &str, delimiter: char) -> Vec<Range<usize>> {
    let mut cells = Vec::new();
    let (mut from, mut quoted) = (0, false);
    let ends = line.char_indices().filter(|(_, c)| {
        quoted ^= *c == '"';
        *c == delimiter && !quoted
    });
    for end in ends.map(|(at, _)| at).chain([line.len()]) {
        let cell = line[from..end].trim_start();
        let mut at = start + end - cell.len();
        let mut inner = cell.trim_end();
        if let Some(unquoted) = inner.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
            inner = unquoted;
            at += 1;
        }
        cells.push(at..at + inner.len());
        from = (end + delimiter.len_utf8()).min(line.len());
        if cells.len() > MAX_COLUMNS + 2 {
            break;
        }
    }
    if delimiter == '|' {
        // Drop the empty cells outside the first and last pipe.
        cells.pop_if(|cell| cell.start == cell.end);
        if cells.first().is_some_and(|cell| cell.start == cell.end) {
            cells.remove(0);
        }
    }
    cells
}

const MAX_CELL: usize = 40;
const MAX_COLUMNS: usize = 64;
/// Headers are short; in longer lines, only the end may be a name.
const MAX_LINE: usize = 1024;
