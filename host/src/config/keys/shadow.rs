//! The keys of `shadow`.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::ShadowRules;
use super::super::section::{ConfigKey, KeyForm, read_keys, read_section};

type Key = ConfigKey<ShadowRules>;

/// The keys of `shadow`.
pub(crate) const SHADOW: &[Key] = &[
    Key::new("logic", KeyForm::UnexpandedText(|shadow, text| shadow.logic = Some(text)))
        .about("The component to try, relative to this file; default: the active one."),
    Key::new("config", KeyForm::UnexpandedText(|shadow, text| shadow.config = Some(text)))
        .about("The configuration to try, relative to this file: its rules, settings and masks; default: this one."),
    Key::new("sample", KeyForm::Fraction(|shadow, fraction| shadow.sample = fraction))
        .about("The share of calls to try, from 0 (none) to 1 (all).")
        .default("1.0"),
];

/// Reads `shadow`.
pub(crate) fn read_shadow(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<ShadowRules, FieldError> {
    read_section(field, context, |field, context| {
        let mut shadow = ShadowRules::new(field.node.place.clone());
        read_keys(SHADOW, &mut shadow, field, context);
        if shadow.logic.is_none() && shadow.config.is_none() {
            return Err(field.error("needs a candidate: the `logic` to try, or the `config`, or both"));
        }
        Ok(shadow)
    })
}
