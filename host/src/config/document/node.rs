//! The values of a document with their positions.

use std::collections::HashMap;

use serde_json::Value;

use super::super::error::ConfigError;
use super::super::model::FilePosition;

/// A fault in a file whose rest can be read.
pub(crate) struct DocumentFault {
    /// The position of the fault.
    pub place: FilePosition,
    /// What is wrong, and what was read instead.
    pub text: String,
    /// The top-level key that contains the fault; `None` if the file is not a map.
    pub top_key: Option<String>,
    /// The key that is given twice, if that is the fault.
    pub duplicate_key: Option<String>,
}

/// A value with its position.
#[derive(Clone)]
pub(crate) struct Node {
    /// The position where the value begins.
    pub place: FilePosition,
    /// The value.
    pub value: NodeValue,
}

/// A scalar, a list or a map.
#[derive(Clone)]
pub(crate) enum NodeValue {
    /// A value without parts.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file, with unique keys.
    Map(Vec<MapEntry>),
}

/// A value without parts. Its text is kept, so that `1.10` and `0755` stay unchanged if text is expected.
#[derive(Clone)]
pub(crate) struct Scalar {
    /// The text, without quotes and escapes.
    pub text: String,
    /// The type that the syntax gives it.
    pub kind: ScalarKind,
    /// The number of characters before the text where the value begins, if the text is written on one line as it is.
    pub quotes: Option<u32>,
}

/// The type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// Text.
    Text,
}

/// A key of a map with its value.
#[derive(Clone)]
pub(crate) struct MapEntry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub place: FilePosition,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Returns the entries if this is a map.
    pub(crate) fn entries(&self) -> Option<&[MapEntry]> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value of a key if this is a map that has it.
    pub(crate) fn at(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Reports whether there is no value here.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null)
    }

    /// Returns the value as JSON.
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::List(items) => items.iter().map(Node::to_json).collect(),
            NodeValue::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect())
            }
            NodeValue::Scalar(scalar) => match scalar.kind {
                ScalarKind::Null => Value::Null,
                ScalarKind::Bool => Value::Bool(scalar.text.trim().eq_ignore_ascii_case("true")),
                ScalarKind::Number => serde_json::from_str(&scalar.text).unwrap_or_else(|_| scalar.text.clone().into()),
                ScalarKind::Text => scalar.text.clone().into(),
            },
        }
    }

    /// Describes the kind of value in words; never the value itself, which may be a secret.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.value {
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a map",
            NodeValue::Scalar(scalar) => match scalar.kind {
                ScalarKind::Null => "nothing",
                ScalarKind::Bool => "true or false",
                ScalarKind::Number => "a number",
                ScalarKind::Text => "text",
            },
        }
    }
}

/// A map under construction.
#[derive(Default)]
pub(super) struct MapBuilder {
    /// The entries so far.
    pub all: Vec<MapEntry>,
    /// The index of each key in the list, because a hostile file may have many.
    index: HashMap<String, usize>,
}

impl MapBuilder {
    /// Adds an entry; fails if its key was given before.
    pub(super) fn insert(&mut self, entry: MapEntry) -> Result<(), ConfigError> {
        match self.describe_duplicate(&entry) {
            Some(text) => Err(ConfigError::syntax(entry.place, text)),
            None => {
                self.add(entry);
                Ok(())
            }
        }
    }

    /// Describes where the key of this entry was given before.
    pub(super) fn describe_duplicate(&self, entry: &MapEntry) -> Option<String> {
        let FilePosition { line, column, .. } = self.index.get(&entry.key).map(|at| &self.all[*at].place)?;
        Some(format!("key {:?} is given twice; first at line {line}, column {column}", entry.key))
    }

    /// Adds an entry, replacing one with the same key.
    pub(super) fn replace(&mut self, entry: MapEntry) {
        match self.index.get(&entry.key) {
            Some(at) => self.all[*at] = entry,
            None => self.add(entry),
        }
    }

    /// Adds an entry unless its key already exists.
    pub(super) fn add(&mut self, entry: MapEntry) {
        if !self.index.contains_key(&entry.key) {
            self.index.insert(entry.key.clone(), self.all.len());
            self.all.push(entry);
        }
    }
}

/// No real configuration is nested deeper; the limit keeps hostile files from exhausting the stack.
pub(super) const MAX_DEPTH: usize = 64;
