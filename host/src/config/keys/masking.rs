//! The keys of `masking`.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{CustomMask, Masking};
use super::super::section::{ConfigKey, KeyForm, read_keys, schema};

type MaskingKey = ConfigKey<Masking>;

/// The keys of `masking`.
pub(crate) const MASKING: &[MaskingKey] = &[
    MaskingKey::rule("groups", KeyForm::Texts(|masking, texts| masking.groups = texts))
        .about("Names of built-in groups: basic, secrets, security, kubernetes, cloud, hidden, all.")
        .default("[]"),
    MaskingKey::rule("patterns", KeyForm::Texts(|masking, texts| masking.patterns = texts))
        .about("Names of built-in patterns, such as email or github_token.")
        .default("[]"),
    MaskingKey::rule("custom", KeyForm::Custom(|| schema::list(schema::object(CUSTOM)), read_custom))
        .about("Patterns of your own.")
        .default("[]"),
];

/// Reads a list of custom masks.
pub(super) fn read_custom(
    masking: &mut Masking,
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<(), FieldError> {
    for item in field.items()? {
        let mut mask = CustomMask { name: None, pattern: String::new(), replacement: MASKED.to_owned() };
        read_keys(CUSTOM, &mut mask, &item, context);
        if mask.pattern.is_empty() {
            return Err(item.error("a `pattern` is missing"));
        }
        masking.custom.push(mask);
    }
    Ok(())
}

type CustomMaskKey = ConfigKey<CustomMask>;

/// The keys of a custom mask.
pub(crate) const CUSTOM: &[CustomMaskKey] = &[
    CustomMaskKey::new("pattern", KeyForm::Text(|mask, text| mask.pattern = text))
        .about("A regular expression; if it has a group named `value`, only that group is replaced."),
    CustomMaskKey::new("replacement", KeyForm::Text(|mask, text| mask.replacement = text))
        .about("The text to put in its place.")
        .default("\"[MASKED]\""),
    CustomMaskKey::new("name", KeyForm::Text(|mask, text| mask.name = Some(text)))
        .about("A name to show to people.")
        .aliased(&["description"]),
];

const MASKED: &str = "[MASKED]";
