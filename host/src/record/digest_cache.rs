//! Computes the digests of what many calls share, and caches them by address in memory.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::digest::json_sha256;
use super::keyed::{Keyed, KeyedOffers, KeyedSettings};
use crate::logic::OfferedTools;
use crate::logic::types::Tool;
use crate::logic::types::execution::Settings;

/// Computes and caches the digests of settings and offered tools.
#[derive(Default)]
pub(crate) struct DigestCache {
    settings: PointerCache<Settings, Arc<str>>,
    offers: PointerCache<OfferList, Arc<str>>,
    tools: PointerCache<[Tool], Arc<str>>,
}

impl DigestCache {
    /// Returns the settings with their digest.
    pub(crate) fn settings(&mut self, settings: &Arc<Settings>) -> KeyedSettings {
        let key = self.settings.get_or_insert(settings, || json_sha256(&**settings).into());
        Keyed { key, value: Arc::clone(settings) }
    }

    /// Returns the offered tools with their digest.
    pub(crate) fn offers(&mut self, offers: &OfferedTools) -> KeyedOffers {
        let tools = &mut self.tools;
        let key = self.offers.get_or_insert(offers, || {
            let mut digest = |list: &Arc<[Tool]>| tools.get_or_insert(list, || json_sha256(&**list).into());
            let servers: Vec<_> = offers.iter().map(|(server, list)| (server, digest(list).to_string())).collect();
            json_sha256(&servers).into()
        });
        Keyed { key, value: Arc::clone(offers) }
    }
}

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
