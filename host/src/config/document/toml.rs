//! Parses TOML, the format of Codex.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml_edit::{Document, Item, Table, TableLike};

use super::super::error::ConfigError;
use super::super::model::FilePosition;
use super::line_index::LineIndex;
use super::node::{MAX_DEPTH, MapEntry, Node, NodeValue, Scalar, ScalarKind};

/// Parses TOML; a file without keys is an empty map.
pub(super) fn read(text: &str, file: &Arc<Path>) -> Result<Option<Node>, ConfigError> {
    let lines = LineIndex::new(text, file);
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        ConfigError::syntax(lines.position(at), format!("not valid TOML: {message}"))
    })?;
    let reader = TomlReader { lines };
    let position = reader.lines.position(0);
    reader.table(document.as_table(), position, 0).map(Some)
}

struct TomlReader<'t> {
    lines: LineIndex<'t>,
}

impl TomlReader<'_> {
    fn table(&self, table: &dyn TableLike, position: FilePosition, depth: usize) -> Result<Node, ConfigError> {
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let span = table.get_key_value(name).and_then(|(key, _)| key.span());
            let key_place = self.place(span, &position);
            let value = self.item(item, key_place.clone(), depth + 1)?;
            entries.push(MapEntry { key: name.to_owned(), place: key_place, value });
        }
        Ok(Node { place: position, value: NodeValue::Map(entries) })
    }

    fn item(&self, item: &Item, fallback: FilePosition, depth: usize) -> Result<Node, ConfigError> {
        if depth > MAX_DEPTH {
            return Err(ConfigError::syntax(fallback, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let position = self.place(item.span(), &fallback);
        match item {
            Item::None => Ok(Node { place: position, value: scalar(ScalarKind::Null, String::new()) }),
            Item::Value(value) => self.value(value, position, depth),
            Item::Table(table) => self.table(table, position, depth),
            Item::ArrayOfTables(tables) => {
                let tables = tables.iter().map(|table: &Table| {
                    let position = self.place(table.span(), &position);
                    self.table(table, position, depth + 1)
                });
                Ok(Node { place: position.clone(), value: NodeValue::List(tables.collect::<Result<_, _>>()?) })
            }
        }
    }

    fn value(&self, value: &toml_edit::Value, position: FilePosition, depth: usize) -> Result<Node, ConfigError> {
        if depth > MAX_DEPTH {
            return Err(ConfigError::syntax(position, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let value = match value {
            toml_edit::Value::String(text) => scalar(ScalarKind::Text, text.value().clone()),
            toml_edit::Value::Integer(number) => scalar(ScalarKind::Number, number.value().to_string()),
            toml_edit::Value::Float(number) => scalar(ScalarKind::Number, number.value().to_string()),
            toml_edit::Value::Boolean(flag) => scalar(ScalarKind::Bool, flag.value().to_string()),
            toml_edit::Value::Datetime(time) => scalar(ScalarKind::Text, time.value().to_string()),
            toml_edit::Value::InlineTable(table) => return self.table(table, position, depth),
            toml_edit::Value::Array(array) => {
                let items = array.iter().map(|item| {
                    let position = self.place(item.span(), &position);
                    self.value(item, position, depth + 1)
                });
                NodeValue::List(items.collect::<Result<_, _>>()?)
            }
        };
        Ok(Node { place: position, value })
    }

    fn place(&self, span: Option<Range<usize>>, fallback: &FilePosition) -> FilePosition {
        span.map_or_else(|| fallback.clone(), |span| self.lines.position(span.start))
    }
}

fn scalar(kind: ScalarKind, text: String) -> NodeValue {
    NodeValue::Scalar(Scalar { text, kind, quotes: None })
}
