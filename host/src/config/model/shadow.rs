//! The settings of `shadow`: a candidate policy that is tried on live calls without effect.

use super::{FilePosition, UnexpandedText};

/// A candidate policy that is tried on live calls without effect.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowRules {
    /// The position of the section.
    pub place: FilePosition,
    /// The file of the component to try; `None` means the active one.
    pub logic: Option<UnexpandedText>,
    /// The configuration file whose rules to try; `None` means this one.
    pub config: Option<UnexpandedText>,
    /// The share of calls to try.
    pub sample: f64,
}

impl ShadowRules {
    /// Creates rules that try every call and name no candidate yet.
    pub fn new(place: FilePosition) -> Self {
        ShadowRules { place, logic: None, config: None, sample: 1.0 }
    }
}
