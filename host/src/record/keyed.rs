//! Values that many calls share, with their digests.

use std::sync::Arc;

use crate::logic::OfferedTools;
use crate::logic::types::execution::Settings;

/// A value that many calls share, with the key that identifies it.
#[derive(Clone)]
pub struct Keyed<T> {
    /// Values with equal keys are equal.
    pub key: Arc<str>,
    /// The value itself.
    pub value: T,
}

/// The settings of a gate, with their digest.
pub type KeyedSettings = Keyed<Arc<Settings>>;
/// The tools that servers had offered, with their digest.
pub type KeyedOffers = Keyed<OfferedTools>;
