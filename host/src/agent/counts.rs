//! Counts calls for rules with limits.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock::lock;
use crate::logic::types::rules::{CallCount, CallLimit, LimitScope};

/// How often calls fitted rules with limits, each in a time that begins with the first call.
#[derive(Default)]
pub(crate) struct LimitCounts(Mutex<HashMap<CountKey, CountedTime>>);

/// Whether a call is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountMode {
    /// It is made, and counts.
    Count,
    /// It is not made.
    Foresee,
}

/// The rule, the length of its time in milliseconds, and the principal if each is counted alone.
type CountKey = (String, u64, Option<String>);

struct CountedTime {
    /// In milliseconds of the clock that callers use.
    ends: u64,
    calls: u32,
}

impl LimitCounts {
    /// Counts a call of a principal for a rule.
    pub(crate) fn count(&self, rule: &str, limit: CallLimit, principal: &str, now: u64) -> CallCount {
        let mut counts = lock(&self.0);
        // Bounded by the rules and principals of the configurations within one time.
        counts.retain(|_, counted| counted.ends > now);
        let ends = now.saturating_add(limit.per_ms);
        let counted = counts.entry(key(rule, limit, principal)).or_insert(CountedTime { ends, calls: 0 });
        counted.calls = counted.calls.saturating_add(1);
        counted.report(now)
    }

    /// Returns what counting a call would give, without counting it.
    pub(crate) fn foresee(&self, rule: &str, limit: CallLimit, principal: &str, now: u64) -> CallCount {
        let counts = lock(&self.0);
        let known = counts.get(&key(rule, limit, principal)).filter(|counted| counted.ends > now);
        let CallCount { calls, ends_in_ms } =
            known.map_or(CallCount { calls: 0, ends_in_ms: limit.per_ms }, |counted| counted.report(now));
        CallCount { calls: calls.saturating_add(1), ends_in_ms }
    }
}

impl CountedTime {
    fn report(&self, now: u64) -> CallCount {
        CallCount { calls: self.calls, ends_in_ms: self.ends.saturating_sub(now) }
    }
}

fn key(rule: &str, limit: CallLimit, principal: &str) -> CountKey {
    let own = (limit.by == LimitScope::Principal).then(|| principal.to_owned());
    (rule.to_owned(), limit.per_ms, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_until_their_time_ends() {
        let counts = LimitCounts::default();
        let limit = |by| CallLimit { calls: 1, per_ms: 1000, by };
        let count = |principal: &str, by, now| counts.count("r", limit(by), principal, now).calls;
        assert_eq!([0, 500, 999].map(|ms| count("ann", LimitScope::Principal, ms)), [1, 2, 3]);
        assert_eq!(count("bob", LimitScope::Principal, 999), 1);
        assert_eq!(count("ann", LimitScope::Principal, 1000), 1);
        assert_eq!(count("ann", LimitScope::Everybody, 1000), 1);
        assert_eq!(count("bob", LimitScope::Everybody, 1001), 2);
        let foreseen = counts.foresee("r", limit(LimitScope::Everybody), "ann", 1002);
        assert_eq!(foreseen, CallCount { calls: 3, ends_in_ms: 998 });
        assert_eq!(count("ann", LimitScope::Everybody, 1003), 3);
    }
}
