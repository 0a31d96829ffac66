//! Typed values from the tree of a file, and the errors found on the way.

use std::time::Duration;

use super::document::{MapEntry, Node, NodeValue, ScalarKind};
use super::error::ConfigError;
use super::model::{FilePosition, FileShape, Notice, Problem, UnexpandedText};
use super::nearest;
use super::{bytes, duration};
use crate::visible;

/// The state while a file, or one of its servers, is read.
pub(super) struct ReadContext {
    /// The format of the file.
    pub shape: FileShape,
    /// Whether an unknown key is an error: so in all of toolgate's own files, and in its own sections of other files.
    pub strict: bool,
    /// The position in the file, such as `servers.jira`; empty at the top.
    pub path: String,
    /// Whether the file is known to be Claude Code's, which counts in milliseconds.
    pub claude_code: bool,
    /// Notices for the author of the file.
    pub notices: Vec<Notice>,
    /// Errors found so far.
    pub problems: Vec<Problem>,
}

/// A value that is not valid for its key.
pub struct FieldError {
    /// The position of the value.
    pub place: FilePosition,
    /// The name of the value within its server, such as `args[2]`.
    pub field: String,
    /// What is wrong; never the value itself if it may be a secret.
    pub text: String,
}

impl From<FieldError> for ConfigError {
    fn from(error: FieldError) -> Self {
        ConfigError::Invalid(Problem { place: error.place, field: Some(error.field), text: error.text })
    }
}

/// A value of the file with its name.
pub(super) struct ConfigField<'n> {
    /// The value.
    pub node: &'n Node,
    /// The name of the value within its server, such as `timeouts.call`.
    pub field: String,
}

impl ReadContext {
    /// Creates the state for a file of this format.
    pub(super) fn new(shape: FileShape) -> Self {
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

    /// Reads a section that only toolgate has, strictly in files of every format.
    pub(super) fn read_strictly<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.strict, true);
        let found = read(self);
        self.strict = outer;
        found
    }

    /// Adds a notice for the author of the file.
    pub(super) fn add_notice(&mut self, position: &FilePosition, text: impl Into<String>) {
        let text = text.into();
        let text = if self.path.is_empty() { text } else { format!("{}: {text}", self.path) };
        self.notices.push(Notice { place: position.clone(), text });
    }

    /// Adds an error.
    pub(super) fn add_problem(&mut self, error: FieldError) {
        let field = Some(join(&self.path, &error.field)).filter(|field| !field.is_empty());
        self.problems.push(Problem { place: error.place, field, text: error.text });
    }
}

impl<'n> ConfigField<'n> {
    /// Creates an error about this value.
    pub(super) fn error(&self, text: impl Into<String>) -> FieldError {
        FieldError { place: self.node.place.clone(), field: self.field.clone(), text: text.into() }
    }

    fn expected_error(&self, what: &str) -> FieldError {
        self.error(format!("expected {what}, found {}", self.node.describe()))
    }

    /// Returns the value as text; numbers and booleans are taken as written.
    pub(super) fn text(&self) -> Result<String, FieldError> {
        match &self.node.value {
            NodeValue::Scalar(scalar) if scalar.kind != ScalarKind::Null => Ok(scalar.text.clone()),
            _ => Err(self.expected_error("text")),
        }
    }

    /// Returns the value as text that is expanded later.
    pub(super) fn unexpanded_text(&self) -> Result<UnexpandedText, FieldError> {
        Ok(UnexpandedText { text: self.text()?, place: self.node.place.clone(), field: self.field.clone() })
    }

    /// Returns the value as `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, FieldError> {
        match self.text().map(|text| text.to_ascii_lowercase()).as_deref() {
            Ok("true") => Ok(true),
            Ok("false") => Ok(false),
            _ => Err(self.expected_error("true or false")),
        }
    }

    /// Returns the choice that the value names.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, FieldError> {
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| nearest::is_same_word(name, &text)) {
            return Ok(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Err(self.error(format!("{text:?} is not one of: {}", names.join(", "))))
    }

    /// Returns the value as a duration, with `unit` for a bare number; `off` is `None`.
    pub(super) fn span(&self, unit: duration::DurationUnit) -> Result<Option<Duration>, FieldError> {
        let text = self.text().map_err(|_| self.expected_error("a duration such as \"30s\""))?;
        duration::parse(&text, unit).map_err(|text| self.error(text))
    }

    /// Returns the value as a number of bytes.
    pub(super) fn bytes(&self) -> Result<u64, FieldError> {
        let text = self.text().map_err(|_| self.expected_error("an amount of bytes such as \"64MiB\""))?;
        bytes::parse(&text).map_err(|text| self.error(text))
    }

    /// Returns the value as a whole number in this inclusive range.
    pub(super) fn number(&self, least: u64, most: u64) -> Result<u64, FieldError> {
        let number = self.text().ok().and_then(|text| text.parse().ok());
        let expected = || {
            let found = match &self.node.value {
                NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Number => scalar.text.as_str(),
                _ => self.node.describe(),
            };
            self.error(format!("expected a whole number from {least} to {most}, found {found}"))
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(expected)
    }

    /// Returns the value as a count in this inclusive range.
    pub(super) fn count(&self, least: u64, most: u64) -> Result<usize, FieldError> {
        Ok(usize::try_from(self.number(least, most)?).unwrap_or(usize::MAX))
    }

    /// Returns the value as a number from 0 to 1.
    pub(super) fn fraction(&self) -> Result<f64, FieldError> {
        const WHAT: &str = "a number from 0 to 1";
        match self.text().ok().and_then(|text| text.parse().ok()) {
            Some(number) if (0.0..=1.0).contains(&number) => Ok(number),
            Some(number) if number.is_finite() => Err(self.error(format!("expected {WHAT}, found {number}"))),
            _ => Err(self.expected_error(WHAT)),
        }
    }

    /// Returns the value as a list of strings; a single string counts as a list of one.
    pub(super) fn texts(&self) -> Result<Vec<String>, FieldError> {
        self.each(ConfigField::text)
    }

    /// Reads each item of a list; a single value counts as a list of one.
    pub(super) fn each<T>(&self, read: impl FnMut(&Self) -> Result<T, FieldError>) -> Result<Vec<T>, FieldError> {
        let items = match &self.node.value {
            NodeValue::Scalar(scalar) if scalar.kind != ScalarKind::Null => {
                vec![ConfigField { node: self.node, field: self.field.clone() }]
            }
            _ => self.items()?,
        };
        items.iter().map(read).collect()
    }

    /// Returns the value as a list of names and globs of tools. Refuses syntax of other globs, which would match
    /// nothing, or something the author does not expect.
    pub(super) fn patterns(&self) -> Result<Vec<String>, FieldError> {
        if let NodeValue::Scalar(scalar) = &self.node.value
            && MEANS_ALL_OR_NONE.iter().any(|word| scalar.text.trim().eq_ignore_ascii_case(word))
        {
            return Err(self.error(format!(
                "{:?} does not say which tools; write a list of their names, [\"*\"] for all, or [] for none",
                scalar.text
            )));
        }
        self.each(|item| match &item.node.value {
            NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Bool => {
                Err(item.error(format!("expected the name of a tool, found {}; in quotes, it is one", scalar.text)))
            }
            _ => item.check_pattern(&item.text()?),
        })
    }

    /// Returns the value as a list of names and globs of allowed tools. Refuses the word `any`: some clients mean all
    /// tools by it, but here it would name one.
    pub(super) fn allowed_patterns(&self) -> Result<Vec<String>, FieldError> {
        let tools = self.patterns()?;
        match tools.iter().any(|tool| tool.trim().eq_ignore_ascii_case("any")) {
            true => Err(self.error("\"any\" is not known here; write \"*\" to mean all tools")),
            false => Ok(tools),
        }
    }

    /// Checks a name or glob of a tool, which is this value or its key.
    pub(super) fn check_pattern(&self, text: &str) -> Result<String, FieldError> {
        let pattern = text.trim();
        if pattern.is_empty() {
            return Err(self.error("is empty; write the name of a tool, or a glob such as \"get_*\""));
        }
        let is_odd = |c: char| "[]{}()\\^$|,".contains(c) || c.is_whitespace() || visible::is_hidden_char(c);
        if pattern.starts_with('!') || pattern.contains(is_odd) {
            return Err(self.error(format!(
                "{pattern:?} is not a valid glob: only `*` (any run of characters) and `?` (any one character) have a \
                 meaning; write each tool as an item of its own, and `?` for such a character in its name"
            )));
        }
        Ok(text.to_owned())
    }

    /// Returns the items of a list, each named by its index.
    pub(super) fn items(&self) -> Result<Vec<ConfigField<'n>>, FieldError> {
        match &self.node.value {
            NodeValue::List(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(at, node)| ConfigField { node, field: format!("{}[{at}]", self.field) })
                .collect()),
            _ => Err(self.expected_error("a list")),
        }
    }

    /// Returns the items of a list as text that is expanded later.
    pub(super) fn unexpanded_texts(&self) -> Result<Vec<UnexpandedText>, FieldError> {
        self.items()?.iter().map(ConfigField::unexpanded_text).collect()
    }

    /// Returns the items of a list, each of which is text or a map with the text under `key`.
    pub(super) fn texts_or_maps(&self, key: &str) -> Result<Vec<String>, FieldError> {
        let text = |item: ConfigField<'n>| ConfigField { node: item.node.at(key).unwrap_or(item.node), ..item }.text();
        self.items()?.into_iter().map(text).collect()
    }

    /// Returns the entries of a map, each with its key.
    pub(super) fn entries(&self) -> Result<Vec<(&'n str, ConfigField<'n>)>, FieldError> {
        Ok(self.map()?.iter().map(|entry| (entry.key.as_str(), self.child(entry))).collect())
    }

    /// Returns the value as a map.
    pub(super) fn map(&self) -> Result<&'n [MapEntry], FieldError> {
        self.node.entries().ok_or_else(|| self.expected_error("a map"))
    }

    /// Returns the field for an entry of this map.
    pub(super) fn child(&self, entry: &'n MapEntry) -> ConfigField<'n> {
        ConfigField { node: &entry.value, field: join(&self.field, &entry.key) }
    }

    /// Returns a map from names to text that is expanded later. In files of other clients, `null` is skipped with a
    /// notice.
    pub(super) fn unexpanded_map(
        &self,
        context: &mut ReadContext,
    ) -> Result<Vec<(String, UnexpandedText)>, FieldError> {
        let mut map = Vec::new();
        for (name, value) in self.entries()? {
            if value.node.is_null() && !context.strict {
                context.add_notice(&value.node.place, format!("{} has no value and is ignored", value.field));
                continue;
            }
            map.push((name.to_owned(), value.unexpanded_text()?));
        }
        Ok(map)
    }
}

/// Joins the name of a field and the name of a key in it.
pub(super) fn join(field: &str, name: &str) -> String {
    match (field, name) {
        (only, "") | ("", only) => only.to_owned(),
        _ => format!("{field}.{name}"),
    }
}

/// Words that say all or none of something else, but not which tools.
const MEANS_ALL_OR_NONE: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "all", "none"];
