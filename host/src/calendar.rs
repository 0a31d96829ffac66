//! A time of the world's clock as people write it, in UTC.

use std::fmt;
use std::time::SystemTime;

/// A time in parts. It is shown as RFC 3339 has it, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
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
    /// A time before 1970 is taken for the first moment of it.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs().min(LAST_SECOND);
        // Years begin in March, so that the day that comes and goes is their last; 400 of them have always as many days.
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
        let Utc { year, month, day, hour, minute, second, milli } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// The end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
