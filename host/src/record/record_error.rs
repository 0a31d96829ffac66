//! The reasons why a call is not recorded.

use super::replay::ReplayError;

/// The reason why a call was not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    /// The call holds a secret that cannot be removed.
    #[error("the call holds a secret that cannot be removed")]
    Withheld,
    /// The record is longer than a file may be.
    #[error("the record would have {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}
