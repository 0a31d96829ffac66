//! One tree with places, whatever format the text has.

mod jsonc;
mod line_index;
mod toml;
mod yaml;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::error::ConfigError;
use super::model::FilePosition;

/// A file's tree and the format that it was written in.
pub struct Document {
    /// The outermost value.
    pub root: Node,
    /// The format.
    pub format: FileFormat,
    /// What is wrong in a way that leaves the rest readable: an error in a file of ours, and worth a word in others.
    pub faults: Vec<DocumentFault>,
}

/// Something that is wrong in a file whose rest can be read.
pub struct DocumentFault {
    /// Where it stands.
    pub place: FilePosition,
    /// What is wrong, and what was read instead.
    pub text: String,
    /// The outermost key that it stands under; none where the file is no map.
    pub top_key: Option<String>,
    /// The key that is given twice, where that is what is wrong.
    pub duplicate_key: Option<String>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// YAML.
    Yaml,
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// A value and where it stands.
#[derive(Clone)]
pub struct Node {
    /// Where it begins.
    pub place: FilePosition,
    /// What it is.
    pub value: NodeValue,
}

/// What a value is.
#[derive(Clone)]
pub enum NodeValue {
    /// Anything without parts.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file; no key is there twice.
    Map(Vec<MapEntry>),
}

/// A value without parts. Its text is kept, so that `1.10` and `0755` stay what they are where text is wanted.
#[derive(Clone)]
pub struct Scalar {
    /// The text, without quotes and escapes.
    pub text: String,
    /// How the format reads it.
    pub kind: ScalarKind,
}

/// How a format reads a value without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarKind {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// Text.
    Text,
}

/// A key of a map, and its value.
#[derive(Clone)]
pub struct MapEntry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: FilePosition,
    /// The value.
    pub value: Node,
}

/// Reads a text; the name of the file says the format, or else the text itself does.
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
    /// The entries, if this is a map.
    pub fn entries(&self) -> Option<&[MapEntry]> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of this key, if this is a map that has it.
    pub fn at(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The file gives nothing here.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null)
    }

    /// What it is, in words; never the value itself, which may be a secret.
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

/// A map that is being read.
#[derive(Default)]
struct MapBuilder {
    all: Vec<MapEntry>,
    /// Where each key is in the list: a hostile file may have many.
    index: HashMap<String, usize>,
}

impl MapBuilder {
    /// Adds an entry, or says where its key was given before.
    fn insert(&mut self, entry: MapEntry) -> Result<(), ConfigError> {
        match self.describe_duplicate(&entry) {
            Some(text) => Err(ConfigError::syntax(entry.place, text)),
            None => {
                self.add(entry);
                Ok(())
            }
        }
    }

    /// Where the key of this entry was given before, in words.
    fn describe_duplicate(&self, entry: &MapEntry) -> Option<String> {
        let FilePosition { line, column, .. } = self.index.get(&entry.key).map(|at| &self.all[*at].place)?;
        Some(format!("key {:?} is given twice; first at line {line}, column {column}", entry.key))
    }

    /// Adds an entry, in place of one with the same key.
    fn replace(&mut self, entry: MapEntry) {
        match self.index.get(&entry.key) {
            Some(at) => self.all[*at] = entry,
            None => self.add(entry),
        }
    }

    /// Adds an entry, unless its key is there.
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
    // `[table]` alone on its line is TOML; a JSON list would hold entries, which begin with `{`.
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

/// No configuration is nested deeper; the bound keeps hostile files from exhausting the stack.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests;
