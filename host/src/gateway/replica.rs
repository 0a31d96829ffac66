//! What tells one replica of a gateway apart from the others, and what it shares with them.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use tracing::warn;

use super::peer_seal::PeerSeal;
use super::sealing_keys::SealingKeys;
use crate::config::resolve::SessionKey;
use crate::store::Store;

/// One process of a gateway, of which there may be several behind a load balancer.
pub struct Replica {
    /// Tells it apart.
    pub(super) id: ReplicaId,
    /// What it shares with the others.
    pub(super) store: Store,
    /// Says which messages of other replicas count.
    pub(super) peers: PeerSeal,
    keys: RwLock<Arc<SealingKeys>>,
}

/// A number of 31 bits that tells a replica apart; it is drawn when the process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicaId(u32);

impl Replica {
    /// Creates a replica with these keys and this store.
    pub fn new(keys: &[SessionKey], store: Store) -> Arc<Self> {
        let id = store.replica().parse().unwrap_or_else(|_| ReplicaId::draw());
        if store.is_shared() && keys.is_empty() {
            warn!(
                "replicas share gateway.store without gateway.session_keys: they tell each other nothing, and know neither \
                 each other's sessions nor approvals"
            );
        }
        let keys = RwLock::new(Arc::new(SealingKeys::new(keys)));
        Arc::new(Replica { id, store, peers: PeerSeal::default(), keys })
    }

    /// Returns the keys that seal what clients hold.
    pub(super) fn keys(&self) -> Arc<SealingKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the configured keys.
    pub(super) fn set_keys(&self, keys: &[SessionKey]) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(SealingKeys::new(keys));
    }
}

impl ReplicaId {
    /// Draws an id.
    pub fn draw() -> Self {
        // `RandomState` takes its keys from the system's random numbers.
        let drawn = RandomState::new().build_hasher().finish();
        ReplicaId(u32::try_from(drawn >> 33).expect("31 bits are left"))
    }

    /// Returns the id of the question with this number. It says which replica asks, and is small enough for clients that
    /// read numbers as doubles.
    pub(super) fn question(self, number: u64) -> u64 {
        u64::from(self.0) << QUESTION_BITS | number & ((1 << QUESTION_BITS) - 1)
    }

    /// Returns the replica that asked the question with this id.
    pub(super) fn of_question(id: u64) -> Option<Self> {
        u32::try_from(id >> QUESTION_BITS).ok().map(ReplicaId)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for ReplicaId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u32::from_str_radix(text, 16).map(ReplicaId)
    }
}

/// With the 31 bits of a replica, these stay below 2⁵³.
const QUESTION_BITS: u32 = 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_question_says_which_replica_asks() {
        for (replica, number) in [(ReplicaId(0), 1), (ReplicaId((1 << 31) - 1), u64::MAX), (ReplicaId::draw(), 7)] {
            let id = replica.question(number);
            assert_eq!(ReplicaId::of_question(id), Some(replica));
            assert!(id < 1 << 53, "{id}");
        }
        assert_eq!(ReplicaId::of_question(u64::MAX), None);
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = ReplicaId::draw();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("x".parse::<ReplicaId>().is_err());
    }
}
