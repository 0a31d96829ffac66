//! The sessions that have ended before their time, whose ids could still be opened.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::session_id::LIFETIME;
use crate::lock::lock;

/// The names of sessions that ended before their time, each until its id is void anyway.
#[derive(Default)]
pub(super) struct EndedSessions(Mutex<State>);

#[derive(Default)]
struct State {
    void_at: HashMap<String, Instant>,
    /// The names in the order in which they were added.
    order: VecDeque<String>,
}

impl EndedSessions {
    /// Adds a session whose id is void after `rest`, and no later than any id is.
    pub(super) fn add(&self, name: &str, rest: Duration) {
        let rest = rest.min(LIFETIME);
        let State { void_at, order } = &mut *lock(&self.0);
        let now = Instant::now();
        // An id authenticates nobody, so its owner gains nothing by using one of the oldest again.
        while let Some(oldest) = order.front()
            && (order.len() >= MOST || void_at.get(oldest).is_none_or(|void_at| *void_at <= now))
        {
            void_at.remove(oldest);
            order.pop_front();
        }
        if void_at.insert(name.to_owned(), now + rest).is_none() {
            order.push_back(name.to_owned());
        }
    }

    /// Reports whether a session has ended.
    pub(super) fn has(&self, name: &str) -> bool {
        lock(&self.0).void_at.contains_key(name)
    }
}

/// How many sessions are remembered.
const MOST: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rest_of_any_length_is_remembered() {
        let ended = EndedSessions::default();
        for rest in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_millis(u64::MAX), Duration::ZERO] {
            ended.add("s", rest);
        }
        ended.add("t", Duration::MAX);
        assert!(ended.has("t"));
    }

    #[tokio::test(start_paused = true)]
    async fn ended_sessions_are_remembered_until_their_ids_are_void_and_within_bounds() {
        let (ended, hour) = (EndedSessions::default(), Duration::from_secs(3600));
        ended.add("short", hour);
        ended.add("short", hour);
        assert!(ended.has("short") && !ended.has("0"));
        tokio::time::advance(hour).await;
        for number in 0..=MOST {
            ended.add(&number.to_string(), hour);
        }
        assert!(!ended.has("short") && !ended.has("0") && ended.has("1") && ended.has(&MOST.to_string()));
        let state = lock(&ended.0);
        assert_eq!((state.void_at.len(), state.order.len()), (MOST, MOST));
    }
}
