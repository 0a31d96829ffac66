//! A tree of values with file positions, the same for YAML, JSON and TOML.

pub(super) mod jsonc;
pub(super) mod line_index;
mod node;
mod toml;
mod yaml;

use std::path::Path;
use std::sync::Arc;

use super::error::ConfigError;
pub(super) use node::{DocumentFault, MapEntry, Node, NodeValue, ScalarKind};

/// The tree of a file and the format of its text.
pub(super) struct ConfigDocument {
    /// The outermost value.
    pub root: Node,
    /// The format.
    pub format: FileFormat,
    /// Faults that leave the rest readable: errors in toolgate's own files, notices in others.
    pub faults: Vec<DocumentFault>,
}

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// YAML.
    Yaml,
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// Parses a text; the extension of the file decides the syntax, or else the text itself.
pub(super) fn read(text: &str, file: &Arc<Path>) -> Result<ConfigDocument, ConfigError> {
    // Windows editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = format_of(text, file);
    let (root, faults) = match format {
        FileFormat::Yaml => (yaml::read(text, file)?, Vec::new()),
        FileFormat::Json => jsonc::read(text, file)?,
        FileFormat::Toml => (toml::read(text, file)?, Vec::new()),
    };
    match root {
        Some(root) if !root.is_null() && !text.trim().is_empty() => Ok(ConfigDocument { root, format, faults }),
        _ => Err(ConfigError::Empty(file.to_path_buf())),
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

#[cfg(test)]
mod tests;
