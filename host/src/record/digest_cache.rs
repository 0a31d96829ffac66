//! Computes the digests of what many calls share, and caches them.

use std::sync::Arc;

use serde::Serialize;

use super::recorded_settings::{RecordedSettings, RecordedTool};
use super::replay::{Keyed, KeyedOffers, KeyedSettings};
use super::store::{CachedPart, OfferList, PointerCache};
use super::text::sha256;
use crate::logic::OfferedTools;
use crate::logic::types::Tool;
use crate::logic::types::execution::Settings;

/// Computes and caches the digests of settings and offered tools.
#[derive(Default)]
pub(crate) struct DigestCache {
    settings: PointerCache<Settings, Arc<Settings>>,
    offers: PointerCache<OfferList, OfferedTools>,
    tools: PointerCache<[Tool], Arc<[Tool]>>,
}

impl DigestCache {
    /// Returns the settings with their digest.
    pub(crate) fn settings(&mut self, settings: &Arc<Settings>) -> KeyedSettings {
        let known = self.settings.get(settings).unwrap_or_else(|| {
            let known = CachedPart { digest: digest(&RecordedSettings::from(&**settings)), replacement: None };
            self.settings.insert(settings, known.clone());
            known
        });
        Keyed { key: known.digest, value: Arc::clone(settings) }
    }

    /// Returns the offered tools with their digest.
    pub(crate) fn offers(&mut self, offers: &OfferedTools) -> KeyedOffers {
        let digest = match self.offers.get(offers) {
            Some(known) => known.digest,
            None => {
                let servers: Vec<_> = offers.iter().map(|(server, tools)| (server, self.tools(tools))).collect();
                let known = CachedPart { digest: digest(&servers), replacement: None };
                self.offers.insert(offers, known.clone());
                known.digest
            }
        };
        Keyed { key: digest, value: Arc::clone(offers) }
    }

    fn tools(&mut self, tools: &Arc<[Tool]>) -> String {
        let known = self.tools.get(tools).unwrap_or_else(|| {
            let shapes: Vec<RecordedTool> = tools.iter().map(RecordedTool::from).collect();
            let known = CachedPart { digest: digest(&shapes), replacement: None };
            self.tools.insert(tools, known.clone());
            known
        });
        known.digest.to_string()
    }
}

/// Returns the digest of a value in its recorded form.
pub(super) fn digest<T: Serialize>(value: &T) -> Arc<str> {
    let json = serde_json::to_vec(value).expect("shapes have string keys only, so they are always JSON");
    sha256(&json).into()
}
