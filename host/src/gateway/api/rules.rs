//! The rules of the configuration, and how often each matched.

use std::sync::Arc;

use serde_json::json;

use super::super::Gateway;
use super::super::rule_counts::{CountedRule, RuleScope};
use super::{ApiResponse, timestamp};
use crate::lock::lock;
use crate::registry::UnmatchedRule;

impl Gateway {
    /// Lists the rules with the number of calls that each matched since the configuration came into force, and with
    /// warnings about rules that match no tool.
    pub(in crate::gateway) fn rules(&self) -> ApiResponse {
        let counts = Arc::clone(&lock(&self.state.rule_counts));
        let warnings = self.registry().unmatched_rules();
        let rules = counts.rules.iter().map(|rule| {
            let (matched, last) = rule.matched();
            let of = match &rule.scope {
                RuleScope::All => "all servers".to_owned(),
                RuleScope::Server(id) => format!("server {id}"),
                RuleScope::Principal(name) => format!("principal {name}"),
            };
            let warned = warnings.iter().filter(|warning| is_about(rule, warning));
            json!({
                "text": rule.text, "of": of, "place": rule.place.as_ref().map(ToString::to_string),
                "matched": matched, "last": last.map(timestamp),
                "warnings": warned.map(|warned| &warned.warning.text).collect::<Vec<_>>(),
            })
        });
        let rules: Vec<_> = rules.collect();
        self.redacted(&json!({"since": timestamp(counts.since), "rules": rules}).to_string())
    }
}

/// Reports whether a warning is about this rule.
fn is_about(rule: &CountedRule, UnmatchedRule { principal, warning }: &UnmatchedRule) -> bool {
    let is_in_scope = match &rule.scope {
        RuleScope::Principal(name) => principal.as_ref() == Some(name) || warning.server.is_empty(),
        RuleScope::Server(id) => principal.is_none() && (warning.server == *id || warning.server.is_empty()),
        RuleScope::All => warning.server.is_empty(),
    };
    is_in_scope && !rule.warned_as.is_empty() && warning.text.contains(&rule.warned_as)
}
