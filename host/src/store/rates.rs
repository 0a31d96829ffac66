//! Limits of rates: a token bucket for each client, stored as the time at which it will be full again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// A token bucket: how many requests are allowed, and how fast it refills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests per second in the long run.
    pub per_second: u32,
    /// Requests at once after a pause.
    pub burst: u32,
}

impl RateLimit {
    /// Returns the time that refills one request.
    pub(crate) fn cost(self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }

    /// Returns the time that refills the whole bucket.
    pub(crate) fn depth(self) -> Duration {
        self.cost().saturating_mul(self.burst.max(1))
    }
}

/// The buckets of all clients.
pub(crate) struct RateBuckets<K>(Mutex<HashMap<K, Instant>>);

impl<K> Default for RateBuckets<K> {
    fn default() -> Self {
        RateBuckets(Mutex::default())
    }
}

impl<K: Eq + Hash> RateBuckets<K> {
    /// Takes one request out of a bucket, or returns how long to wait.
    pub(crate) fn take(&self, client: K, rate: RateLimit, now: Instant) -> Result<(), Duration> {
        let cost = rate.cost();
        let mut full_at = lock(&self.0);
        if full_at.len() >= MOST && !full_at.contains_key(&client) {
            full_at.retain(|_, moment| *moment > now);
            if full_at.len() >= MOST {
                return Err(cost);
            }
        }
        let moment = full_at.entry(client).or_insert(now);
        let after = (*moment).max(now) + cost;
        let missing = after.duration_since(now).saturating_sub(rate.depth());
        if !missing.is_zero() {
            return Err(missing);
        }
        *moment = after;
        Ok(())
    }
}

/// The most buckets that are not full; beyond that, new clients wait.
const MOST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_the_steady_rate() {
        let (buckets, rate) = (RateBuckets::default(), RateLimit { per_second: 10, burst: 3 });
        let now = Instant::now();
        let take = |client, now| buckets.take(client, rate, now);
        for _ in 0..3 {
            assert_eq!(take("ann", now), Ok(()));
        }
        assert_eq!(take("ann", now), Err(Duration::from_millis(100)));
        assert_eq!(take("bob", now), Ok(()));
        let later = now + Duration::from_millis(100);
        assert_eq!(take("ann", later), Ok(()));
        assert_eq!(take("ann", later), Err(Duration::from_millis(100)));
        let rested = now + Duration::from_secs(60);
        assert_eq!((0..9).filter(|_| take("ann", rested).is_ok()).count(), 3);
    }

    #[test]
    fn the_number_of_buckets_is_bounded_and_full_ones_make_room() {
        let (buckets, rate) = (RateBuckets::default(), RateLimit { per_second: 1, burst: 1 });
        let now = Instant::now();
        for number in 0..MOST {
            assert!(buckets.take(number, rate, now).is_ok());
        }
        assert!(buckets.take(MOST, rate, now).is_err());
        assert!(buckets.take(MOST, rate, now + Duration::from_secs(1)).is_ok());
        assert_eq!(buckets.0.lock().unwrap().len(), 1);
    }
}
