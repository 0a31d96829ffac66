//! The keys of `shadow`.

use super::super::field::{ConfigField, ReadContext};
use super::super::model::{ShadowRules, UnexpandedText};
use super::{ConfigKey, KeyForm, read_keys, read_section};

/// The value of `shadow` as written, before it is known to name a candidate.
#[derive(Debug, PartialEq)]
pub struct ShadowDraft {
    logic: Option<UnexpandedText>,
    config: Option<UnexpandedText>,
    sample: f64,
}

impl Default for ShadowDraft {
    fn default() -> Self {
        ShadowDraft { logic: None, config: None, sample: 1.0 }
    }
}

/// The keys of `shadow`.
pub const SHADOW: &[ConfigKey<ShadowDraft>] = &[
    ConfigKey::new(
        "logic",
        KeyForm::Text,
        "",
        "The component to try, relative to this file; default: the active one.",
        |draft, field, _| {
            draft.logic = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "config",
        KeyForm::Text,
        "",
        "The configuration to try, relative to this file: its rules, settings and masks; default: this one.",
        |draft, field, _| {
            draft.config = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "sample",
        KeyForm::Fraction,
        "1.0",
        "The share of calls to try, from 0 (none) to 1 (all).",
        |draft, field, _| {
            draft.sample = field.fraction()?;
            Ok(())
        },
    ),
];

/// Reads `shadow`.
pub fn read_shadow(field: &ConfigField<'_>, context: &mut ReadContext) -> Option<ShadowRules> {
    read_section(field, context, |field, context| {
        let mut draft = ShadowDraft::default();
        read_keys(SHADOW, &mut draft, field, context);
        let ShadowDraft { logic, config, sample } = draft;
        if logic.is_none() && config.is_none() {
            return Err(field.error("needs a candidate: the `logic` to try, or the `config`, or both"));
        }
        Ok(ShadowRules { place: field.node.place.clone(), logic, config, sample })
    })
}
