//! A key of a section: its names, the form of its value, and where the value goes.

use std::time::Duration;

use serde_json::Value;

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::UnexpandedText;
use super::super::nearest;

/// A key of one section of the configuration, whose value is stored in a `T`.
pub(crate) struct ConfigKey<T: 'static> {
    /// The name of the key.
    pub name: &'static str,
    /// Other accepted names. Case, `_` and `-` are ignored, so `envFile` need not be listed.
    pub aliases: &'static [&'static str],
    /// The kind of value that the key takes, and where the value goes.
    pub form: KeyForm<T>,
    /// The default value as JSON; empty if there is none.
    pub default: &'static str,
    /// What the key is for, as one sentence.
    pub about: &'static str,
    /// Whether the key is in the schema; hidden keys are accepted because people write them.
    pub in_schema: bool,
    /// Whether the key restricts something. A rule is never skipped silently: without a value, misspelt or given twice,
    /// it is an error in every file format.
    pub is_rule: bool,
}

/// The kind of value that a key takes, and where the value goes.
pub(crate) enum KeyForm<T: 'static> {
    /// `true` or `false`.
    Flag(fn(&mut T, bool)),
    /// Text.
    Text(fn(&mut T, String)),
    /// Text that is expanded later.
    UnexpandedText(fn(&mut T, UnexpandedText)),
    /// A duration; `off` means 0.
    Span(fn(&mut T, Duration)),
    /// A time limit: a duration longer than 0.
    Limit(fn(&mut T, Duration)),
    /// How long to keep something: a duration, but not `off`.
    Retention(fn(&mut T, Duration)),
    /// How long to keep something, and the error for 0.
    RetentionAboveZero(&'static str, fn(&mut T, Duration)),
    /// A number of bytes.
    Bytes(fn(&mut T, u64)),
    /// A number of bytes with a minimum, and the error for fewer.
    BytesFrom(u64, &'static str, fn(&mut T, u64)),
    /// A whole number in this inclusive range.
    Number(u64, u64, fn(&mut T, usize)),
    /// A number from 0 to 1.
    Fraction(fn(&mut T, f64)),
    /// A list of strings.
    Texts(fn(&mut T, Vec<String>)),
    /// A list of names and globs of tools.
    Patterns(fn(&mut T, Vec<String>)),
    /// A list of strings that are expanded later.
    UnexpandedTexts(fn(&mut T, Vec<UnexpandedText>)),
    /// A value whose type only its form knows, such as one of some words.
    Typed(&'static dyn TypedForm<T>),
    /// A value with a schema and a parser of its own.
    Custom(fn() -> Value, ReadValue<T>),
}

/// A form of a value whose type is not visible outside.
pub(crate) trait TypedForm<T> {
    /// Returns the schema of the value.
    fn schema(&self) -> Value;
    /// Reads the value into its target.
    fn read(&self, target: &mut T, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError>;
}

/// Reads a value into its target.
pub(super) type ReadValue<T> = fn(&mut T, &ConfigField<'_>, &mut ReadContext) -> Result<(), FieldError>;

impl<T> ConfigKey<T> {
    /// Creates a key that is in the schema and has no default.
    pub(crate) const fn new(name: &'static str, form: KeyForm<T>) -> Self {
        ConfigKey { name, aliases: &[], form, default: "", about: "", in_schema: true, is_rule: false }
    }

    /// Creates a key that restricts something.
    pub(crate) const fn rule(name: &'static str, form: KeyForm<T>) -> Self {
        ConfigKey::new(name, form).restricting()
    }

    /// Creates a key that is accepted because people write it, but is not in the schema.
    pub(crate) const fn hidden(name: &'static str, form: KeyForm<T>) -> Self {
        let mut key = ConfigKey::new(name, form);
        key.in_schema = false;
        key
    }

    /// Says what the key is for.
    pub(crate) const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Sets the default value, as JSON.
    pub(crate) const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// Adds other names to the key.
    pub(crate) const fn aliased(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Marks the key as a rule.
    pub(crate) const fn restricting(mut self) -> Self {
        self.is_rule = true;
        self
    }

    /// Reports whether `name` is one of this key's names.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.names().any(|known| nearest::is_same_word(known, name))
    }

    /// Returns all names of this key.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}
