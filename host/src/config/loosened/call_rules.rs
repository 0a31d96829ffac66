//! Compares rules that see arguments, what results mean, and what agents may send.

use super::super::duration;
use super::super::keys::rules::CONTEXT_SCOPES;
use super::super::model::{ContextRules, ContextScope, ResultConfig, RuleConfig, Settings};
use super::LoosenedRules;
use super::lists::{added_patterns, removed_patterns};
use crate::gate_settings::RESOURCE_SERVER;
use crate::logic::types::rules::{Effect, ResultRule};

/// Compares the settings of rules for all servers.
pub(super) fn compare_settings(before: &Settings, after: &Settings, found: &mut LoosenedRules) {
    compare_rules(&before.rules, &after.rules, found);
    compare_results(&before.results, &after.results, found);
    for value in after.known.iter().filter(|value| !before.known.contains(value)) {
        found.add(format!("known now includes {value:?}"));
    }
    let (ContextRules { scope: old, idle: old_idle }, ContextRules { scope, idle }) = (before.context, after.context);
    let strict = [ContextScope::Principal, ContextScope::Session, ContextScope::Trace];
    found.compare_choice("context.scope", old, scope, &strict, CONTEXT_SCOPES);
    if idle < old_idle {
        found.add(format!("context.idle is {} instead of {}", duration::write(idle), duration::write(old_idle)));
    }
}

/// Compares lists of rules by their names. What another condition permits is not known, so each one is told.
pub(super) fn compare_rules(before: &[RuleConfig], after: &[RuleConfig], found: &mut LoosenedRules) {
    for RuleConfig { rule: old, .. } in before {
        let name = &old.name;
        let Some(RuleConfig { rule: new, .. }) = after.iter().find(|new| new.rule.name == *name) else {
            found.add_if(old.effect != Effect::Allow, &format!("rule {name:?} is gone"));
            continue;
        };
        if rank(&new.effect) > rank(&old.effect) {
            found.add(format!("rule {name:?} says {} instead of {}", word(&new.effect), word(&old.effect)));
        }
        if let (Effect::Label(old), Effect::Label(new)) = (&old.effect, &new.effect) {
            let gone = old.iter().filter(|label| !new.contains(label));
            gone.for_each(|label| found.add(format!("rule {name:?} no longer gives the label {label:?}")));
        }
        found.add_if(new.condition != old.condition, &format!("rule {name:?} has another condition"));
        match new.effect {
            Effect::Allow => {
                added_patterns(&old.tools, &new.tools)
                    .for_each(|tool| found.add(format!("rule {name:?} allows {tool:?}")));
            }
            _ => {
                let gone = removed_patterns(&old.tools, &new.tools);
                gone.for_each(|tool| found.add(format!("rule {name:?} is no longer for {tool:?}")));
            }
        }
        let looser = match (old.limit, new.limit) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => new.calls > old.calls || new.per_ms < old.per_ms || new.by != old.by,
        };
        found.add_if(looser, &format!("rule {name:?} has another limit"));
    }
    for RuleConfig { rule, .. } in after.iter().filter(|new| new.rule.effect == Effect::Allow) {
        let is_new = !before.iter().any(|old| old.rule.name == rule.name);
        found.add_if(is_new, &format!("rule {:?} allows calls before later rules are looked at", rule.name));
    }
    let order = |rules: &[RuleConfig], others: &[RuleConfig]| -> Vec<String> {
        let known = |name: &String| others.iter().any(|other| other.rule.name == *name);
        rules.iter().map(|rule| rule.rule.name.clone()).filter(known).collect()
    };
    let allows = after.iter().any(|rule| rule.rule.effect == Effect::Allow);
    found.add_if(allows && order(before, after) != order(after, before), "rules are in another order");
}

/// Compares what results mean, by their patterns.
fn compare_results(before: &[ResultConfig], after: &[ResultConfig], found: &mut LoosenedRules) {
    let own = format!("{RESOURCE_SERVER}.");
    for ResultConfig { rule: old, .. } in before {
        let tools = &old.tools;
        let new = after.iter().find(|new| new.rule.tools == *tools).map(|new| &new.rule);
        let labels = new.map(|new| new.labels.as_slice()).unwrap_or_default();
        let gives_all = tools.starts_with(&own) && !has_own_entry(after);
        for label in &old.labels {
            let is_left = labels.contains(label) || gives_all && is_given(after, label);
            found.add_if(!is_left, &format!("results of {tools:?} no longer give the label {label:?}"));
        }
        // The next closest entry says now what is trusted.
        let is_more_trusted =
            after.iter().any(|other| may_overlap(&other.rule.tools, tools) && trusts_more(&other.rule, old));
        found
            .add_if(new.is_none() && is_more_trusted, &format!("results of {tools:?} may be trusted by another entry"));
    }
    let has_labels = before.iter().any(|result| !result.rule.labels.is_empty());
    // Without an entry of their own, they give all labels that there are.
    found.add_if(
        has_labels && has_own_entry(after) && !has_own_entry(before),
        &format!("results of \"{own}*\" no longer give the labels of all results"),
    );
    for ResultConfig { rule: new, .. } in after {
        let tools = &new.tools;
        let old = before.iter().find(|old| old.rule.tools == *tools).map(|old| &old.rule);
        found.add_if(new.trusted && !old.is_some_and(|old| old.trusted), &format!("results of {tools:?} are trusted"));
        let fields = old.map(|old| old.trusted_fields.as_slice()).unwrap_or_default();
        let added = new.trusted_fields.iter().filter(|field| !fields.contains(field));
        added.for_each(|field| found.add(format!("results of {tools:?} have the trusted field {field:?}")));
    }
}

/// Reports whether there is an entry for the gate's own tools; without one, their results give all labels that there are.
fn has_own_entry(results: &[ResultConfig]) -> bool {
    let own = format!("{RESOURCE_SERVER}.");
    results.iter().any(|result| result.rule.tools.starts_with(&own))
}

/// Reports whether any results give a label.
fn is_given(results: &[ResultConfig], label: &String) -> bool {
    results.iter().any(|result| result.rule.labels.contains(label))
}

/// Reports whether an entry trusts something that another one does not.
fn trusts_more(one: &ResultRule, other: &ResultRule) -> bool {
    one.trusted && !other.trusted || one.trusted_fields.iter().any(|field| !other.trusted_fields.contains(field))
}

/// Reports whether two patterns may be for the same tool, as far as their servers say.
fn may_overlap(one: &str, other: &str) -> bool {
    let (one, other) = (server_of(one), server_of(other));
    one == other || one.contains(['*', '?']) || other.contains(['*', '?'])
}

fn server_of(pattern: &str) -> &str {
    pattern.split('.').next().unwrap_or_default()
}

/// Ranks effects from the strictest to the loosest.
fn rank(effect: &Effect) -> u8 {
    match effect {
        Effect::Deny => 0,
        Effect::Ask => 1,
        Effect::Label(_) => 2,
        Effect::Allow => 3,
    }
}

fn word(effect: &Effect) -> &'static str {
    match effect {
        Effect::Deny => "deny",
        Effect::Ask => "ask",
        Effect::Label(_) => "label",
        Effect::Allow => "allow",
    }
}
