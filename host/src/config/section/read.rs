//! Reads a map of a file by the table of its keys.

use super::super::document::MapEntry;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::FilePosition;
use super::super::{field, nearest};
use super::ignorable::is_ignorable;
use super::key::{ConfigKey, KeyForm};
use super::misspelt;
use super::spans::{read_limit, read_retention, read_span};

/// Reads a map by its table; errors go to `context`, so that one mistake does not hide the next.
pub(crate) fn read_keys<T>(keys: &[ConfigKey<T>], target: &mut T, given: &ConfigField<'_>, context: &mut ReadContext) {
    let entries = match given.map() {
        Ok(entries) => entries,
        Err(error) => return context.add_problem(error),
    };
    if entries.len() > MAX_KEYS {
        return context.add_problem(given.error(format!("{} keys are too many for one map", entries.len())));
    }
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for entry in entries {
        let name = entry.key.as_str();
        let Some(key) = keys.iter().find(|key| key.is_called(name)) else {
            report_unknown(keys, entry, &given.field, context);
            continue;
        };
        // A key without a value counts as not given. For a rule, that would guess what the author wants to forbid.
        if entry.value.is_null() {
            if key.is_rule {
                let text = "has no value; write one, or remove the key".to_owned();
                let field = field::join(&given.field, name);
                context.add_problem(FieldError { place: entry.place.clone(), field, text });
            }
            continue;
        }
        if let Some((_, first)) = taken.iter().find(|(taken, _)| *taken == key.name) {
            let text = format!("{name:?} means the same as {first:?}; keep one of them");
            report(context, key.is_rule, &entry.place, &given.field, text, " (the first is used)");
            continue;
        }
        taken.push((key.name, name));
        let value = ConfigField { node: &entry.value, field: field::join(&given.field, key.name) };
        if let Err(error) = key.form.read(target, &value, context) {
            context.add_problem(error);
        }
    }
}

/// Reads a section of the file whose values are expanded later; field names start at the section, as those of a server
/// do.
pub(crate) fn read_section<T>(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
    read: impl FnOnce(&ConfigField<'_>, &mut ReadContext) -> Result<T, FieldError>,
) -> Result<T, FieldError> {
    let outer = std::mem::replace(&mut context.path, field.field.clone());
    let found = read(&ConfigField { node: field.node, field: String::new() }, context);
    context.path = outer;
    found.map_err(|error| FieldError { field: field::join(&field.field, &error.field), ..error })
}

impl<T> KeyForm<T> {
    /// Reads a value into its target.
    fn read(&self, target: &mut T, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError> {
        match self {
            KeyForm::Flag(set) => set(target, field.flag()?),
            KeyForm::Text(set) => set(target, field.text()?),
            KeyForm::UnexpandedText(set) => set(target, field.unexpanded_text()?),
            KeyForm::Span(set) => set(target, read_span(field, context)?.unwrap_or_default()),
            KeyForm::Limit(set) => set(target, read_limit(field, context)?),
            KeyForm::Retention(set) => set(target, read_retention(field, context)?),
            KeyForm::RetentionAboveZero(error, set) => match read_retention(field, context)? {
                span if span.is_zero() => return Err(field.error(*error)),
                span => set(target, span),
            },
            KeyForm::Bytes(set) => set(target, field.bytes()?),
            KeyForm::BytesFrom(least, error, set) => match field.bytes()? {
                bytes if bytes < *least => return Err(field.error(*error)),
                bytes => set(target, bytes),
            },
            KeyForm::Number(least, most, set) => set(target, field.count(*least, *most)?),
            KeyForm::Fraction(set) => set(target, field.fraction()?),
            KeyForm::Texts(set) => set(target, field.texts()?),
            KeyForm::Patterns(set) => set(target, field.patterns()?),
            KeyForm::UnexpandedTexts(set) => set(target, field.unexpanded_texts()?),
            KeyForm::Typed(form) => return form.read(target, field, context),
            KeyForm::Custom(_, read) => return read(target, field, context),
        }
        Ok(())
    }
}

fn report_unknown<T>(keys: &[ConfigKey<T>], entry: &MapEntry, field: &str, context: &mut ReadContext) {
    let (name, place) = (entry.key.as_str(), &entry.place);
    if !context.strict && is_ignorable(name) {
        return;
    }
    if let Some((_, advice)) = CANNOT.iter().find(|(known, _)| nearest::is_same_word(known, name)) {
        return report(context, false, place, field, format!("{name:?} is not supported: {advice}"), "");
    }
    let meant = misspelt::intended_rule(keys, entry);
    if let Some(meant) = meant.filter(|_| !context.strict) {
        return report(context, true, place, field, misspelt::advice(name, meant), "");
    }
    let shown = keys.iter().filter(|key| key.in_schema).map(|key| key.name);
    let hint = match (nearest::hint(name, shown), meant) {
        (hint, Some(meant)) if hint.is_empty() => misspelt::hint(name, meant),
        (hint, _) => hint,
    };
    report(context, false, place, field, format!("unknown key {name:?}{hint}"), " (ignored)");
}

/// Reports an unusable key: as an error if it may be a rule or the file is toolgate's own, and otherwise as a notice
/// that ends with `consequence`.
fn report(
    context: &mut ReadContext,
    is_rule: bool,
    place: &FilePosition,
    field: &str,
    text: String,
    consequence: &str,
) {
    match is_rule || context.strict {
        true => context.add_problem(FieldError { place: place.clone(), field: field.to_owned(), text }),
        false => context.add_notice(place, format!("{text}{consequence}")),
    }
}

const CANNOT: [(&str, &str); 6] = [
    ("lifecycle", "in a server, write its keys directly, such as `idle_timeout: 10m`"),
    ("headersHelper", "write the header under `headers`, with a variable such as ${TOKEN}"),
    ("authProviderType", "write the token under `auth`, with a variable such as ${TOKEN}"),
    ("targetServiceAccount", "write the token under `auth`, with a variable such as ${TOKEN}"),
    ("sandbox", "the program runs with toolgate's own rights"),
    ("sandboxEnabled", "the program runs with toolgate's own rights"),
];

const MAX_KEYS: usize = 1000;
