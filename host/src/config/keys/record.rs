//! The keys of `record`.

use super::super::model::RecordRules;
use super::super::reading::{Given, Reading};
use super::lifecycle::kept;
use super::{Form, Key, part, read};

/// The keys of `record`.
pub const RECORD: &[Key<RecordRules>] = &[
    Key::or(
        &["folder", "directory"],
        Key::new(
            "dir",
            Form::Text,
            "",
            "The folder, relative to this file; one of the user's own, if not given.",
            |record, given, _| {
                record.dir = Some(given.located()?);
                Ok(())
            },
        ),
    ),
    Key::new(
        "max_segment",
        Form::Bytes,
        "\"16MiB\"",
        "The most bytes of one file; then the next one is begun.",
        |record, given, _| {
            record.max_segment = given.bytes()?;
            if record.max_segment < 64 << 10 {
                return Err(given.misfit("expected at least 64KiB, so that a file holds more than a few calls"));
            }
            Ok(())
        },
    ),
    Key::new(
        "max_total",
        Form::Bytes,
        "\"1GiB\"",
        "The most bytes of all files in the folder; the oldest make room.",
        |record, given, _| {
            record.max_total = given.bytes()?;
            if record.max_total < 4 << 20 {
                return Err(given.misfit(
                    "expected at least 4MiB, since the component is kept there too; to record nothing, leave `record` out",
                ));
            }
            Ok(())
        },
    ),
    Key::new("max_age", Form::Span, "\"30d\"", "How long a record is kept.", |record, given, reading| {
        record.max_age = kept(given, reading)?;
        if record.max_age.is_zero() {
            return Err(given.misfit("must be longer than nothing; to record nothing, leave `record` out"));
        }
        Ok(())
    }),
    Key::new(
        "raw",
        Form::Flag,
        "false",
        "Arguments and answers are recorded as they are, and not masked: for backtests of masks.",
        |record, given, _| {
            record.raw = given.flag()?;
            Ok(())
        },
    ),
];

/// Reads `record`, which may also be `true` or `false`.
pub fn record(given: &Given<'_>, reading: &mut Reading) -> Option<RecordRules> {
    if let Ok(flag) = given.flag() {
        return flag.then(RecordRules::default);
    }
    part(given, reading, |given, reading| {
        let mut record = RecordRules::default();
        read(RECORD, &mut record, given, reading);
        Ok(record)
    })
}
