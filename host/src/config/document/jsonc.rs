//! JSON as people write it: with comments and trailing commas.

use std::path::Path;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::lines::Lines;
use super::{ConfigError, Entries, Entry, MAX_DEPTH, Node, Scalar, ScalarKind, Value};

/// Reads JSON; none where there is no value at all.
pub fn read(text: &str, file: &Arc<Path>) -> Result<Option<Node>, ConfigError> {
    let lines = Lines::new(text, file);
    let options = ParseOptions {
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
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        let text = format!("not valid JSON: {}", lower_first(&error.kind().to_string()));
        ConfigError::syntax(lines.place(error.range().start), text)
    })?;
    parsed.value.map(|value| node(value, &lines, 0)).transpose()
}

fn node(value: ast::Value<'_>, lines: &Lines<'_>, depth: usize) -> Result<Node, ConfigError> {
    let place = lines.place(value.range().start);
    if depth > MAX_DEPTH {
        return Err(ConfigError::syntax(place, format!("nested deeper than {MAX_DEPTH} levels")));
    }
    let scalar = |kind, text: String| Value::Scalar(Scalar { text, kind });
    let value = match value {
        ast::Value::NullKeyword(_) => scalar(ScalarKind::Null, String::new()),
        ast::Value::BooleanLit(literal) => scalar(ScalarKind::Bool, literal.value.to_string()),
        ast::Value::NumberLit(literal) => scalar(ScalarKind::Number, literal.value.to_owned()),
        ast::Value::StringLit(literal) => scalar(ScalarKind::Text, literal.value.into_owned()),
        ast::Value::Array(array) => {
            let items = array.elements.into_iter().map(|element| node(element, lines, depth + 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let mut entries = Entries::default();
            for property in object.properties {
                let place = lines.place(property.name.range().start);
                let value = node(property.value, lines, depth + 1)?;
                entries.insert(Entry { key: property.name.into_string(), place, value })?;
            }
            Value::Map(entries.all)
        }
    };
    Ok(Node { place, value })
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
