//! Parses YAML with anchors and merge keys, with limits on depth and on what aliases can multiply.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::super::error::ConfigError;
use super::super::model::FilePosition;
use super::node::{MAX_DEPTH, MapBuilder, MapEntry, Node, NodeValue, Scalar, ScalarKind};

/// Parses YAML with one document; returns `None` if there is no value.
pub(super) fn read(text: &str, file: &Arc<Path>) -> Result<Option<Node>, ConfigError> {
    let mut builder = YamlBuilder { file, open: Vec::new(), root: None, anchors: HashMap::new(), nodes: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            ConfigError::syntax(builder.place(*error.marker()), format!("not valid YAML: {}", error.info()))
        })?;
        builder.take(event, span)?;
    }
    Ok(builder.root)
}

struct YamlBuilder<'t> {
    file: &'t Arc<Path>,
    open: Vec<OpenCollection>,
    root: Option<Node>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

/// A list or map that has not ended yet.
struct OpenCollection {
    place: FilePosition,
    anchor: usize,
    /// The number of nodes before it began, from which its size follows.
    nodes: usize,
    parts: CollectionParts,
}

enum CollectionParts {
    List(Vec<Node>),
    Map { entries: MapBuilder, merged: Vec<MapEntry>, key: Option<(String, FilePosition)> },
}

impl YamlBuilder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), ConfigError> {
        let position = self.place(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(ConfigError::syntax(position, "a second document begins here; a configuration is one document"))
            }
            Event::DocumentStart(_) => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                let kind = kind_of(&text, style, tag.as_deref())
                    .map_err(|text| ConfigError::syntax(position.clone(), text))?;
                let text = if kind == ScalarKind::Null { String::new() } else { text.into_owned() };
                self.count_nodes(1, &position)?;
                if self.wants_key() {
                    return self.key(text, position);
                }
                let quotes = match style {
                    ScalarStyle::Plain => 0,
                    _ => 1,
                };
                let width = text.chars().count() + 2 * quotes as usize;
                let quotes = (span.end.index() - span.start.index() == width).then_some(quotes);
                let scalar = NodeValue::Scalar(Scalar { text, kind, quotes });
                self.complete(Node { place: position, value: scalar }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => self.begin(position, anchor, CollectionParts::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(
                position,
                anchor,
                CollectionParts::Map { entries: MapBuilder::default(), merged: Vec::new(), key: None },
            ),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    return Err(ConfigError::syntax(position, "this alias is inside the value that it refers to"));
                };
                let (node, size) = (node.clone(), *size);
                self.count_nodes(size, &position)?;
                if self.wants_key() {
                    let NodeValue::Scalar(scalar) = node.value else { return Err(complex_key(position)) };
                    return self.key(scalar.text, position);
                }
                self.complete(node, 0, size)
            }
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(OpenCollection { parts: CollectionParts::Map { key: None, .. }, .. }))
    }

    fn key(&mut self, text: String, position: FilePosition) -> Result<(), ConfigError> {
        if let Some(OpenCollection { parts: CollectionParts::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some((text, position));
        }
        Ok(())
    }

    fn begin(&mut self, position: FilePosition, anchor: usize, parts: CollectionParts) -> Result<(), ConfigError> {
        if self.wants_key() {
            return Err(complex_key(position));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(ConfigError::syntax(position, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let nodes = self.nodes;
        self.count_nodes(1, &position)?;
        self.open.push(OpenCollection { place: position, anchor, nodes, parts });
        Ok(())
    }

    fn end(&mut self) -> Result<(), ConfigError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let size = self.nodes - open.nodes;
        let value = match open.parts {
            CollectionParts::List(items) => NodeValue::List(items),
            CollectionParts::Map { mut entries, merged, .. } => {
                // The map's own keys win over merged ones, and an earlier merge over a later one.
                merged.into_iter().for_each(|entry| entries.add(entry));
                NodeValue::Map(entries.all)
            }
        };
        self.complete(Node { place: open.place, value }, open.anchor, size)
    }

    /// Adds a complete value to the innermost open collection, or makes it the root.
    fn complete(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), ConfigError> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut().map(|open| &mut open.parts) {
            None => self.root = Some(node),
            Some(CollectionParts::List(items)) => items.push(node),
            Some(CollectionParts::Map { entries, merged, key }) => match key.take() {
                Some((key, _)) if key == MERGE => merge(merged, node)?,
                Some((key, position)) => entries.insert(MapEntry { key, place: position, value: node })?,
                None => return Err(complex_key(node.place)),
            },
        }
        Ok(())
    }

    /// Counts nodes, including copies by aliases, because a few lines of aliases could otherwise fill the memory.
    fn count_nodes(&mut self, nodes: usize, position: &FilePosition) -> Result<(), ConfigError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let text = format!("more than {MAX_NODES} values, aliases included");
            return Err(ConfigError::syntax(position.clone(), text));
        }
        Ok(())
    }

    fn place(&self, marker: Marker) -> FilePosition {
        FilePosition::new(self.file, marker.line(), marker.col() + 1)
    }
}

fn merge(merged: &mut Vec<MapEntry>, node: Node) -> Result<(), ConfigError> {
    let maps = match node.value {
        NodeValue::List(items) => items,
        _ => vec![node],
    };
    for map in maps {
        let NodeValue::Map(entries) = map.value else {
            return Err(ConfigError::syntax(map.place, "`<<` merges maps; name one with an alias such as `*base`"));
        };
        merged.extend(entries);
    }
    Ok(())
}

/// Returns the type of a scalar in YAML's core schema.
fn kind_of(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<ScalarKind, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(ScalarKind::Text),
        Some(tag) if !tag.is_yaml_core_schema() => {
            return Err(format!(
                "the tag {tag} is not supported; write the value itself, or a variable such as ${{NAME}}"
            ));
        }
        _ if style != ScalarStyle::Plain => return Ok(ScalarKind::Text),
        _ => {}
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => ScalarKind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => ScalarKind::Bool,
        _ if is_number(text) => ScalarKind::Number,
        _ => ScalarKind::Text,
    })
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.contains(|digit: char| digit.is_ascii_digit())
        && text.parse::<f64>().is_ok()
}

fn complex_key(position: FilePosition) -> ConfigError {
    ConfigError::syntax(position, "a key must be text; put quotes around a value that begins with `{` or `[`")
}

const MERGE: &str = "<<";
/// Room for 500 tokens that name 200 servers each.
const MAX_NODES: usize = 500_000;
