//! The rate limit of clients: a token bucket for each, stored as the time at which it will be full again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::client_key::ClientKey;
use super::options::RateLimit;
use crate::lock::lock;

/// The rate limit with the buckets of all clients.
pub(super) struct RateLimiter {
    /// The time that refills one request.
    cost: Duration,
    /// The time that refills the whole bucket.
    depth: Duration,
    full_at: Mutex<HashMap<ClientKey, Instant>>,
}

impl RateLimiter {
    pub(super) fn new(rate: RateLimit) -> Self {
        let cost = Duration::from_secs(1) / rate.per_second.max(1);
        RateLimiter { cost, depth: cost.saturating_mul(rate.burst.max(1)), full_at: Mutex::default() }
    }

    /// Takes one request out of a bucket, or returns how long to wait.
    pub(super) fn take(&self, client: ClientKey, now: Instant) -> Result<(), Duration> {
        let mut full_at = lock(&self.full_at);
        if full_at.len() >= MOST && !full_at.contains_key(&client) {
            full_at.retain(|_, moment| *moment > now);
            if full_at.len() >= MOST {
                return Err(self.cost);
            }
        }
        let moment = full_at.entry(client).or_insert(now);
        let after = (*moment).max(now) + self.cost;
        let missing = after.duration_since(now).saturating_sub(self.depth);
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
        let buckets = RateLimiter::new(RateLimit { per_second: 10, burst: 3 });
        let (now, asker) = (Instant::now(), || ClientKey::Peer([127, 0, 0, 1].into()));
        for _ in 0..3 {
            assert_eq!(buckets.take(asker(), now), Ok(()));
        }
        assert_eq!(buckets.take(asker(), now), Err(Duration::from_millis(100)));
        assert_eq!(buckets.take(ClientKey::Peer([127, 0, 0, 2].into()), now), Ok(()));
        let later = now + Duration::from_millis(100);
        assert_eq!(buckets.take(asker(), later), Ok(()));
        assert_eq!(buckets.take(asker(), later), Err(Duration::from_millis(100)));
        let rested = now + Duration::from_secs(60);
        assert_eq!((0..9).filter(|_| buckets.take(asker(), rested).is_ok()).count(), 3);
    }

    #[test]
    fn the_number_of_buckets_is_bounded_and_full_ones_make_room() {
        let buckets = RateLimiter::new(RateLimit { per_second: 1, burst: 1 });
        let now = Instant::now();
        let peer = |number: u32| ClientKey::Peer(std::net::Ipv4Addr::from(number).into());
        for number in 0..MOST as u32 {
            assert!(buckets.take(peer(number), now).is_ok());
        }
        assert!(buckets.take(peer(u32::MAX), now).is_err());
        assert!(buckets.take(peer(u32::MAX), now + Duration::from_secs(1)).is_ok());
        assert_eq!(buckets.full_at.lock().unwrap().len(), 1);
    }
}
