//! Rules that match no tool of their server, checked whenever the tools or the rules change.
//!
//! The component decides whether a rule matches; this file finds the nearest name for the hint.

mod policies;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::Warning;
use super::tools::ToolList;
use crate::config::model::Config;
use crate::config::nearest;
use crate::decide::LogicResult;
use crate::lock::lock;
use crate::logic::Supervisor;
use crate::logic::types::filtering::{Policy, RuleList, Rules, ServerRules};
use policies::{TokenPolicies, policy};

/// The unmatched rules of the current configuration.
#[derive(Default)]
pub(super) struct UnmatchedRules {
    by_server: Mutex<BTreeMap<String, Vec<UnmatchedRule>>>,
    /// What the tokens of a configuration say, once somebody has asked.
    tokens: Mutex<Option<(Arc<Config>, Arc<TokenPolicies>)>>,
}

/// A rule that matches no tool of its server.
#[derive(Debug, Clone)]
pub struct UnmatchedRule {
    /// The principal whose token has the rule; none if it applies to everyone.
    pub principal: Option<String>,
    /// The warning for the operator.
    pub warning: Warning,
}

impl UnmatchedRules {
    /// Finds the rules that match none of these tools, and logs the new ones.
    pub(super) fn check(&self, logic: &mut Supervisor, config: &Arc<Config>, server: &str, tools: &ToolList) {
        let names: Vec<String> = tools.offered.iter().map(|tool| tool.name.clone()).collect();
        let policies = self.token_policies(config).about(config, server);
        let found = find(logic, config, &policies, server, &names);
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(server, "cannot check whether its rules match its tools: {error}");
            Vec::new()
        });
        let mut known = lock(&self.by_server);
        let known = known.entry(server.to_owned()).or_default();
        let mut rules = Vec::with_capacity(found.len());
        for (principal, text) in found {
            let same = |rule: &&UnmatchedRule| rule.principal == principal && rule.warning.text == text;
            if let Some(rule) = known.iter().find(same) {
                rules.push(rule.clone());
                continue;
            }
            tracing::warn!(server, "{text}");
            let warning = Warning { server: server.to_owned(), text, since: SystemTime::now() };
            rules.push(UnmatchedRule { principal, warning });
        }
        *known = rules;
    }

    /// Forgets the unmatched rules of all servers but those to keep.
    pub(super) fn retain(&self, keep: impl Fn(&str) -> bool) {
        lock(&self.by_server).retain(|server, _| keep(server));
    }

    /// Returns all rules that match no tool, by server id.
    pub(super) fn all(&self) -> Vec<UnmatchedRule> {
        lock(&self.by_server).values().flatten().cloned().collect()
    }

    /// Returns what the tokens of this configuration say.
    fn token_policies(&self, config: &Arc<Config>) -> Arc<TokenPolicies> {
        let mut tokens = lock(&self.tokens);
        match &*tokens {
            Some((known, policies)) if Arc::ptr_eq(known, config) => Arc::clone(policies),
            _ => {
                let policies = Arc::new(TokenPolicies::new(config));
                *tokens = Some((Arc::clone(config), Arc::clone(&policies)));
                policies
            }
        }
    }
}

/// Returns a text for each rule about a server that matches none of its tools, with the principal it belongs to.
fn find(
    logic: &mut Supervisor,
    config: &Config,
    policies: &[(Vec<Option<String>>, Policy)],
    server: &str,
    tools: &[String],
) -> LogicResult<Vec<(Option<String>, String)>> {
    let mut found = Vec::new();
    for (principals, policy) in policies {
        for unmatched in logic.find_unmatched(policy, server, tools)? {
            let text = in_words(list_name(unmatched.list), &unmatched.pattern, server, tools);
            found.extend(principals.iter().map(|principal| {
                let of = principal.as_deref().map(|name| format!("token of {name:?}: ")).unwrap_or_default();
                (principal.clone(), format!("{of}{text}"))
            }));
        }
    }
    for unmatched in logic.find_unmatched(&queues_of(config, server), server, tools)? {
        found.push((None, in_words("tool_queues", &unmatched.pattern, server, tools)));
    }
    Ok(found)
}

/// Wraps the patterns of `tool_queues` in a policy, because the component matches rules but knows no queues.
fn queues_of(config: &Config, server: &str) -> Policy {
    let of = config.servers.iter().filter(|known| known.id == server).flat_map(|known| &known.tool_queues);
    let mut rules = ServerRules {
        id: server.to_owned(),
        rules: Rules { allow: None, deny: Vec::new() },
        ask: Vec::new(),
        requires: Vec::new(),
        tools: Vec::new(),
    };
    rules.ask.extend(of.map(|(pattern, _)| pattern.clone()));
    policy(rules)
}

/// Returns the configuration key of a list of rules.
fn list_name(list: RuleList) -> &'static str {
    match list {
        RuleList::Allow => "allow",
        RuleList::Deny => "deny",
        RuleList::Ask => "ask",
        RuleList::Tools => "tools",
        RuleList::Selection => "servers",
        RuleList::Capabilities => "capabilities",
    }
}

/// Describes an unmatched rule, such as `deny: "git_reste" matches none of its 12 tools; did you mean "git_reset"?`
fn in_words(list: &str, pattern: &str, server: &str, tools: &[String]) -> String {
    let count = if tools.len() == 1 { "its 1 tool".to_owned() } else { format!("its {} tools", tools.len()) };
    format!("{list}: {pattern:?} matches none of {count}{}", hint(pattern, server, tools))
}

/// Suggests the nearest tool, or lists the tools.
fn hint(pattern: &str, server: &str, tools: &[String]) -> String {
    let word = pattern.replace(['*', '?'], "");
    let word = word.trim().trim_start_matches("tool:");
    // Names are also written with the server's id as a prefix.
    let bare = word.split_once(server).map(|(_, rest)| rest.trim_start_matches(['_', '.', '/']));
    let known = || tools.iter().map(String::as_str);
    let near = bare.filter(|bare| !bare.is_empty()).and_then(|bare| nearest::nearest(bare, known()));
    match near.or_else(|| nearest::nearest(word, known())) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => {
            let shown: Vec<String> = known().take(SHOWN).map(|tool| format!("{tool:?}")).collect();
            let more = if tools.len() > SHOWN { ", …" } else { "" };
            format!("; there are: {}{more}", shown.join(", "))
        }
    }
}

/// How many tools the hint lists if none is similar.
const SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_probably_meant_is_said_or_what_there_is() {
        let tools = ["git_reset", "git_log", "add"].map(str::to_owned);
        let check = |pattern: &str, expected: &str| assert_eq!(hint(pattern, "git", &tools), expected, "{pattern}");
        check("git_reste", "; did you mean \"git_reset\"?");
        check("git_lgo*", "; did you mean \"git_log\"?");
        check("ad", "; did you mean \"add\"?");
        check("git__add", "; did you mean \"add\"?");
        check("tool:git/ad", "; did you mean \"add\"?");
        check("entirely-else", "; there are: \"git_reset\", \"git_log\", \"add\"");
        assert_eq!(
            in_words("deny", "x*", "git", &tools[..1]),
            "deny: \"x*\" matches none of its 1 tool; there are: \"git_reset\""
        );
    }
}
