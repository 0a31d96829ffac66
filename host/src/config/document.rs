//! A tree of values with file positions, the same for YAML, JSON and TOML.

mod jsonc;
pub mod line_index;
mod toml;
mod yaml;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::error::ConfigError;
use super::model::FilePosition;

/// The tree of a file and the format of its text.
pub struct Document {
    /// The outermost value.
    pub root: Node,
    /// The format.
    pub format: FileFormat,
    /// Faults that leave the rest readable: errors in toolgate's own files, notices in others.
    pub faults: Vec<DocumentFault>,
}

/// A fault in a file whose rest can be read.
pub struct DocumentFault {
    /// The position of the fault.
    pub place: FilePosition,
    /// What is wrong, and what was read instead.
    pub text: String,
    /// The top-level key that contains the fault; `None` if the file is not a map.
    pub top_key: Option<String>,
    /// The key that is given twice, if that is the fault.
    pub duplicate_key: Option<String>,
}

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// YAML.
    Yaml,
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// A value with its position.
#[derive(Clone)]
pub struct Node {
    /// The position where the value begins.
    pub place: FilePosition,
    /// The value.
    pub value: NodeValue,
}

/// A scalar, a list or a map.
#[derive(Clone)]
pub enum NodeValue {
    /// A value without parts.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file, with unique keys.
    Map(Vec<MapEntry>),
}

/// A value without parts. Its text is kept, so that `1.10` and `0755` stay unchanged if text is expected.
#[derive(Clone)]
pub struct Scalar {
    /// The text, without quotes and escapes.
    pub text: String,
    /// The type that the syntax gives it.
    pub kind: ScalarKind,
}

/// The type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarKind {
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
pub struct MapEntry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub place: FilePosition,
    /// The value.
    pub value: Node,
}

/// Parses a text; the extension of the file decides the syntax, or else the text itself.
pub fn read(text: &str, file: &Arc<Path>) -> Result<Document, ConfigError> {
    // Windows editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = format_of(text, file);
    let (root, faults) = match format {
        FileFormat::Yaml => (yaml::read(text, file)?, Vec::new()),
        FileFormat::Json => jsonc::read(text, file)?,
        FileFormat::Toml => (toml::read(text, file)?, Vec::new()),
    };
    match root {
        Some(root) if !root.is_null() && !text.trim().is_empty() => Ok(Document { root, format, faults }),
        _ => Err(ConfigError::Empty(file.to_path_buf())),
    }
}

impl Node {
    /// Returns the entries if this is a map.
    pub fn entries(&self) -> Option<&[MapEntry]> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value of a key if this is a map that has it.
    pub fn at(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Reports whether there is no value here.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null)
    }

    /// Describes the kind of value in words; never the value itself, which may be a secret.
    pub fn describe(&self) -> &'static str {
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
struct MapBuilder {
    all: Vec<MapEntry>,
    /// The index of each key in the list, because a hostile file may have many.
    index: HashMap<String, usize>,
}

impl MapBuilder {
    /// Adds an entry; fails if its key was given before.
    fn insert(&mut self, entry: MapEntry) -> Result<(), ConfigError> {
        match self.describe_duplicate(&entry) {
            Some(text) => Err(ConfigError::syntax(entry.place, text)),
            None => {
                self.add(entry);
                Ok(())
            }
        }
    }

    /// Describes where the key of this entry was given before.
    fn describe_duplicate(&self, entry: &MapEntry) -> Option<String> {
        let FilePosition { line, column, .. } = self.index.get(&entry.key).map(|at| &self.all[*at].place)?;
        Some(format!("key {:?} is given twice; first at line {line}, column {column}", entry.key))
    }

    /// Adds an entry, replacing one with the same key.
    fn replace(&mut self, entry: MapEntry) {
        match self.index.get(&entry.key) {
            Some(at) => self.all[*at] = entry,
            None => self.add(entry),
        }
    }

    /// Adds an entry unless its key already exists.
    fn add(&mut self, entry: MapEntry) {
        if !self.index.contains_key(&entry.key) {
            self.index.insert(entry.key.clone(), self.all.len());
            self.all.push(entry);
        }
    }
}

fn format_of(text: &str, file: &Path) -> FileFormat {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "yaml" | "yml" => FileFormat::Yaml,
        "json" | "jsonc" | "json5" => FileFormat::Json,
        "toml" => FileFormat::Toml,
        _ => guess(text),
    }
}

fn guess(text: &str) -> FileFormat {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(line) = lines.next() else { return FileFormat::Yaml };
    let head = line.split(" #").next().unwrap_or(line).trim_end();
    // A line with only `[table]` is TOML; a JSON list would contain maps, which begin with `{`.
    let table = head.starts_with('[') && head.ends_with(']') && !head.contains(['{', ',']) && head.len() > 2;
    let assigns = line.find('=').is_some_and(|equals| !line[..equals].contains([':', '{', '[']));
    if table || assigns {
        FileFormat::Toml
    } else if line.starts_with(['{', '[']) || line.starts_with("//") || line.starts_with("/*") {
        FileFormat::Json
    } else {
        FileFormat::Yaml
    }
}

/// No real configuration is nested deeper; the limit keeps hostile files from exhausting the stack.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests;
