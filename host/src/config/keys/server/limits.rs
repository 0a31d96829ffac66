//! How long things may take.

use std::time::Duration;

use super::super::super::duration::DurationUnit;
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::{FileShape, Timeouts};
use super::super::{ConfigKey, KeyForm};

/// How long things may take.
pub const TIMEOUTS: &[ConfigKey<Timeouts>] = &[
    ConfigKey::new(
        "call",
        KeyForm::Span,
        "\"60s\"",
        "An answer to a call; progress begins it anew.",
        |timeouts, field, context| {
            timeouts.call = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "total",
        KeyForm::Span,
        "\"10m\"",
        "A call in all, however much progress there is; never less than `call`.",
        |timeouts, field, context| {
            timeouts.total = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "initialize",
        KeyForm::Span,
        "\"30s\"",
        "The first handshake, the start of the program included.",
        |timeouts, field, context| {
            timeouts.initialize = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "reinitialize",
        KeyForm::Span,
        "\"10s\"",
        "A handshake after a lost session.",
        |timeouts, field, context| {
            timeouts.reinitialize = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "list",
        KeyForm::Span,
        "\"10s\"",
        "An answer to a list of tools, resources or prompts.",
        |timeouts, field, context| {
            timeouts.list = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new("connect", KeyForm::Span, "\"10s\"", "A TCP connection.", |timeouts, field, context| {
        timeouts.connect = read_limit(field, context)?;
        Ok(())
    }),
];

/// A limit; a number without a unit has that of the shape.
///
/// Gemini CLI, opencode and Claude Code count in milliseconds. In `mcpServers` some clients count in seconds and some in
/// milliseconds: nobody waits ten thousand seconds, so such a number is taken for milliseconds. What is guessed is told.
pub fn read_limit(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Duration, FieldError> {
    read_limit_in(field, unit(field, context))
}

/// A span of time in the same unit, which may be nothing; `off` is none.
pub fn read_span(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Option<Duration>, FieldError> {
    field.span(unit(field, context))
}

fn unit(given: &ConfigField<'_>, context: &mut ReadContext) -> DurationUnit {
    // Nothing is nothing in every unit.
    let number = given.text().ok().and_then(|text| text.trim().parse::<f64>().ok()).filter(|number| *number != 0.0);
    match context.shape {
        FileShape::Gemini | FileShape::OpenCode => DurationUnit::Milliseconds,
        FileShape::Native | FileShape::Codex => DurationUnit::Seconds,
        _ if context.claude_code => {
            // Hardly meant, wherever such a number came from.
            if number.is_some_and(|number| number < 1000.0) {
                let text = format!("{} is taken for milliseconds, as Claude Code has it", given.field);
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
            // The other keys are ours, which count in seconds.
            if unit == DurationUnit::Milliseconds || field == THEIRS {
                let text = format!("{field} is taken for {name}; write a unit, as in \"60s\"");
                context.add_notice(&given.node.place, text);
            }
            unit
        }
    }
}

/// The key whose unit each client chooses for itself.
const THEIRS: &str = "timeout";

pub fn read_limit_in(field: &ConfigField<'_>, unit: DurationUnit) -> Result<Duration, FieldError> {
    match field.span(unit)? {
        Some(span) if span.is_zero() => Err(field.error("must be longer than nothing")),
        Some(span) => Ok(span),
        None => Err(field.error("every wait has a limit; write a long one, such as \"1h\"")),
    }
}
