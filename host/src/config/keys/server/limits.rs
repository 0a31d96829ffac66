//! How long things may take.

use std::time::Duration;

use super::super::super::duration::Unit;
use super::super::super::model::{Shape, Timeouts};
use super::super::super::reading::{Given, Misfit, Reading};
use super::super::{Form, Key};

/// How long things may take.
pub const TIMEOUTS: &[Key<Timeouts>] = &[
    Key::new(
        "call",
        Form::Span,
        "\"60s\"",
        "An answer to a call; progress begins it anew.",
        |timeouts, given, reading| {
            timeouts.call = limit(given, reading)?;
            Ok(())
        },
    ),
    Key::new(
        "total",
        Form::Span,
        "\"10m\"",
        "A call in all, however much progress there is; never less than `call`.",
        |timeouts, given, reading| {
            timeouts.total = limit(given, reading)?;
            Ok(())
        },
    ),
    Key::new(
        "initialize",
        Form::Span,
        "\"30s\"",
        "The first handshake, the start of the program included.",
        |timeouts, given, reading| {
            timeouts.initialize = limit(given, reading)?;
            Ok(())
        },
    ),
    Key::new("reinitialize", Form::Span, "\"10s\"", "A handshake after a lost session.", |timeouts, given, reading| {
        timeouts.reinitialize = limit(given, reading)?;
        Ok(())
    }),
    Key::new(
        "list",
        Form::Span,
        "\"10s\"",
        "An answer to a list of tools, resources or prompts.",
        |timeouts, given, reading| {
            timeouts.list = limit(given, reading)?;
            Ok(())
        },
    ),
    Key::new("connect", Form::Span, "\"10s\"", "A TCP connection.", |timeouts, given, reading| {
        timeouts.connect = limit(given, reading)?;
        Ok(())
    }),
];

/// A limit; a number without a unit has that of the shape.
///
/// Gemini CLI, opencode and Claude Code count in milliseconds. In `mcpServers` some clients count in seconds and some in
/// milliseconds: nobody waits ten thousand seconds, so such a number is taken for milliseconds. What is guessed is told.
pub fn limit(given: &Given<'_>, reading: &mut Reading) -> Result<Duration, Misfit> {
    limit_in(given, unit(given, reading))
}

/// A span of time in the same unit, which may be nothing; `off` is none.
pub fn span(given: &Given<'_>, reading: &mut Reading) -> Result<Option<Duration>, Misfit> {
    given.span(unit(given, reading))
}

fn unit(given: &Given<'_>, reading: &mut Reading) -> Unit {
    // Nothing is nothing in every unit.
    let number = given.text().ok().and_then(|text| text.trim().parse::<f64>().ok()).filter(|number| *number != 0.0);
    match reading.shape {
        Shape::Gemini | Shape::OpenCode => Unit::Milliseconds,
        Shape::Native | Shape::Codex => Unit::Seconds,
        _ if reading.claude_code => {
            // Hardly meant, wherever such a number came from.
            if number.is_some_and(|number| number < 1000.0) {
                let text = format!("{} is taken for milliseconds, as Claude Code has it", given.field);
                reading.notice(&given.node.place, text);
            }
            Unit::Milliseconds
        }
        _ => {
            let Some(number) = number else { return Unit::Seconds };
            let (unit, name) = match number >= 10_000.0 {
                true => (Unit::Milliseconds, "milliseconds"),
                false => (Unit::Seconds, "seconds"),
            };
            let field = &given.field;
            // The other keys are ours, which count in seconds.
            if unit == Unit::Milliseconds || field == THEIRS {
                let text = format!("{field} is taken for {name}; write a unit, as in \"60s\"");
                reading.notice(&given.node.place, text);
            }
            unit
        }
    }
}

/// The key whose unit each client chooses for itself.
const THEIRS: &str = "timeout";

pub fn limit_in(given: &Given<'_>, unit: Unit) -> Result<Duration, Misfit> {
    match given.span(unit)? {
        Some(span) if span.is_zero() => Err(given.misfit("must be longer than nothing")),
        Some(span) => Ok(span),
        None => Err(given.misfit("every wait has a limit; write a long one, such as \"1h\"")),
    }
}
