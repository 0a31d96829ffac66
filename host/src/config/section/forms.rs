//! Forms of values with types of their own: a choice of words, and a section within a section.

use serde_json::{Value, json};

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::key::{ConfigKey, KeyForm, TypedForm};
use super::{read, schema};

/// One of some words, each with the value it stands for; the first word for a value is its name in the schema.
pub(crate) struct ChoiceForm<T: 'static, C: 'static>(pub &'static [(&'static str, C)], pub fn(&mut T, C));

/// A map whose keys have their own table.
pub(crate) struct SectionForm<T: 'static, S: 'static>(pub &'static [ConfigKey<S>], pub fn(&mut T) -> &mut S);

/// A map whose keys have their own table, or `true` for all its defaults, or `false` for none.
pub(crate) struct OptionalSectionForm<T: 'static, S: 'static>(
    pub &'static [ConfigKey<S>],
    pub fn(&mut T) -> &mut Option<S>,
);

/// Returns the first word for a value, of a table that has one for each.
pub(crate) fn name_of<'w, C: PartialEq>(choices: &[(&'w str, C)], value: C) -> &'w str {
    choices.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

impl<T> KeyForm<T> {
    /// Creates the form of a choice.
    pub(crate) const fn choice<C: Copy + PartialEq>(form: &'static ChoiceForm<T, C>) -> Self {
        KeyForm::Typed(form)
    }

    /// Creates the form of a section.
    pub(crate) const fn section<S>(form: &'static SectionForm<T, S>) -> Self {
        KeyForm::Typed(form)
    }

    /// Creates the form of an optional section.
    pub(crate) const fn optional_section<S: Default>(form: &'static OptionalSectionForm<T, S>) -> Self {
        KeyForm::Typed(form)
    }
}

impl<T, C: Copy + PartialEq> TypedForm<T> for ChoiceForm<T, C> {
    fn schema(&self) -> Value {
        let ChoiceForm(choices, _) = self;
        let is_first = |(word, value): &&(&str, C)| name_of(choices, *value) == *word;
        let words: Vec<&str> = choices.iter().filter(is_first).map(|(word, _)| *word).collect();
        json!({"enum": words})
    }

    fn read(&self, target: &mut T, field: &ConfigField<'_>, _: &mut ReadContext) -> Result<(), FieldError> {
        let ChoiceForm(choices, set) = self;
        set(target, field.choice(choices)?);
        Ok(())
    }
}

impl<T, S> TypedForm<T> for SectionForm<T, S> {
    fn schema(&self) -> Value {
        schema::object(self.0)
    }

    fn read(&self, target: &mut T, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError> {
        let SectionForm(keys, section) = self;
        read::read_keys(keys, section(target), field, context);
        Ok(())
    }
}

impl<T, S: Default> TypedForm<T> for OptionalSectionForm<T, S> {
    fn schema(&self) -> Value {
        schema::object_or("boolean", self.0)
    }

    fn read(&self, target: &mut T, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError> {
        let OptionalSectionForm(keys, section) = self;
        *section(target) = match field.flag() {
            Ok(flag) => flag.then(S::default),
            Err(_) => Some(read::read_section(field, context, |field, context| {
                let mut section = S::default();
                read::read_keys(keys, &mut section, field, context);
                Ok(section)
            })?),
        };
        Ok(())
    }
}
