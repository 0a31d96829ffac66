//! Computes the digests of what many calls share, and caches them.

use std::sync::Arc;

use super::digest::json_sha256;
use super::pointer_cache::{OfferList, PointerCache};
use super::replay::{Keyed, KeyedOffers, KeyedSettings};
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
