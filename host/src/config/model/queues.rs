//! Queues, in which calls wait for their turn.

use std::time::Duration;

/// What is said of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QueueRules {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// How many calls run at a time; none means twice the number of cores, and at most 64.
    pub slots: Option<usize>,
    /// How many calls may wait; none means 1000.
    pub waiting: Option<usize>,
    /// How long a call may wait; none means as long as the call itself may take.
    pub timeout: Option<Duration>,
}
