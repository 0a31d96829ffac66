//! Times of the system clock as text, in UTC.

use std::fmt;
use std::time::{Duration, SystemTime};

/// A UTC time in parts, displayed as RFC 3339 to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utc {
    /// The year, at most 9999.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
    /// The hour.
    pub hour: u64,
    /// The minute.
    pub minute: u64,
    /// The second.
    pub second: u64,
    /// The millisecond.
    pub milli: u32,
}

impl From<SystemTime> for Utc {
    /// Converts a time; one before 1970 becomes the start of 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs().min(LAST_SECOND);
        // Years start in March, so that a leap day is their last day; 400 of them always have the same number of days.
        let day = seconds / 86_400 + 719_468;
        let (era, day) = (day / 146_097, day % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
        Utc {
            year: year + era * 400,
            month,
            day,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            milli: since.subsec_millis(),
        }
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc { year, month, day, hour, minute, second, milli } = *self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Parses an RFC 3339 time, or a date as its first moment in UTC; none if it is neither, or before 1970.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim().to_ascii_uppercase();
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text.as_str(), None),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of = |month: i64| match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=days_of(month)).contains(&day) {
        return None;
    }
    // As above, years start in March.
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * march_year + march_year.div_euclid(4) - march_year.div_euclid(100)
        + march_year.div_euclid(400)
        + (153 * march_month + 2) / 5
        + day
        - 1
        - 719_468;
    let (seconds, fraction) = time.map_or(Some((0, Duration::ZERO)), of_day)?;
    let since = Duration::from_secs(u64::try_from(days * 86_400 + seconds).ok()?) + fraction;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Parses a time of day with its offset into seconds since midnight UTC and a fraction.
fn of_day(text: &str) -> Option<(i64, Duration)> {
    let (clock, offset) = match text.strip_suffix('Z') {
        Some(clock) => (clock, 0),
        None => {
            let (clock, offset) = text.split_at_checked(text.rfind(['+', '-'])?)?;
            let [hours, minutes] = numbers(&offset[1..], ':', [2, 2])?;
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            (hours < 24 && minutes < 60).then_some((clock, sign * (hours * 60 + minutes) * 60))?
        }
    };
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let millis = format!("{digits:0<3}")[..3].parse().ok()?;
            (clock, Duration::from_millis(millis))
        }
        Some(_) => return None,
        None => (clock, Duration::ZERO),
    };
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    // A second may be a leap second.
    (hour < 24 && minute < 60 && second <= 60).then_some(((hour * 60 + minute) * 60 + second - offset, fraction))
}

/// Parses numbers with this separator and these counts of digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut words = text.split(between);
    let mut found = [0; N];
    for (found, digits) in found.iter_mut().zip(digits) {
        let word =
            words.next().filter(|word| word.len() == digits && word.bytes().all(|byte| byte.is_ascii_digit()))?;
        *found = word.parse().ok()?;
    }
    words.next().is_none().then_some(found)
}

/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// Converts a time to milliseconds, rounded to microseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        let rows = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
            (1 << 60, "9999-12-31T23:59:59.976Z"),
        ];
        for (millis, text) in rows {
            assert_eq!(Utc::from(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)).to_string(), text);
        }
        assert_eq!(Utc::from(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).year, 1970);
    }

    #[test]
    fn times_are_read_as_people_and_programs_write_them() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29", 951_782_400_000),
            ("2000-03-01", 951_868_800_000),
            ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
            ("2024-02-29t23:59:59.9999z", 1_709_251_199_999),
            ("2024-02-29 23:59:59.9Z", 1_709_251_199_900),
            ("2024-03-01T01:29:59+01:30", 1_709_251_199_000),
            ("2024-02-29T18:59:59-05:00", 1_709_251_199_000),
            ("2024-02-29T23:59:60Z", 1_709_251_200_000),
            ("2100-01-01", 4_102_444_800_000),
            ("9999-12-31T23:59:59.976Z", 253_402_300_799_976),
        ] {
            assert_eq!(parse(text), Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "7d",
            "2026",
            "2026-11",
            "2026-13-01",
            "2026-00-01",
            "2026-11-31",
            "2026-02-29",
            "2100-02-29",
            "1969-12-31",
            "26-11-15",
            "2026-11-15T",
            "2026-11-15T17:30",
            "2026-11-15T17:30:00",
            "2026-11-15T24:00:00Z",
            "2026-11-15T17:30:61Z",
            "2026-11-15T17:30:00.Z",
            "2026-11-15T17:30:00+1:00",
            "2026-11-15T17:30:00+é",
            "2026-11-15-01",
            "+026-11-15",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
