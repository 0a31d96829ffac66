//! A cache by address in memory, for values that many calls share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::logic::types::Tool;

/// A cache by address in memory; its weak reference frees the value, but keeps the address from being used again.
pub(super) struct PointerCache<T: ?Sized, V>(HashMap<usize, (Weak<T>, V)>);

/// The list that [`crate::logic::OfferedTools`] points to.
pub(super) type OfferList = Vec<(String, Arc<[Tool]>)>;

impl<T: ?Sized, V> Default for PointerCache<T, V> {
    fn default() -> Self {
        PointerCache(HashMap::new())
    }
}

impl<T: ?Sized, V: Clone> PointerCache<T, V> {
    pub(super) fn get(&self, live: &Arc<T>) -> Option<V> {
        self.0.get(&address(live)).map(|(_, known)| known.clone())
    }

    pub(super) fn insert(&mut self, live: &Arc<T>, known: V) {
        if self.0.len() >= MOST_SEEN {
            self.0.retain(|_, (seen, _)| seen.strong_count() > 0);
        }
        if self.0.len() >= MOST_SEEN {
            self.0.clear();
        }
        self.0.insert(address(live), (Arc::downgrade(live), known));
    }

    pub(super) fn get_or_insert(&mut self, live: &Arc<T>, make: impl FnOnce() -> V) -> V {
        self.get(live).unwrap_or_else(|| {
            let made = make();
            self.insert(live, made.clone());
            made
        })
    }
}

fn address<T: ?Sized>(live: &Arc<T>) -> usize {
    Arc::as_ptr(live).cast::<()>().addr()
}

const MOST_SEEN: usize = 4096;
