//! Where calls are recorded, and how many.

use std::time::Duration;

use super::UnexpandedText;

/// Where calls are recorded, and how many.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRules {
    /// The folder; none means one of the user's own.
    pub dir: Option<UnexpandedText>,
    /// The most bytes of one file.
    pub max_segment: u64,
    /// The most bytes of all files in the folder.
    pub max_total: u64,
    /// How long a record is kept.
    pub max_age: Duration,
    /// Arguments and answers are recorded as they are, and not masked.
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
