//! Finds the tool that a denied call meant, with a gate that has all servers and no rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::digest_cache::DigestCache;
use super::directive::RecordedDirective;
use super::folder_parts::FolderParts;
use super::keyed::{KeyedOffers, KeyedSettings};
use super::replay::{ReplayCall, ReplayError, Replayer};
use super::surroundings::CallSurroundings;
use crate::logic::types::ToolRef;
use crate::logic::types::execution::{Settings, ToolCall};
use crate::logic::types::filtering::{DestructivePolicy, Policy, Rules, ServerRules};
use crate::logic::types::masking::Masks;
use crate::logic::types::rules::RuleSet;

/// Finds and caches the tools that names mean.
#[derive(Default)]
pub(super) struct ToolResolver {
    /// The tools found so far, by settings, offers and name.
    known: HashMap<(ContextKey, String), Option<ToolRef>>,
    /// The settings and offers of gates without rules, by the settings and offers of the call.
    open_gates: HashMap<ContextKey, (KeyedSettings, KeyedOffers)>,
}

/// The keys of settings and offers.
type ContextKey = (Arc<str>, Arc<str>);

impl ToolResolver {
    /// Returns the tool that a name means, among the tools that the call could use, or else among those
    /// that servers offered to others.
    pub(super) fn resolve(
        &mut self,
        replayer: &mut Replayer,
        keys: &mut DigestCache,
        parts: &FolderParts,
        (settings, offers): (&KeyedSettings, &KeyedOffers),
        name: &str,
    ) -> Result<Option<ToolRef>, ReplayError> {
        let around = (Arc::clone(&settings.key), Arc::clone(&offers.key));
        let key = (around.clone(), name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        if self.open_gates.len() >= MOST_OPEN {
            self.open_gates.clear();
        }
        let (settings, offers) =
            self.open_gates.entry(around).or_insert_with(|| without_rules(settings, offers, parts, keys));
        let call = ToolCall { id: String::new(), name: name.to_owned(), arguments: "{}".to_owned() };
        let around = &CallSurroundings::none();
        let script = ReplayCall { call: &call, settings, offers, steps: &[], changes: Vec::new(), around };
        let tool = replayer.replay(script)?.first().and_then(RecordedDirective::tool).cloned();
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(key, tool.clone());
        Ok(tool)
    }
}

/// Returns the settings without any rules, and the offers extended by the latest tools of all other servers.
fn without_rules(
    settings: &KeyedSettings,
    offers: &KeyedOffers,
    parts: &FolderParts,
    keys: &mut DigestCache,
) -> (KeyedSettings, KeyedOffers) {
    let own = |server: &str| offers.value.iter().any(|(known, _)| known == server);
    let others = parts.servers().filter(|server| !own(server));
    let others: Vec<_> = others.filter_map(|server| Some((server.to_owned(), parts.latest_offer(server)?))).collect();
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
        choice: None,
        read_only: false,
        destructive: DestructivePolicy::Allow,
        capabilities: None,
    };
    let settings = Settings {
        policy,
        bare_names: true,
        check_arguments: false,
        masks: Masks { groups: Vec::new(), patterns: Vec::new(), custom: Vec::new() },
        server_settings: Vec::new(),
        rules: RuleSet::default(),
        ..(*settings.value).clone()
    };
    (keys.settings(&Arc::new(settings)), offers)
}

const MOST_KNOWN: usize = 10_000;
const MOST_OPEN: usize = 64;
