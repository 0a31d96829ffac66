//! Which tool a call meant that was kept out: asked of a gate with all servers and without rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::keys::Keys;
use super::play::{PlayError, Player, Script, SharedOffers, SharedSettings};
use super::reader::Parts;
use super::said::Said;
use crate::logic::types::execution::{Settings, ToolCall};
use crate::logic::types::filtering::{DestructivePolicy, Policy, Rules, ServerRules};
use crate::logic::types::masking::Masks;

/// Finds out which tools calls meant.
#[derive(Default)]
pub(super) struct Meant {
    /// By settings, offers and name.
    known: HashMap<(Around, String), Option<(String, String)>>,
    /// By settings and offers, those of a gate that keeps nothing out.
    open: HashMap<Around, (SharedSettings, SharedOffers)>,
}

/// The keys of settings and of offers.
type Around = (Arc<str>, Arc<str>);

impl Meant {
    /// The server and the tool that this name means, if there is such a tool: among what the call could use, or else among what
    /// servers have offered to others.
    pub(super) fn tool(
        &mut self,
        player: &mut Player,
        keys: &mut Keys,
        parts: &Parts,
        (settings, offers): (&SharedSettings, &SharedOffers),
        name: &str,
    ) -> Result<Option<(String, String)>, PlayError> {
        let around = (Arc::clone(&settings.key), Arc::clone(&offers.key));
        let key = (around.clone(), name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        let (settings, offers) = self.open.entry(around).or_insert_with(|| open(settings, offers, parts, keys));
        let call = ToolCall { id: String::new(), name: name.to_owned(), arguments: "{}".to_owned() };
        let script = Script { call: &call, settings, offers, steps: &[], changes: Vec::new() };
        let tool = player.play(script)?.first().and_then(Said::tool);
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(key, tool.clone());
        Ok(tool)
    }
}

/// The same settings without rules, and the same offers with those of all other servers.
fn open(
    settings: &SharedSettings,
    offers: &SharedOffers,
    parts: &Parts,
    keys: &mut Keys,
) -> (SharedSettings, SharedOffers) {
    let own = |server: &str| offers.value.iter().any(|(known, _)| known == server);
    let others = parts.servers().filter(|server| !own(server));
    let others: Vec<_> = others.filter_map(|server| Some((server.to_owned(), parts.offered(server)?))).collect();
    let offers = keys.offers(&Arc::new(offers.value.iter().cloned().chain(others).collect()));
    let server = |id: &str| ServerRules {
        id: id.to_owned(),
        rules: Rules { allow: None, deny: Vec::new() },
        ask: Vec::new(),
        requires: Vec::new(),
        tools: Vec::new(),
    };
    let policy = Policy {
        servers: offers.value.iter().map(|(id, _)| server(id)).collect(),
        selection: None,
        read_only: false,
        destructive: DestructivePolicy::Allow,
        capabilities: None,
    };
    let settings = Settings {
        policy,
        bare_names: true,
        check_arguments: false,
        masks: Masks { groups: Vec::new(), patterns: Vec::new(), custom: Vec::new() },
        server_masks: Vec::new(),
        ..(*settings.value).clone()
    };
    (keys.settings(&Arc::new(settings)), offers)
}

const MOST_KNOWN: usize = 10_000;
const MOST_OPEN: usize = 64;
