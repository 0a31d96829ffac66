//! Digests of what many calls share; what was seen before is not read again.

use std::sync::Arc;

use serde::Serialize;

use super::play::{Shared, SharedOffers, SharedSettings};
use super::shapes::{SettingsShape, ToolShape};
use super::store::{Known, Seen, Servers};
use super::text::sha256;
use crate::logic::Offers;
use crate::logic::types::Tool;
use crate::logic::types::execution::Settings;

/// Finds what settings and offers are known by.
#[derive(Default)]
pub(crate) struct Keys {
    settings: Seen<Settings, Arc<Settings>>,
    offers: Seen<Servers, Offers>,
    tools: Seen<[Tool], Arc<[Tool]>>,
}

impl Keys {
    /// The settings of a gate, under their digest.
    pub(crate) fn settings(&mut self, settings: &Arc<Settings>) -> SharedSettings {
        let known = self.settings.get(settings).unwrap_or_else(|| {
            let known = Known { digest: digest(&SettingsShape::from(&**settings)), instead: None };
            self.settings.insert(settings, known.clone());
            known
        });
        Shared { key: known.digest, value: Arc::clone(settings) }
    }

    /// What servers had offered, under its digest.
    pub(crate) fn offers(&mut self, offers: &Offers) -> SharedOffers {
        let digest = match self.offers.get(offers) {
            Some(known) => known.digest,
            None => {
                let servers: Vec<_> = offers.iter().map(|(server, tools)| (server, self.tools(tools))).collect();
                let known = Known { digest: digest(&servers), instead: None };
                self.offers.insert(offers, known.clone());
                known.digest
            }
        };
        Shared { key: digest, value: Arc::clone(offers) }
    }

    fn tools(&mut self, tools: &Arc<[Tool]>) -> String {
        let known = self.tools.get(tools).unwrap_or_else(|| {
            let shapes: Vec<ToolShape> = tools.iter().map(ToolShape::from).collect();
            let known = Known { digest: digest(&shapes), instead: None };
            self.tools.insert(tools, known.clone());
            known
        });
        known.digest.to_string()
    }
}

/// The digest of something as it is recorded.
pub(super) fn digest<T: Serialize>(value: &T) -> Arc<str> {
    let json = serde_json::to_vec(value).expect("shapes have string keys only, so they are always JSON");
    sha256(&json).into()
}
