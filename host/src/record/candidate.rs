//! A candidate: the other component, the other configuration, or both, that finished calls are tried on.

use std::collections::HashMap;
use std::sync::Arc;

use super::digest::json_sha256;
use super::directive::{RecordedDirective, RecordedResult};
use super::keyed::{Keyed, KeyedSettings};
use super::replay::{ReplayError, Replayer};
use crate::config::model::{Config, ListMode};
use crate::gate::{GateError, GateView, LOCAL, Listing, check, views};
use crate::gate_settings::{all_rules, resource_grant};
use crate::logic::types::execution::{Code, ResultForm, Settings};
use crate::logic::types::filtering::SelectedServer;
use crate::logic::types::masking::{CustomMask, Masks};
use crate::logic::{Component, ComponentOptions};

/// The component and the configuration to try calls on; without either, calls are replayed as they were.
#[derive(Clone, Default)]
pub struct Candidate {
    /// The component to use instead of the recorded one.
    pub component: Option<Component>,
    /// The configuration to use instead of the recorded settings.
    pub config: Option<Arc<Config>>,
}

impl Candidate {
    /// Returns the candidate after checking that gates can be opened with it, and lists the servers that it cannot use,
    /// which are disabled as they would be in a gateway.
    pub(crate) fn checked(&self, options: &ComponentOptions) -> Result<(Self, Vec<UnusableServer>), GateError> {
        let Some(config) = &self.config else { return Ok((self.clone(), Vec::new())) };
        let component = match &self.component {
            Some(component) => component.clone(),
            None => Component::embedded(options)?,
        };
        let mut config = Config::clone(config);
        check(&component, &mut config, [(None, GateView::default())])?;
        let mut unusable = Vec::new();
        for server in config.servers.iter_mut().filter(|server| server.enabled) {
            if let Some(problem) = &server.problem {
                unusable.push(UnusableServer { server: server.id.clone(), reason: problem.to_string() });
                server.enabled = false;
            }
        }
        Ok((Candidate { component: self.component.clone(), config: Some(Arc::new(config)) }, unusable))
    }

    /// Reports whether the candidate decides by what happened before.
    pub(crate) fn remembers(&self) -> bool {
        let has_rules =
            |config: &Arc<Config>| !config.settings.results.is_empty() || all_rules(config).next().is_some();
        self.config.as_ref().is_some_and(has_rules)
    }

    /// Reports whether the candidate changes nothing, so that calls must end as they were recorded.
    pub fn is_same(&self) -> bool {
        self.component.is_none() && self.config.is_none()
    }
}

/// A server of a candidate that cannot be used; calls to it are calls to an unknown server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableServer {
    /// The id of the server.
    pub server: String,
    /// The error in its configuration entry, with its position.
    pub reason: String,
}

/// A cache of the settings that calls would have with the candidate's configuration.
#[derive(Default)]
pub(crate) struct CandidateSettings(HashMap<Key, Option<KeyedSettings>>);

type Key = (Arc<str>, Option<String>, Option<u64>);

impl CandidateSettings {
    /// Returns the settings that a call would have with this configuration, or `None` if the configuration does not
    /// admit its principal. The call had these settings, and its caller this limit for the text of a result.
    pub(crate) fn settings(
        &mut self,
        config: &Config,
        settings: &KeyedSettings,
        principal: Option<&str>,
        limit: Option<u64>,
        replayer: &mut Replayer,
    ) -> Result<Option<KeyedSettings>, ReplayError> {
        let key = (Arc::clone(&settings.key), principal.map(str::to_owned), limit);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let tried = match view(config, principal, &settings.value) {
            None => None,
            Some(mut view) => {
                view.pass_through = settings.value.form == ResultForm::PassThrough;
                view.max_result_bytes = limit;
                let settings = crate::gate::settings(replayer.logic(), config, &view)?;
                // The key is the digest, so unchanged settings compare equal to the recorded ones.
                Some(Keyed { key: json_sha256(&settings).into(), value: Arc::new(settings) })
            }
        };
        if self.0.len() >= MOST_TRIED {
            self.0.clear();
        }
        self.0.insert(key, tried.clone());
        Ok(tried)
    }
}

/// Returns the directive for a principal that the candidate's configuration does not admit.
pub(crate) fn unknown_principal() -> RecordedDirective {
    RecordedDirective::Done(Box::new(RecordedResult {
        code: Code::NotAllowed,
        tool: None,
        text: Some("no such principal".to_owned()),
        content: None,
        attempts: 0,
        truncated: false,
        trace: vec!["no such principal".to_owned()],
        learned: None,
    }))
}

/// Returns what a principal may use with this configuration, or `None` if the configuration has tokens and none for it.
///
/// Without tokens, and for principals that need none, the recorded selection stays, limited to servers that still
/// exist.
fn view(config: &Config, principal: Option<&str>, recorded: &Settings) -> Option<GateView> {
    let usable = |id: &str| config.servers.iter().any(|server| server.id == id && server.enabled);
    let tokens = views(config);
    let needs_one = !tokens.is_empty() && principal.is_some_and(|principal| principal != LOCAL);
    let named = tokens.into_iter().find(|(name, _)| Some(name.as_str()) == principal);
    let rules = named.as_ref().map(|(_, view)| view.rules.clone()).unwrap_or_default();
    let (selection, capabilities) = match named {
        Some((_, view)) => (view.selection, view.capabilities),
        None if needs_one => return None,
        None => {
            let kept = |servers: Vec<SelectedServer>| servers.into_iter().filter(|server| usable(&server.id)).collect();
            let granted =
                |grants: &Vec<String>| grants.iter().filter(|grant| **grant != resource_grant()).cloned().collect();
            (recorded.policy.selection.clone().map(kept), recorded.policy.capabilities.as_ref().map(granted))
        }
    };
    let choice = recorded.policy.choice.as_ref();
    let choice = choice.map(|servers| servers.iter().filter(|server| usable(&server.id)).cloned().collect());
    // Whether tools were listed or found, calls of the gate's own tools are decided like those of the tools they mean.
    let listing =
        recorded.search.as_ref().map(|search| Listing { mode: ListMode::Search, style: search.style.clone() });
    Some(GateView { selection, choice, capabilities, rules, listing, ..GateView::default() })
}

/// Reports whether the candidate may leave something unmasked that the recorded settings mask in a server's answers.
pub(super) fn masks_less(recorded: &Settings, candidate: &Settings, server: &str) -> bool {
    let of = |settings: &Settings| -> Vec<Masks> {
        let own = settings.server_settings.iter().filter(|own| own.server == server).map(|own| &own.masks);
        std::iter::once(&settings.masks).chain(own).cloned().collect()
    };
    let (before, after) = (of(recorded), of(candidate));
    let has_group = |name: &str| after.iter().any(|masks| masks.groups.iter().any(|group| group == name));
    let keeps_group = |name: &String| {
        let wider: &[&str] = if name == "basic" { &WITH_BASIC } else { &[] };
        [name.as_str(), "all"].iter().chain(wider).any(|name| has_group(name))
    };
    let keeps_pattern = |name: &String| has_group("all") || after.iter().any(|masks| masks.patterns.contains(name));
    let keeps_custom = |mask: &CustomMask| {
        let same = |other: &CustomMask| other.pattern == mask.pattern && other.replacement == mask.replacement;
        after.iter().any(|masks| masks.custom.iter().any(same))
    };
    !before.iter().all(|masks| {
        masks.groups.iter().all(keeps_group)
            && masks.patterns.iter().all(keeps_pattern)
            && masks.custom.iter().all(keeps_custom)
    })
}

const MOST_TRIED: usize = 1024;
/// The groups that include the group `basic`.
const WITH_BASIC: [&str; 3] = ["secrets", "security", "kubernetes"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Decide;
    use crate::logic::Supervisor;

    /// Settings with these masks, for all servers and for server `one`.
    fn settings(masks: &str, own: &str) -> Settings {
        let json = format!(
            r#"{{"policy":{{"servers":[],"selection":null,"read_only":false,"destructive":"allow","capabilities":null}},
            "style":"dot","bare_names":false,"describe_server":false,"check_arguments":true,"retry":"safe",
            "masking":{{{masks}}},"server_settings":[{{"server":"one","masking":{{{own}}},"structured_text":false}}],"form":"text",
            "max_result_bytes":0,"spill":false,"summarize_above_tokens":null,"ask_max_bytes":0}}"#
        );
        serde_json::from_str(&json).expect("the test's settings are right")
    }

    #[test]
    fn wider_groups_mask_what_the_group_basic_masks() {
        let component = Component::embedded(&ComponentOptions::default()).unwrap();
        let mut logic = Supervisor::new(component).unwrap();
        let text = "api_key: abcdef1234567890abcdef12\npassword: hunter2hunter2";
        let mut masked = |group: &str| {
            let masks = Masks { groups: vec![group.to_owned()], patterns: Vec::new(), custom: Vec::new() };
            logic.mask(&masks, text).unwrap().unwrap()
        };
        let basic = masked("basic");
        assert_eq!(basic.matches("[MASKED_").count(), 2, "{basic}");
        WITH_BASIC.iter().for_each(|wider| assert_eq!(masked(wider), basic, "{wider}"));
    }

    #[test]
    fn fewer_masks_are_found_and_more_or_wider_ones_are_none() {
        let of = |groups: &str, patterns: &str, custom: &str| {
            format!(r#""groups":[{groups}],"patterns":[{patterns}],"custom":[{custom}]"#)
        };
        let (none, basic, all) = (of("", "", ""), of(r#""basic""#, "", ""), of(r#""all""#, "", ""));
        let (secrets, email) = (of(r#""secrets""#, "", ""), of("", r#""email""#, ""));
        let own = of("", "", r#"{"pattern":"x","replacement":"y"}"#);
        let rows = [
            (&none, &none, false),
            (&none, &basic, false),
            (&basic, &basic, false),
            (&basic, &secrets, false),
            (&basic, &all, false),
            (&email, &all, false),
            (&secrets, &basic, true),
            (&basic, &none, true),
            (&email, &basic, true),
            (&own, &own, false),
            (&own, &all, true),
        ];
        for (before, after, expected) in rows {
            let found = |before: Settings, after: Settings, server| masks_less(&before, &after, server);
            let less = found(settings(before, &none), settings(after, &none), "one");
            assert_eq!(less, expected, "{before} → {after}");
            // Masks of a server apply to that server only.
            let less = |server| found(settings(&none, before), settings(&none, after), server);
            assert_eq!((less("one"), less("two")), (expected, false), "{before} → {after}");
        }
    }
}
