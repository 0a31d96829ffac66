//! The rate limit of clients.

use std::time::Duration;

use tokio::time::Instant;

use super::client_key::ClientKey;
use crate::config::model::StoreFailurePolicy;
use crate::store::{RateBuckets, RateLimit, Store, StoreError};

/// The rate limit of clients, whose requests replicas count together if they share a store.
pub(super) struct RateLimiter {
    rate: RateLimit,
    store: Store,
    /// The buckets of this replica, if it counts alone.
    buckets: RateBuckets<ClientKey>,
}

impl RateLimiter {
    pub(super) fn new(rate: RateLimit, store: Store) -> Self {
        RateLimiter { rate, store, buckets: RateBuckets::default() }
    }

    /// Takes one request out of a bucket, or returns how long to wait.
    pub(super) async fn take(
        &self,
        client: ClientKey,
        on_store_failure: StoreFailurePolicy,
    ) -> Result<Result<(), Duration>, StoreError> {
        if self.store.is_shared() {
            let name = match &client {
                ClientKey::Principal(principal) => format!("principal:{}", principal.name),
                ClientKey::Peer(address) => format!("peer:{address}"),
            };
            match Box::pin(self.store.take_rate(&name, self.rate)).await {
                Err(_) if on_store_failure == StoreFailurePolicy::Open => {}
                taken => return taken,
            }
        }
        Ok(self.buckets.take(client, self.rate, Instant::now()))
    }
}
