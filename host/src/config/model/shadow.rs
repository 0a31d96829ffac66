//! What runs beside the logic that decides, to see what it would have decided.

use super::{FilePosition, UnexpandedText};

/// A candidate that is asked beside the logic that decides, and has no say.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowRules {
    /// Where its section stands.
    pub place: FilePosition,
    /// The file of its component; none means the one that decides.
    pub logic: Option<UnexpandedText>,
    /// The file of its configuration, whose rules it decides by; none means this one.
    pub config: Option<UnexpandedText>,
    /// Which part of all calls it is asked about.
    pub sample: f64,
}
