//! Points in time and lengths of time, to the nanosecond, without a clock and without names of time zones.

use std::fmt;

/// A point in time, from the year 1 to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970 in UTC.
    seconds: i64,
    /// Nanoseconds of the second.
    nanos: u32,
}

/// A length of time, in nanoseconds; it may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i128);

/// A date and time of day in some offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// From 1 to 12.
    pub(super) month: i64,
    /// From 1 to 31.
    pub(super) day: i64,
    pub(super) hours: i64,
    pub(super) minutes: i64,
    pub(super) seconds: i64,
    pub(super) millis: i64,
    /// From 0, Sunday, to 6.
    pub(super) weekday: i64,
    /// From 0, the first of January.
    pub(super) yearday: i64,
}

impl Timestamp {
    /// Returns a point in time, given milliseconds since 1970, if it is in range.
    pub fn from_millis(millis: i64) -> Option<Self> {
        Timestamp::new(millis.div_euclid(1000), u32::try_from(millis.rem_euclid(1000)).ok()? * 1_000_000)
    }

    /// Returns a point in time, given seconds since 1970, if it is in range.
    pub(super) fn new(seconds: i64, nanos: u32) -> Option<Self> {
        (FIRST..=LAST).contains(&seconds).then_some(Timestamp { seconds, nanos })
    }

    /// Returns the seconds since 1970.
    pub(super) fn seconds(self) -> i64 {
        self.seconds
    }

    /// Reads a time as RFC 3339 writes it.
    pub fn read(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| {
            let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse::<i64>().ok()
        };
        let is = |at: usize, signs: &[u8]| text.as_bytes().get(at).is_some_and(|byte| signs.contains(byte));
        if !(is(4, b"-") && is(7, b"-") && is(10, b"T") && is(13, b":") && is(16, b":")) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hours, minutes, seconds) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
        if !is_date || hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        let mut rest = &text[19..];
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=9).contains(&digits) {
                return None;
            }
            nanos = fraction[..digits].parse::<u32>().ok()? * 10u32.pow(9 - u32::try_from(digits).ok()?);
            rest = &fraction[digits..];
        }
        let offset = if rest == "Z" { 0 } else { offset(rest)? };
        let days = days_before(year, month, day);
        Timestamp::new(days * DAY + hours * 3600 + minutes * 60 + seconds - offset, nanos)
    }

    /// Returns the date and time of day, given an offset from UTC in seconds.
    pub(super) fn civil(self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let (days, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date(days);
        Civil {
            year,
            month,
            day,
            hours: second / 3600,
            minutes: second / 60 % 60,
            seconds: second % 60,
            millis: i64::from(self.nanos / 1_000_000),
            weekday: (days + 4).rem_euclid(7),
            yearday: days - days_before(year, 1, 1),
        }
    }

    /// Adds a length of time, if the sum is in range.
    pub(super) fn plus(self, Duration(nanos): Duration) -> Option<Self> {
        let sum = i128::from(self.seconds) * GIGA + i128::from(self.nanos) + nanos;
        let seconds = i64::try_from(sum.div_euclid(GIGA)).ok()?;
        Timestamp::new(seconds, u32::try_from(sum.rem_euclid(GIGA)).ok()?)
    }

    /// Returns the time that has passed since another point, if it is in range.
    pub(super) fn since(self, other: Timestamp) -> Option<Duration> {
        let nanos = |time: Timestamp| i128::from(time.seconds) * GIGA + i128::from(time.nanos);
        Some(Duration(nanos(self) - nanos(other))).filter(|passed| passed.is_in_range())
    }
}

/// Writes the time as RFC 3339 has it, in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hours, minutes, seconds, .. } = self.civil(0);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}")?;
        write_fraction(f, self.nanos)?;
        write!(f, "Z")
    }
}

impl Duration {
    /// Reads a length of time such as `1h30m`, `-1.5s` or `10ms`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let unsigned = text.trim_start_matches(['+', '-']);
        if text.len() - unsigned.len() > 1 {
            return None;
        }
        let sign = if text.starts_with('-') { -1 } else { 1 };
        if unsigned == "0" {
            return Some(Duration(0));
        }
        let mut rest = unsigned;
        let mut sum: i128 = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
            let (number, behind) = rest.split_at(digits);
            let letters = behind.bytes().take_while(|byte| !byte.is_ascii_digit() && *byte != b'.').count();
            let (unit, behind) = behind.split_at(letters);
            let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() + fraction.len() > 20 {
                return None;
            }
            let read = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
            let part = read(fraction)? * scale / 10i128.pow(u32::try_from(fraction.len()).ok()?);
            sum += read(whole)? * scale + part;
            rest = behind;
        }
        let is_written = !unsigned.is_empty();
        Some(Duration(sign * sum)).filter(|duration| is_written && duration.is_in_range())
    }

    /// Adds another length of time, if the sum is in range.
    pub(super) fn plus(self, other: Duration) -> Option<Self> {
        Some(Duration(self.0 + other.0)).filter(|sum| sum.is_in_range())
    }

    /// Turns the length of time around.
    pub(super) fn negated(self) -> Self {
        Duration(-self.0)
    }

    /// Returns the length in a unit of so many nanoseconds, without its fraction.
    pub(super) fn whole(self, unit: i128) -> i64 {
        i64::try_from(self.0 / unit).unwrap_or(i64::MAX)
    }

    /// Returns the milliseconds beyond whole seconds.
    pub(super) fn millis_of_second(self) -> i64 {
        self.whole(1_000_000) % 1000
    }

    /// Reports whether its nanoseconds have 64 bits: about 292 years.
    fn is_in_range(self) -> bool {
        i64::try_from(self.0).is_ok()
    }
}

/// Writes the length in seconds.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let giga = GIGA.unsigned_abs();
        write!(f, "{sign}{}", nanos / giga)?;
        write_fraction(f, u32::try_from(nanos % giga).unwrap_or_default())?;
        write!(f, "s")
    }
}

/// Writes nanoseconds behind a point, without zeros at the end, or nothing if there are none.
fn write_fraction(f: &mut fmt::Formatter<'_>, nanos: u32) -> fmt::Result {
    match nanos {
        0 => Ok(()),
        nanos => write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0')),
    }
}

/// Reads a time zone without a name: `UTC`, or an offset such as `+01:00` or `01:00`, in seconds.
pub(super) fn time_zone(text: &str) -> Option<i64> {
    match text {
        "UTC" => Some(0),
        _ => offset(text).or_else(|| offset(&format!("+{text}"))),
    }
}

/// Reads an offset from UTC such as `+01:00`, in seconds.
fn offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let two = |digits: &str| {
        let digits =
            Some(digits).filter(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits?.parse::<i64>().ok()
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Returns the days from 1970 to a date of the Gregorian calendar, by Howard Hinnant's algorithm: years begin in March.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the date so many days after the first of January 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_in(year: i64, month: i64) -> i64 {
    let next = if month == 12 { days_before(year + 1, 1, 1) } else { days_before(year, month + 1, 1) };
    next - days_before(year, month, 1)
}

const DAY: i64 = 86_400;
const GIGA: i128 = 1_000_000_000;
/// The first second of the year 1, and the last of the year 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;
const UNITS: &[(&str, i128)] =
    &[("h", 3600 * GIGA), ("m", 60 * GIGA), ("s", GIGA), ("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_and_written_as_rfc_3339_has_it() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:00Z")),
            ("2024-02-29T23:59:59.5+01:00", Some("2024-02-29T22:59:59.5Z")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59.999999999Z", Some("9999-12-31T23:59:59.999999999Z")),
            ("2023-02-29T00:00:00Z", None),
            ("2023-13-01T00:00:00Z", None),
            ("2023-01-01T24:00:00Z", None),
            ("2023-01-01 00:00:00Z", None),
            ("2023-01-01T00:00:00", None),
            ("9999-12-31T23:59:59-01:00", None),
            ("", None),
        ] {
            assert_eq!(Timestamp::read(text).map(|time| time.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_length_of_time_is_read_in_units_and_written_in_seconds() {
        for (text, expected) in [
            ("1h30m", Some("5400s")),
            ("-1.5s", Some("-1.5s")),
            ("10ms", Some("0.01s")),
            ("1us", Some("0.000001s")),
            ("1ns", Some("0.000000001s")),
            ("0", Some("0s")),
            ("1", None),
            ("h", None),
            ("", None),
            ("--1s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("999999999999h", None),
        ] {
            assert_eq!(Duration::read(text).map(|time| time.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let civil = Timestamp::read("2026-11-18T00:57:55.123Z").unwrap().civil(3600);
        assert_eq!((civil.year, civil.month, civil.day), (2026, 11, 18));
        assert_eq!((civil.hours, civil.minutes, civil.seconds, civil.millis), (1, 57, 55, 123));
        assert_eq!((civil.weekday, civil.yearday), (3, 321));
        for days in (-719_162..2_932_896).step_by(97) {
            let (year, month, day) = date(days);
            assert_eq!(days_before(year, month, day), days);
        }
    }

    #[test]
    fn a_time_zone_has_hours_and_minutes() {
        for (text, expected) in [
            ("+01:00", Some(3600)),
            ("-05:30", Some(-19_800)),
            ("UTC", Some(0)),
            ("01:00", Some(3600)),
            ("+1:00", None),
            ("+24:00", None),
            ("Europe/Berlin", None),
            ("", None),
        ] {
            assert_eq!(time_zone(text), expected, "{text}");
        }
    }
}
