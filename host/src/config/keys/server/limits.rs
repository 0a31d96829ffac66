//! The keys of a server's `timeouts`.

use std::time::Duration;

use super::super::super::duration::DurationUnit;
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::{FileShape, Timeouts};
use super::super::{ConfigKey, KeyForm};

/// The keys of `timeouts`.
pub const TIMEOUTS: &[ConfigKey<Timeouts>] = &[
    ConfigKey::new(
        "call",
        KeyForm::Span,
        "\"60s\"",
        "How long to wait for the result of a call; progress restarts the clock.",
        |timeouts, field, context| {
            timeouts.call = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "total",
        KeyForm::Span,
        "\"10m\"",
        "How long a call may take in total, whatever its progress; at least `call`.",
        |timeouts, field, context| {
            timeouts.total = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "initialize",
        KeyForm::Span,
        "\"30s\"",
        "How long the first handshake may take, including the start of the program.",
        |timeouts, field, context| {
            timeouts.initialize = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "reinitialize",
        KeyForm::Span,
        "\"10s\"",
        "How long the handshake after a lost session may take.",
        |timeouts, field, context| {
            timeouts.reinitialize = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "list",
        KeyForm::Span,
        "\"10s\"",
        "How long to wait for a list of tools, resources or prompts.",
        |timeouts, field, context| {
            timeouts.list = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "connect",
        KeyForm::Span,
        "\"10s\"",
        "How long connecting over TCP may take.",
        |timeouts, field, context| {
            timeouts.connect = read_limit(field, context)?;
            Ok(())
        },
    ),
];

/// Reads a timeout; a number without a unit is in the unit of the file's format.
///
/// Gemini CLI, opencode and Claude Code use milliseconds. Under `mcpServers`, some clients use seconds and some
/// milliseconds. Nobody waits 10,000 seconds, so a number that large is read as milliseconds. Each guess becomes a
/// notice.
pub fn read_limit(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Duration, FieldError> {
    read_limit_in(field, unit(field, context))
}

/// Reads a duration that may be zero, in the unit of the file's format; `off` is `None`.
pub fn read_span(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Option<Duration>, FieldError> {
    field.span(unit(field, context))
}

fn unit(given: &ConfigField<'_>, context: &mut ReadContext) -> DurationUnit {
    // Zero is zero in every unit, so it needs no notice.
    let number = given.text().ok().and_then(|text| text.trim().parse::<f64>().ok()).filter(|number| *number != 0.0);
    match context.shape {
        FileShape::Gemini | FileShape::OpenCode => DurationUnit::Milliseconds,
        FileShape::Native | FileShape::Codex => DurationUnit::Seconds,
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

pub fn read_limit_in(field: &ConfigField<'_>, unit: DurationUnit) -> Result<Duration, FieldError> {
    match field.span(unit)? {
        Some(span) if span.is_zero() => Err(field.error("must be longer than 0")),
        Some(span) => Ok(span),
        None => Err(field.error("this needs a limit; write a long one, such as \"1h\"")),
    }
}
