//! The keys of `record`.

use super::super::model::RecordRules;
use super::super::section::{ConfigKey, KeyForm};

type Key = ConfigKey<RecordRules>;

/// The keys of `record`.
pub(crate) const RECORD: &[Key] = &[
    Key::new("dir", KeyForm::UnexpandedText(|record, text| record.dir = Some(text)))
        .about("The folder, relative to this file; default: this file's own folder in ~/.local/state/toolgate/records.")
        .aliased(&["folder", "directory"]),
    Key::new(
        "max_segment",
        KeyForm::BytesFrom(
            64 << 10,
            "expected at least 64KiB, so that a file holds more than a few calls",
            |record, bytes| record.max_segment = bytes,
        ),
    )
    .about("The largest size of one file; then the next one is started.")
    .default("\"16MiB\""),
    Key::new(
        "max_total",
        KeyForm::BytesFrom(
            4 << 20,
            "expected at least 4MiB, since the component is kept there too; to record nothing, leave `record` out",
            |record, bytes| record.max_total = bytes,
        ),
    )
    .about("The largest size of all files together; the oldest are deleted.")
    .default("\"1GiB\""),
    Key::new(
        "max_age",
        KeyForm::RetentionAboveZero("must be longer than 0; to record nothing, leave `record` out", |record, span| {
            record.max_age = span
        }),
    )
    .about("How long to keep records.")
    .default("\"30d\""),
    Key::new("raw", KeyForm::Flag(|record, flag| record.raw = flag))
        .about("Record arguments and results unmasked, secrets included, to test masks on them.")
        .default("false"),
];
