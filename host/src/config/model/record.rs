//! The settings of `record`.

use std::time::Duration;

use super::UnexpandedText;

/// Where to record calls, and how many to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRules {
    /// The folder; `None` means the default folder of the configuration file.
    pub dir: Option<UnexpandedText>,
    /// The largest size of one file.
    pub max_segment: u64,
    /// The largest size of all files together.
    pub max_total: u64,
    /// How long to keep records.
    pub max_age: Duration,
    /// Whether to record arguments and results unmasked.
    pub raw: bool,
}

impl Default for RecordRules {
    fn default() -> Self {
        RecordRules {
            dir: None,
            max_segment: 16 << 20,
            max_total: 1 << 30,
            max_age: Duration::from_secs(30 * 24 * 60 * 60),
            raw: false,
        }
    }
}
