//! Typed values out of a tree, and what went wrong on the way.

use std::time::Duration;

use super::document::{MapEntry, Node, NodeValue, ScalarKind};
use super::model::{FilePosition, FileShape, Notice, Problem, UnexpandedText};
use super::nearest;
use super::{bytes, duration};

/// What is known while a file, or one of its servers, is read.
pub struct ReadContext {
    /// Whose kind of file it is.
    pub shape: FileShape,
    /// A key that is not known is a mistake: all of a file of ours is read so, and every section of ours in other files.
    pub strict: bool,
    /// Where in the file we are, such as `servers.jira`; empty at the top.
    pub path: String,
    /// It is known to be a file of Claude Code, which counts in milliseconds.
    pub claude_code: bool,
    /// What the reader of the file should know.
    pub notices: Vec<Notice>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// A value that does not fit.
pub struct FieldError {
    /// Where it stands.
    pub place: FilePosition,
    /// What it is within the server, such as `args[2]`.
    pub field: String,
    /// What is wrong, and never the value itself where it may be a secret.
    pub text: String,
}

/// A value of the file, and what it is called there.
pub struct ConfigField<'n> {
    /// The value.
    pub node: &'n Node,
    /// What it is within the server, such as `timeouts.call`.
    pub field: String,
}

impl ReadContext {
    /// Begins to read a file.
    pub fn new(shape: FileShape) -> Self {
        let strict = shape == FileShape::Native;
        ReadContext {
            shape,
            strict,
            path: String::new(),
            claude_code: false,
            notices: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Our own files are read strictly, those of others with tolerance.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Reads a section that only we have, strictly in files of whatever shape.
    pub fn read_strictly<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.strict, true);
        let found = read(self);
        self.strict = outer;
        found
    }

    /// Something that the reader of the file should know.
    pub fn add_notice(&mut self, position: &FilePosition, text: impl Into<String>) {
        let text = text.into();
        let text = if self.path.is_empty() { text } else { format!("{}: {text}", self.path) };
        self.notices.push(Notice { place: position.clone(), text });
    }

    /// Something is wrong.
    pub fn add_problem(&mut self, error: FieldError) {
        let field = match (self.path.as_str(), error.field.as_str()) {
            ("", "") => None,
            (path, "") => Some(path.to_owned()),
            ("", field) => Some(field.to_owned()),
            (path, field) => Some(format!("{path}.{field}")),
        };
        self.problems.push(Problem { place: error.place, field, text: error.text });
    }
}

impl<'n> ConfigField<'n> {
    /// A value that does not fit.
    pub fn error(&self, text: impl Into<String>) -> FieldError {
        FieldError { place: self.node.place.clone(), field: self.field.clone(), text: text.into() }
    }

    fn expected_error(&self, what: &str) -> FieldError {
        self.error(format!("expected {what}, found {}", self.node.describe()))
    }

    /// Text; numbers and the like are taken as they are written.
    pub fn text(&self) -> Result<String, FieldError> {
        match &self.node.value {
            NodeValue::Scalar(scalar) if scalar.kind != ScalarKind::Null => Ok(scalar.text.clone()),
            _ => Err(self.expected_error("text")),
        }
    }

    /// Text that is expanded later.
    pub fn unexpanded_text(&self) -> Result<UnexpandedText, FieldError> {
        Ok(UnexpandedText { text: self.text()?, place: self.node.place.clone(), field: self.field.clone() })
    }

    /// `true` or `false`.
    pub fn flag(&self) -> Result<bool, FieldError> {
        match self.text().map(|text| text.to_ascii_lowercase()).as_deref() {
            Ok("true") => Ok(true),
            Ok("false") => Ok(false),
            _ => Err(self.expected_error("true or false")),
        }
    }

    /// One of these words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, FieldError> {
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| nearest::is_same_word(name, &text)) {
            return Ok(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Err(self.error(format!("{text:?} is not one of: {}", names.join(", "))))
    }

    /// A span of time, in seconds where a number has no unit; `off` is none.
    pub fn span(&self, unit: duration::DurationUnit) -> Result<Option<Duration>, FieldError> {
        let text = self.text().map_err(|_| self.expected_error("a duration such as \"30s\""))?;
        duration::parse(&text, unit).map_err(|text| self.error(text))
    }

    /// An amount of bytes.
    pub fn bytes(&self) -> Result<u64, FieldError> {
        let text = self.text().map_err(|_| self.expected_error("an amount of bytes such as \"64MiB\""))?;
        bytes::parse(&text).map_err(|text| self.error(text))
    }

    /// A whole number between these.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, FieldError> {
        let number = self.text().ok().and_then(|text| text.parse().ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            self.error(format!("expected a whole number from {least} to {most}, found {}", self.node.describe()))
        })
    }

    /// The same, of things that are counted.
    pub fn count(&self, least: u64, most: u64) -> Result<usize, FieldError> {
        Ok(usize::try_from(self.number(least, most)?).unwrap_or(usize::MAX))
    }

    /// A number from 0 to 1.
    pub fn fraction(&self) -> Result<f64, FieldError> {
        const WHAT: &str = "a number from 0 to 1";
        match self.text().ok().and_then(|text| text.parse().ok()) {
            Some(number) if (0.0..=1.0).contains(&number) => Ok(number),
            Some(number) if number.is_finite() => Err(self.error(format!("expected {WHAT}, found {number}"))),
            _ => Err(self.expected_error(WHAT)),
        }
    }

    /// A list of texts; a text alone is a list of one.
    pub fn texts(&self) -> Result<Vec<String>, FieldError> {
        match &self.node.value {
            NodeValue::Scalar(scalar) if scalar.kind != ScalarKind::Null => Ok(vec![scalar.text.clone()]),
            _ => self.items()?.iter().map(ConfigField::text).collect(),
        }
    }

    /// A list of names and globs of tools. One that uses what other globs have and ours do not would fit nothing, or
    /// something else than was meant, so it is no list.
    pub fn patterns(&self) -> Result<Vec<String>, FieldError> {
        match &self.node.value {
            NodeValue::Scalar(scalar) if scalar.kind != ScalarKind::Null => Ok(vec![self.pattern()?]),
            _ => self.items()?.iter().map(ConfigField::pattern).collect(),
        }
    }

    fn pattern(&self) -> Result<String, FieldError> {
        self.check_pattern(&self.text()?)
    }

    /// The same for a text that stands here or is the key of what stands here.
    pub fn check_pattern(&self, text: &str) -> Result<String, FieldError> {
        let pattern = text.trim();
        if pattern.is_empty() {
            return Err(self.error("is empty; write the name of a tool, or a glob such as \"get_*\""));
        }
        if pattern.starts_with('!') || pattern.contains(|c: char| "[]{}\\".contains(c) || c.is_control()) {
            return Err(self.error(format!(
                "{pattern:?} is no glob of ours: only `*` (any run of characters) and `?` (any one character) have a \
                 meaning; write `?` for such a character in the name of a tool"
            )));
        }
        Ok(text.to_owned())
    }

    /// The items of a list, each with its number.
    pub fn items(&self) -> Result<Vec<ConfigField<'n>>, FieldError> {
        match &self.node.value {
            NodeValue::List(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(at, node)| ConfigField { node, field: format!("{}[{at}]", self.field) })
                .collect()),
            _ => Err(self.expected_error("a list")),
        }
    }

    /// The entries of a map, each under its key.
    pub fn entries(&self) -> Result<Vec<(&'n str, ConfigField<'n>)>, FieldError> {
        Ok(self.map()?.iter().map(|entry| (entry.key.as_str(), self.child(entry))).collect())
    }

    /// The map that this is.
    pub fn map(&self) -> Result<&'n [MapEntry], FieldError> {
        self.node.entries().ok_or_else(|| self.expected_error("a map"))
    }

    /// An entry of this map.
    pub fn child(&self, entry: &'n MapEntry) -> ConfigField<'n> {
        ConfigField { node: &entry.value, field: join(&self.field, &entry.key) }
    }

    /// A map from names to texts that are expanded later. `null` takes nothing away, so it is left out with a notice.
    pub fn unexpanded_map(&self, context: &mut ReadContext) -> Result<Vec<(String, UnexpandedText)>, FieldError> {
        let mut map = Vec::new();
        for (name, value) in self.entries()? {
            if value.node.is_null() && !context.is_strict() {
                context.add_notice(&value.node.place, format!("{} says nothing and is left out", value.field));
                continue;
            }
            map.push((name.to_owned(), value.unexpanded_text()?));
        }
        Ok(map)
    }
}

/// A name within a field.
pub fn join(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}
