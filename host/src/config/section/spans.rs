//! Durations in the unit of the file's format.

use std::time::Duration;

use super::super::duration::DurationUnit;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::FileShape;

/// Reads a timeout; a number without a unit is in the unit of the file's format.
///
/// Gemini CLI, opencode and Claude Code use milliseconds. Under `mcpServers`, some clients use seconds and some
/// milliseconds. Nobody waits 10,000 seconds, so a number that large is read as milliseconds. Each guess becomes a
/// notice.
pub(super) fn read_limit(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Duration, FieldError> {
    read_limit_in(field, unit(field, context))
}

/// Reads a duration that may be zero, in the unit of the file's format; `off` is `None`.
pub(crate) fn read_span(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Option<Duration>, FieldError> {
    field.span(unit(field, context))
}

/// Reads how long to keep something.
pub(super) fn read_retention(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Duration, FieldError> {
    let endless = || field.error("this needs a limit; write a long one, such as \"30d\"");
    read_span(field, context)?.ok_or_else(endless)
}

/// Reads a timeout; a number without a unit is in this unit.
pub(crate) fn read_limit_in(field: &ConfigField<'_>, unit: DurationUnit) -> Result<Duration, FieldError> {
    match field.span(unit)? {
        Some(span) if span.is_zero() => Err(field.error("must be longer than 0")),
        Some(span) => Ok(span),
        None => Err(field.error("this needs a limit; write a long one, such as \"1h\"")),
    }
}

fn unit(given: &ConfigField<'_>, context: &mut ReadContext) -> DurationUnit {
    // Zero is zero in every unit, so it needs no notice.
    let number = given.text().ok().and_then(|text| text.trim().parse::<f64>().ok()).filter(|number| *number != 0.0);
    match context.shape {
        FileShape::Gemini | FileShape::OpenCode => DurationUnit::Milliseconds,
        FileShape::Native | FileShape::Codex | FileShape::Tarsy => DurationUnit::Seconds,
        _ if context.claude_code => {
            // Less than a second is hardly what the author wanted, even if the file is not Claude Code's.
            if number.is_some_and(|number| number < 1000.0) {
                let text = format!("{} is read as milliseconds, as Claude Code does", given.field);
                context.add_notice(&given.node.place, text);
            }
            DurationUnit::Milliseconds
        }
        _ => {
            let Some(number) = number else { return DurationUnit::Seconds };
            let (unit, name) = match number >= 10_000.0 {
                true => (DurationUnit::Milliseconds, "milliseconds"),
                false => (DurationUnit::Seconds, "seconds"),
            };
            let field = &given.field;
            // All other keys are toolgate's own, and those are in seconds.
            if unit == DurationUnit::Milliseconds || field == THEIRS {
                let text = format!("{field} is read as {name}; write a unit, as in \"60s\"");
                context.add_notice(&given.node.place, text);
            }
            unit
        }
    }
}

/// The only key whose unit depends on the client.
const THEIRS: &str = "timeout";
