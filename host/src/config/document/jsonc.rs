//! Parses JSON with comments and trailing commas.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::super::error::ConfigError;
use super::line_index::LineIndex;
use super::node::{DocumentFault, MAX_DEPTH, MapBuilder, MapEntry, Node, NodeValue, Scalar, ScalarKind};

/// Parses JSON; the root is `None` if there is no value. Returns faults that other JSON parsers accept separately.
pub(super) fn read(text: &str, file: &Arc<Path>) -> Result<(Option<Node>, Vec<DocumentFault>), ConfigError> {
    let lines = LineIndex::new(text, file);
    let (whole, halves) = replace_lone_surrogates(text);
    let parsed = parse_to_ast(&whole, &CollectOptions::default(), &OPTIONS).map_err(|error| {
        let text = format!("not valid JSON: {}", lower_first(&error.kind().to_string()));
        ConfigError::syntax(lines.position(error.range().start), text)
    })?;
    let Some(root) = parsed.value else { return Ok((None, Vec::new())) };
    let outermost: Vec<_> = match &root {
        ast::Value::Object(object) => {
            object.properties.iter().map(|property| (property.range(), property.name.clone().into_string())).collect()
        }
        _ => Vec::new(),
    };
    let half = "half of a surrogate pair is not a character; read as U+FFFD";
    let mut reader = JsonReader { lines, faults: halves.into_iter().map(|at| (at, half.to_owned(), None)).collect() };
    let root = reader.node(root, 0);
    let JsonReader { lines, mut faults } = reader;
    faults.sort_by_key(|(at, ..)| *at);
    let fault = |(at, text, duplicate_key)| {
        let top_key = outermost.iter().find(|(range, _)| (range.start..range.end).contains(&at));
        DocumentFault { place: lines.position(at), text, top_key: top_key.map(|(_, key)| key.clone()), duplicate_key }
    };
    Ok((Some(root), faults.into_iter().map(fault).collect()))
}

struct JsonReader<'t> {
    lines: LineIndex<'t>,
    /// Byte offsets of faults, with a description and the key that is given twice there.
    faults: Vec<(usize, String, Option<String>)>,
}

impl JsonReader<'_> {
    fn node(&mut self, value: ast::Value<'_>, depth: usize) -> Node {
        let start = value.range().start;
        let position = self.lines.position(start);
        let scalar = |kind, text: String| NodeValue::Scalar(Scalar { text, kind, quotes: None });
        let value = match value {
            _ if depth > MAX_DEPTH => {
                self.faults.push((start, format!("nested deeper than {MAX_DEPTH} levels; ignored"), None));
                scalar(ScalarKind::Null, String::new())
            }
            ast::Value::NullKeyword(_) => scalar(ScalarKind::Null, String::new()),
            ast::Value::BooleanLit(literal) => scalar(ScalarKind::Bool, literal.value.to_string()),
            ast::Value::NumberLit(literal) => scalar(ScalarKind::Number, literal.value.to_owned()),
            ast::Value::StringLit(literal) => scalar(ScalarKind::Text, literal.value.into_owned()),
            ast::Value::Array(array) => {
                NodeValue::List(array.elements.into_iter().map(|element| self.node(element, depth + 1)).collect())
            }
            ast::Value::Object(object) => NodeValue::Map(self.entries(object, depth)),
        };
        Node { place: position, value }
    }

    /// Reads the members; of duplicate names the last one counts, as JSON parsers commonly do.
    fn entries(&mut self, object: ast::Object<'_>, depth: usize) -> Vec<MapEntry> {
        let mut entries = MapBuilder::default();
        for property in object.properties {
            let start = property.name.range().start;
            let position = self.lines.position(start);
            let value = self.node(property.value, depth + 1);
            let entry = MapEntry { key: property.name.into_string(), place: position, value };
            if let Some(text) = entries.describe_duplicate(&entry) {
                self.faults.push((start, format!("{text}{LAST_COUNTS}"), Some(entry.key.clone())));
            }
            entries.replace(entry);
        }
        entries.all
    }
}

/// Ends the description of a key that is given twice where that is no error.
pub(crate) const LAST_COUNTS: &str = "; the last one counts";

/// Replaces each lone surrogate escape by U+FFFD, and returns their offsets. Programs that cut a text in the middle of
/// a character leave them. Byte offsets stay the same.
fn replace_lone_surrogates(text: &str) -> (Cow<'_, str>, Vec<usize>) {
    let unit = |at: usize| {
        let digits = text.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let is_low = |at: usize| unit(at).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
    let mut halves = Vec::new();
    let mut done = 0;
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[done..]) {
        let at = done + found;
        done = match unit(at) {
            Some(0xd800..0xdc00) if is_low(at + ESCAPE) => at + 2 * ESCAPE,
            Some(0xd800..0xe000) => {
                halves.push(at);
                at + ESCAPE
            }
            Some(_) => at + ESCAPE,
            // The next character is escaped, so it cannot start an escape itself.
            None => text.ceil_char_boundary(at + 2),
        };
    }
    if halves.is_empty() {
        return (Cow::Borrowed(text), halves);
    }
    let mut whole = text.to_owned();
    halves.iter().for_each(|&at| whole.replace_range(at..at + ESCAPE, "\\ufffd"));
    (Cow::Owned(whole), halves)
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// What is JSON here: comments and trailing commas, and nothing else that the parser could read.
pub(in crate::config) const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The length of `\u12ab`.
const ESCAPE: usize = 6;
