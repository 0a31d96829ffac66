//! Values on the lines below a name, as YAML writes lists (`- x`) and members (`value: x`).

use std::ops::Range;

use memchr::{memchr, memrchr};

use super::{MAX_NAME, MIN_VALUE, NameRelation, NamedValue, VALUES, is_one_of, singular};
use crate::masking::Span;

/// Reports the values below names, given where words of names are, in order.
pub(super) fn find(text: &str, words: &[usize], found: &mut Vec<NamedValue>) {
    let mut next = 0;
    for word in words {
        if *word < next {
            continue;
        }
        let start = memrchr(b'\n', &text.as_bytes()[next..*word]).map_or(next, |newline| next + newline + 1);
        let end = memchr(b'\n', &text.as_bytes()[*word..]).map_or(text.len(), |newline| *word + newline);
        next = (end + 1).min(text.len());
        let Some((indent, name)) = name_of_lines(text, start, end) else { continue };
        let mut line_start = next;
        while line_start < text.len() {
            let line_end = memchr(b'\n', &text.as_bytes()[line_start..]).map_or(text.len(), |at| line_start + at);
            let line = &text[line_start..line_end];
            let content = line.trim_start_matches(' ');
            if let Some((at, value)) = value_of_line(content, line.len() - content.len(), indent) {
                let at = line_end - content.len() + at;
                report(text, &name, Span::new(at, at + value.len()), found);
            } else if !content.trim().is_empty() {
                break;
            }
            line_start = line_end + 1;
        }
        // A line that is no value may be a name again.
        next = line_start.min(text.len());
    }
}

/// Returns the indent of a line that is a name and a colon, and where its name is.
fn name_of_lines(text: &str, start: usize, end: usize) -> Option<(usize, Range<usize>)> {
    let line = text[start..end].trim_end();
    let before = line.strip_suffix(':')?.trim_end().trim_end_matches(['"', '\'']);
    let indent = before.len() - before.trim_start_matches([' ', '-']).len();
    let name = before[indent..].trim_start_matches(['"', '\'']);
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_of_name) {
        return None;
    }
    let from = start + before.len() - name.len();
    Some((indent, from..from + name.len()))
}

/// Returns the value that a line gives a name with this indent, and its place in the content of the line.
fn value_of_line(content: &str, line_indent: usize, indent: usize) -> Option<(usize, &str)> {
    let said = match content.strip_prefix("- ") {
        Some(item) if line_indent >= indent => item,
        None if line_indent > indent => {
            let (member, value) = content.split_once(": ")?;
            is_one_of(member.trim_matches(['"', '\'']), VALUES).then_some(value)?
        }
        _ => return None,
    };
    let value = said.trim();
    let is_quoted = value.starts_with(['"', '\'']);
    let inner = value.trim_matches(['"', '\'']);
    // A list of members or of other lists.
    if !is_quoted
        && (value.ends_with(':') || value.contains(": ") || value.starts_with(['[', '{', '-', '*', '&', '|', '>']))
    {
        return None;
    }
    let at = content.len() - said.trim_start().len() + usize::from(is_quoted);
    Some((at, inner))
}

fn report(text: &str, name: &Range<usize>, value: Span, found: &mut Vec<NamedValue>) {
    let said = &text[value.start..value.end];
    if said.len() < MIN_VALUE {
        return;
    }
    let is_quoted = text[..value.start].ends_with(['"', '\'']);
    if said.contains(' ') && !is_quoted {
        // In prose, a list of sentences may follow a name.
        return;
    }
    let (one, many) = match is_quoted {
        true => (NameRelation::Entry, NameRelation::Column),
        false => (NameRelation::Column, NameRelation::Loose),
    };
    found.push(NamedValue { name: name.clone(), value, bond: one });
    if let Some(name) = singular(text, name) {
        found.push(NamedValue { name, value, bond: many });
    }
}
