//! Durations as people write them: `30s`, `1.5m`, `1h30m`, or a number in the unit of the file.

use std::time::Duration;

/// The unit of a number without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// Parses a duration; `off` is `None`.
pub fn parse(text: &str, unit: DurationUnit) -> Result<Option<Duration>, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let bare = if unit == DurationUnit::Seconds { "s" } else { "ms" };
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(after.len());
        let (word, after) = after.split_at(letters);
        let number: f64 = number.parse().map_err(|_| unreadable(text))?;
        // A single number may omit its unit; in `1h30` the unit would be a guess.
        let word = if word.is_empty() && rest.len() == text.len() && after.is_empty() { bare } else { word };
        seconds += number * length(word).ok_or_else(|| unreadable(text))?;
        rest = after.trim_start();
    }
    if text.is_empty() {
        return Err(unreadable(text));
    }
    if seconds > LONGEST {
        return Err("longer than a year".to_owned());
    }
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| unreadable(text))
}

/// Formats a duration in the shortest exact way.
pub fn write(span: Duration) -> String {
    let milliseconds = span.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let fitting = units.iter().find(|(length, _)| milliseconds >= *length && milliseconds.is_multiple_of(*length));
    match fitting {
        Some((length, unit)) => format!("{}{unit}", milliseconds / length),
        None => format!("{milliseconds}ms"),
    }
}

fn length(word: &str) -> Option<f64> {
    Some(match word.to_ascii_lowercase().as_str() {
        "ms" | "msec" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7.0 * DAY,
        "mo" | "month" | "months" => 30.0 * DAY,
        "y" | "year" | "years" => LONGEST,
        _ => return None,
    })
}

fn unreadable(text: &str) -> String {
    format!("expected a duration such as \"30s\", \"2m\" or \"500ms\", found {text:?}")
}

const DAY: f64 = 86_400.0;
const LONGEST: f64 = 365.0 * DAY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let rows = [
            ("1500", DurationUnit::Milliseconds, Ok(Some(1500))),
            ("1500", DurationUnit::Seconds, Ok(Some(1_500_000))),
            ("1.5s", DurationUnit::Milliseconds, Ok(Some(1500))),
            ("2m", DurationUnit::Milliseconds, Ok(Some(120_000))),
            ("1h", DurationUnit::Milliseconds, Ok(Some(3_600_000))),
            ("1d", DurationUnit::Milliseconds, Ok(Some(86_400_000))),
            ("1w", DurationUnit::Milliseconds, Ok(Some(604_800_000))),
            ("1mo", DurationUnit::Milliseconds, Ok(Some(2_592_000_000))),
            ("1y", DurationUnit::Milliseconds, Ok(Some(31_536_000_000))),
            ("off", DurationUnit::Milliseconds, Ok(None)),
            ("500ms", DurationUnit::Seconds, Ok(Some(500))),
            ("0", DurationUnit::Seconds, Ok(Some(0))),
            ("0.25", DurationUnit::Seconds, Ok(Some(250))),
            ("1h30m", DurationUnit::Seconds, Ok(Some(5_400_000))),
            ("1h 30 min", DurationUnit::Seconds, Ok(Some(5_400_000))),
            (" 30 s ", DurationUnit::Seconds, Ok(Some(30_000))),
            (
                "1h30",
                DurationUnit::Seconds,
                Err("expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"1h30\""),
            ),
            ("", DurationUnit::Seconds, Err("expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"\"")),
            (
                "-1s",
                DurationUnit::Seconds,
                Err("expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"-1s\""),
            ),
            (
                "5 parsecs",
                DurationUnit::Seconds,
                Err("expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"5 parsecs\""),
            ),
            (
                "1.2.3s",
                DurationUnit::Seconds,
                Err("expected a duration such as \"30s\", \"2m\" or \"500ms\", found \"1.2.3s\""),
            ),
            ("2y", DurationUnit::Seconds, Err("longer than a year")),
            ("99999999999999999999999999", DurationUnit::Seconds, Err("longer than a year")),
        ];
        for (text, unit, expected) in rows {
            let found = parse(text, unit).map(|span| span.map(|span| span.as_millis()));
            assert_eq!(found, expected.map_err(str::to_owned), "{text:?} in {unit:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (milliseconds, text) in [(0, "0ms"), (1500, "1500ms"), (30_000, "30s"), (600_000, "10m"), (3_600_000, "1h")]
        {
            let span = Duration::from_millis(milliseconds);
            assert_eq!(write(span), text);
            assert_eq!(parse(text, DurationUnit::Seconds), Ok(Some(span)));
        }
    }
}
