//! What happened in the last hour, in slots of time.
//!
//! A slot belongs to a part of the wall clock, so nothing has to run when time passes: whoever writes to a slot of an
//! earlier hour clears it first, and whoever reads leaves it out.

use std::time::{Duration, SystemTime};

/// The slots of an hour.
#[derive(Debug)]
pub(crate) struct Hour<T> {
    /// The length of a slot, in seconds.
    seconds: u64,
    /// Each slot, after the number of the part of the wall clock that it is for, counted from the beginning of the
    /// calendar.
    slots: Box<[(u64, T)]>,
}

impl<T: Clone + Default> Hour<T> {
    /// Creates empty slots that are so many seconds long.
    pub(crate) fn new(seconds: u64) -> Self {
        Hour { seconds, slots: vec![(0, T::default()); (HOUR / seconds) as usize].into() }
    }

    /// Returns the slot for this time, to write to it.
    pub(crate) fn slot(&mut self, at: SystemTime) -> &mut T {
        let number = self.number(at);
        let place = (number % self.slots.len() as u64) as usize;
        let (known, slot) = &mut self.slots[place];
        if *known != number {
            (*known, *slot) = (number, T::default());
        }
        slot
    }

    /// Returns the slots of the last hour that were written to, each with its place from the oldest one.
    pub(crate) fn used(&self, now: SystemTime) -> impl Iterator<Item = (usize, &T)> {
        let end = self.number(now) + 1;
        let first = end.saturating_sub(self.slots.len() as u64);
        let used = self.slots.iter().filter(move |(number, _)| (first..end).contains(number));
        used.map(move |(number, slot)| ((number - first) as usize, slot))
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns how long a slot is.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Returns when the last slot ends, which is not over yet.
    pub(crate) fn ends(&self, now: SystemTime) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs((self.number(now) + 1) * self.seconds)
    }

    fn number(&self, at: SystemTime) -> u64 {
        at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / self.seconds
    }
}

/// An hour, in seconds.
pub(crate) const HOUR: u64 = 3600;
