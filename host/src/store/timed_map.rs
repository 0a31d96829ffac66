//! A map whose entries are kept for a time.

use std::collections::HashMap;

use tokio::time::Instant;

/// A map whose entries are kept for a time, and of which there are never too many.
pub(super) struct TimedMap<T> {
    entries: HashMap<String, (T, Instant)>,
    /// The size at which to look for entries whose time is over.
    clean_at: usize,
}

impl<T> Default for TimedMap<T> {
    fn default() -> Self {
        TimedMap { entries: HashMap::new(), clean_at: FIRST_CLEANING }
    }
}

impl<T> TimedMap<T> {
    /// Returns an entry, unless its time is over.
    pub(super) fn get(&self, key: &str, now: Instant) -> Option<&T> {
        self.entries.get(key).filter(|(_, until)| *until > now).map(|(value, _)| value)
    }

    /// Reports whether a new entry would replace one whose time is not over.
    pub(super) fn is_full(&mut self, now: Instant) -> bool {
        self.clean(now);
        self.entries.len() >= MOST
    }

    /// Adds or replaces an entry. If there are too many, those whose time ends first are removed.
    pub(super) fn insert(&mut self, key: &str, value: T, until: Instant, now: Instant) {
        if self.is_full(now) && !self.entries.contains_key(key) {
            let mut ends: Vec<_> = self.entries.values().map(|(_, until)| *until).collect();
            // Several at once, since finding them takes a while.
            let (_, last, _) = ends.select_nth_unstable(MOST / 8);
            let last = *last;
            self.entries.retain(|_, (_, until)| *until > last);
        }
        self.entries.insert(key.to_owned(), (value, until));
    }

    /// Returns the entries whose time is not over, and when it is.
    pub(super) fn iter(&self, now: Instant) -> impl Iterator<Item = (&str, &T, Instant)> {
        let entries = self.entries.iter().filter(move |(_, (_, until))| *until > now);
        entries.map(|(key, (value, until))| (&**key, value, *until))
    }

    fn clean(&mut self, now: Instant) {
        if self.entries.len() >= self.clean_at {
            self.entries.retain(|_, (_, until)| *until > now);
            self.clean_at = (self.entries.len() * 2).clamp(FIRST_CLEANING, MOST);
        }
    }
}

/// The most entries.
const MOST: usize = 1 << 16;
const FIRST_CLEANING: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_ends_first_makes_room_and_what_has_ended_does_so_before() {
        let (mut map, now) = (TimedMap::default(), Instant::now());
        let after = |seconds: usize| now + Duration::from_secs(seconds as u64);
        for number in 1..=MOST {
            map.insert(&number.to_string(), number, after(number), now);
        }
        assert!(map.is_full(now));
        assert!(!map.is_full(after(1)), "one has ended");
        map.insert("0", 0, after(1000), after(1));
        assert_eq!((map.get("1", now), map.get("2", now)), (None, Some(&2)));
        assert!(map.is_full(after(1)));
        map.insert("new", 0, after(MOST), after(1));
        assert_eq!((map.get("2", now), map.get(&MOST.to_string(), now)), (None, Some(&MOST)));
        assert!(!map.is_full(after(1)));
        assert_eq!(map.iter(after(MOST - 1)).count(), 2);
    }
}
