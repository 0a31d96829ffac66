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
            "The folder, relative to this file; default: ~/.local/state/toolgate/records.",
            |record, field, _| {
                record.dir = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "max_segment",
        KeyForm::Bytes,
        "\"16MiB\"",
        "The largest size of one file; then the next one is started.",
        |record, field, _| {
            record.max_segment = field.bytes()?;
            if record.max_segment < 64 << 10 {
                return Err(field.error("expected at least 64KiB, so that a file holds more than a few calls"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_total",
        KeyForm::Bytes,
        "\"1GiB\"",
        "The largest size of all files together; the oldest are deleted.",
        |record, field, _| {
            record.max_total = field.bytes()?;
            if record.max_total < 4 << 20 {
                return Err(field.error(
                    "expected at least 4MiB, since the component is kept there too; to record nothing, leave `record` out",
                ));
            }
            Ok(())
        },
    ),
    ConfigKey::new("max_age", KeyForm::Span, "\"30d\"", "How long to keep records.", |record, field, context| {
        record.max_age = read_retention(field, context)?;
        if record.max_age.is_zero() {
            return Err(field.error("must be longer than 0; to record nothing, leave `record` out"));
        }
        Ok(())
    }),
    ConfigKey::new(
        "raw",
        KeyForm::Flag,
        "false",
        "Record arguments and results unmasked, secrets included, to test masks on them.",
        |record, field, _| {
            record.raw = field.flag()?;
            Ok(())
        },
    ),
];

/// Reads `record`, which may also be `true` or `false`.
pub fn read_record(field: &ConfigField<'_>, context: &mut ReadContext) -> Option<RecordRules> {
    if let Ok(flag) = field.flag() {
        return flag.then(RecordRules::default);
    }
    read_section(field, context, |field, context| {
        let mut record = RecordRules::default();
        read_keys(RECORD, &mut record, field, context);
        Ok(record)
    })
}
