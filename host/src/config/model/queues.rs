//! Queues that limit how many calls run at a time.

use std::time::Duration;

/// The settings of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QueueRules {
    /// The name: letters, digits, `_` and `-`.
    pub name: String,
    /// How many calls run at a time; `None` means twice the number of cores, and at most 64.
    pub slots: Option<usize>,
    /// How many calls may wait; `None` means 1000.
    pub waiting: Option<usize>,
    /// How long a call may wait; `None` means as long as the call itself may take.
    pub timeout: Option<Duration>,
}
