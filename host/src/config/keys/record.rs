//! The keys of `record`.

use super::super::field::{ConfigField, ReadContext};
use super::super::model::RecordRules;
use super::lifecycle::read_retention;
use super::{ConfigKey, KeyForm, read_keys, read_section};

/// The keys of `record`.
pub const RECORD: &[ConfigKey<RecordRules>] = &[
    ConfigKey::aliased(
        &["folder", "directory"],
        ConfigKey::new(
            "dir",
            KeyForm::Text,
            "",
            "The folder, relative to this file; one of the user's own, if not given.",
            |record, given, _| {
                record.dir = Some(given.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "max_segment",
        KeyForm::Bytes,
        "\"16MiB\"",
        "The most bytes of one file; then the next one is begun.",
        |record, given, _| {
            record.max_segment = given.bytes()?;
            if record.max_segment < 64 << 10 {
                return Err(given.error("expected at least 64KiB, so that a file holds more than a few calls"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_total",
        KeyForm::Bytes,
        "\"1GiB\"",
        "The most bytes of all files in the folder; the oldest make room.",
        |record, given, _| {
            record.max_total = given.bytes()?;
            if record.max_total < 4 << 20 {
                return Err(given.error(
                    "expected at least 4MiB, since the component is kept there too; to record nothing, leave `record` out",
                ));
            }
            Ok(())
        },
    ),
    ConfigKey::new("max_age", KeyForm::Span, "\"30d\"", "How long a record is kept.", |record, given, reading| {
        record.max_age = read_retention(given, reading)?;
        if record.max_age.is_zero() {
            return Err(given.error("must be longer than nothing; to record nothing, leave `record` out"));
        }
        Ok(())
    }),
    ConfigKey::new(
        "raw",
        KeyForm::Flag,
        "false",
        "Arguments and answers are recorded as they are, and not masked: for backtests of masks.",
        |record, given, _| {
            record.raw = given.flag()?;
            Ok(())
        },
    ),
];

/// Reads `record`, which may also be `true` or `false`.
pub fn read_record(given: &ConfigField<'_>, reading: &mut ReadContext) -> Option<RecordRules> {
    if let Ok(flag) = given.flag() {
        return flag.then(RecordRules::default);
    }
    read_section(given, reading, |given, reading| {
        let mut record = RecordRules::default();
        read_keys(RECORD, &mut record, given, reading);
        Ok(record)
    })
}
