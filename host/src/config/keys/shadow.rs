//! The keys of `shadow`.

use super::super::model::{Located, Shadow};
use super::super::reading::{Given, Reading};
use super::{Form, Key, part, read};

/// What `shadow` says, before it is clear that there is a candidate.
#[derive(Debug, PartialEq)]
pub struct Draft {
    logic: Option<Located>,
    config: Option<Located>,
    sample: f64,
}

impl Default for Draft {
    fn default() -> Self {
        Draft { logic: None, config: None, sample: 1.0 }
    }
}

/// The keys of `shadow`.
pub const SHADOW: &[Key<Draft>] = &[
    Key::new(
        "logic",
        Form::Text,
        "",
        "The component to try, relative to this file; the one that decides, if not given.",
        |draft, given, _| {
            draft.logic = Some(given.located()?);
            Ok(())
        },
    ),
    Key::new(
        "config",
        Form::Text,
        "",
        "The configuration to try, relative to this file: its rules, settings and masks; this one, if not given.",
        |draft, given, _| {
            draft.config = Some(given.located()?);
            Ok(())
        },
    ),
    Key::new(
        "sample",
        Form::Fraction,
        "1.0",
        "Which part of all calls is tried, from 0 (none) to 1 (all).",
        |draft, given, _| {
            draft.sample = given.fraction()?;
            Ok(())
        },
    ),
];

/// Reads `shadow`.
pub fn shadow(given: &Given<'_>, reading: &mut Reading) -> Option<Shadow> {
    part(given, reading, |given, reading| {
        let mut draft = Draft::default();
        read(SHADOW, &mut draft, given, reading);
        let Draft { logic, config, sample } = draft;
        if logic.is_none() && config.is_none() {
            return Err(given.misfit("needs a candidate: the `logic` to try, or the `config`, or both"));
        }
        Ok(Shadow { place: given.node.place.clone(), logic, config, sample })
    })
}
