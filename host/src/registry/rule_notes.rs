//! Probable mistakes in rules, checked against the tools of all servers whenever those or the rules change.
//!
//! The component finds them; this file knows where they are in the file, and what was probably meant.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::Warning;
use crate::config::model::{Config, RuleConfig};
use crate::config::nearest;
use crate::decide::{Decide, GateId, LogicResult};
use crate::gate_settings::{all_rules, check_settings};
use crate::lock::lock;
use crate::logic::Supervisor;
use crate::logic::types::Tool;
use crate::logic::types::rules::{Effect, RuleNote, RuleProblem};
use crate::words::ErrorText;

/// The probable mistakes in the rules of the current configuration.
#[derive(Default)]
pub(super) struct RuleNotes(Mutex<CheckedRules>);

#[derive(Default)]
struct CheckedRules {
    /// A gate with all rules of this configuration, and the tools of all servers.
    gate: Option<(Arc<Config>, GateId)>,
    offers: BTreeMap<String, Arc<[Tool]>>,
    warnings: Vec<Warning>,
}

impl RuleNotes {
    /// Checks the rules again, with the new tools of a server, and logs what is new.
    pub(super) fn check(&self, logic: &mut Supervisor, config: &Arc<Config>, server: &str, tools: &Arc<[Tool]>) {
        if config.settings.results.is_empty() && all_rules(config).next().is_none() {
            *lock(&self.0) = CheckedRules::default();
            return;
        }
        let mut checked = lock(&self.0);
        checked.offers.insert(server.to_owned(), Arc::clone(tools));
        let notes = checked.find(logic, config, server).unwrap_or_else(|error| {
            tracing::warn!("cannot check the rules: {error}");
            checked.gate = None;
            Vec::new()
        });
        let texts = notes.iter().filter(|note| !is_about_disabled(config, note));
        let texts = texts.map(|note| describe(config, note, &checked.offers)).chain(unknown_labels(config));
        let mut warnings: Vec<Warning> = Vec::new();
        for text in texts {
            let known = checked.warnings.iter().find(|warning| warning.text == text);
            let warning = known.cloned().unwrap_or_else(|| {
                tracing::warn!("{text}");
                Warning { server: String::new(), text, since: SystemTime::now() }
            });
            warnings.push(warning);
        }
        checked.warnings = warnings;
    }

    /// Returns what was found last.
    pub(super) fn all(&self) -> Vec<Warning> {
        lock(&self.0).warnings.clone()
    }
}

impl CheckedRules {
    fn find(&mut self, logic: &mut Supervisor, config: &Arc<Config>, server: &str) -> LogicResult<Vec<RuleNote>> {
        let gate = match &self.gate {
            Some((known, gate)) if Arc::ptr_eq(known, config) => {
                logic.offer(*gate, server, &self.offers[server])?;
                *gate
            }
            _ => {
                if let Some((_, old)) = self.gate.take() {
                    logic.close_gate(old)?;
                }
                let settings = check_settings(logic, config)?;
                // A configuration whose rules cannot be read is refused elsewhere.
                let Ok(gate) = logic.open_gate(&settings)? else { return Ok(Vec::new()) };
                for (server, tools) in &self.offers {
                    logic.offer(gate, server, tools)?;
                }
                self.gate = Some((Arc::clone(config), gate));
                gate
            }
        };
        logic.check_rules(gate)
    }
}

/// Reports whether a note is about tools of a server that is switched off.
fn is_about_disabled(config: &Config, note: &RuleNote) -> bool {
    let RuleProblem::Unmatched(pattern) = &note.problem else { return false };
    let server = pattern.split('.').next().unwrap_or_default();
    config.servers.iter().any(|known| known.id == server && !known.enabled)
}

/// Describes the rules that ask for a label that nothing in the configuration gives.
fn unknown_labels(config: &Config) -> Vec<String> {
    let by_rules = all_rules(config).filter_map(|rule| match &rule.rule.effect {
        Effect::Label(labels) => Some(labels),
        _ => None,
    });
    let by_results = config.settings.results.iter().map(|result| &result.rule.labels);
    let given: Vec<&str> = by_results.chain(by_rules).flatten().map(String::as_str).collect();
    let mut found = Vec::new();
    for rule in all_rules(config) {
        let condition = rule.rule.condition.as_deref().unwrap_or_default();
        for (at, _) in condition.match_indices(" in labels") {
            let quote = condition[..at].chars().next_back().filter(|last| matches!(last, '"' | '\''));
            let Some(quote) = quote else { continue };
            let Some(begin) = condition[..at - 1].rfind(quote) else { continue };
            let label = &condition[begin + 1..at - 1];
            if !given.contains(&label) {
                let place = rule.position_of(u32::try_from(begin).unwrap_or(u32::MAX));
                let hint = nearest::hint(label, given.iter().copied());
                found.push(format!(
                    "{place}: rule {:?}: no result and no rule gives the label {label:?}{hint}",
                    rule.rule.name
                ));
            }
        }
    }
    found
}

/// Describes a note, with its place in the file and what was probably meant.
fn describe(config: &Config, note: &RuleNote, offers: &BTreeMap<String, Arc<[Tool]>>) -> String {
    let text = note.error_text();
    let rule = all_rules(config).find(|rule| rule.rule.name == note.rule);
    match &note.problem {
        RuleProblem::Unmatched(pattern) => {
            let result = config.settings.results.iter().find(|result| result.rule.tools == *pattern);
            let place = rule.map(|rule| &rule.place).or_else(|| result.map(|result| &result.place));
            let names: Vec<String> = offers
                .iter()
                .flat_map(|(server, tools)| tools.iter().map(move |tool| format!("{server}.{}", tool.name)))
                .collect();
            let hint = nearest::hint(&pattern.replace(['*', '?'], ""), names.iter().map(String::as_str));
            place.map_or_else(|| format!("{text}{hint}"), |place| format!("{place}: {text}{hint}"))
        }
        RuleProblem::MissingArgument(_) | RuleProblem::Constant(_) => {
            rule.map_or_else(|| text.clone(), |rule: &RuleConfig| format!("{}: {text}", rule.position_of(note.at)))
        }
    }
}
