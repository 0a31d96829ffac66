//! Rules that fit no tool of their server, found whenever the tools of a server or the rules about it are new.
//!
//! Whether a rule fits is for the component to say; what was probably meant is looked for here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::Warning;
use super::context::RegistryContext;
use super::tools::ToolList;
use crate::config::model::Config;
use crate::config::nearest;
use crate::decide::LogicResult;
use crate::gate;
use crate::logic::Supervisor;
use crate::logic::types::filtering::{DestructivePolicy, Policy, RuleList, Rules, ServerRules};

/// What was found, by server.
#[derive(Default)]
pub(super) struct UnmatchedRules(Mutex<BTreeMap<String, Vec<UnmatchedRule>>>);

/// A rule that fits no tool of its server.
#[derive(Debug, Clone)]
pub struct UnmatchedRule {
    /// Whose token the rule belongs to; none where it holds for everybody.
    pub principal: Option<String>,
    /// What an operator should know.
    pub warning: Warning,
}

impl RegistryContext {
    /// Finds the rules that fit none of these tools of a server. What was not found the last time is logged.
    pub(super) fn match_rules(&self, server: &str, tools: &ToolList) {
        let names: Vec<String> = tools.offered.iter().map(|tool| tool.name.clone()).collect();
        let found = find(&mut self.logic(), &self.config(), server, &names);
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(server, "nobody can say whether its rules fit its tools: {error}");
            Vec::new()
        });
        let mut known = self.unmatched.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Forgets what was found about servers that begin anew or are no more.
    pub(super) fn forget_rules(&self, keep: impl Fn(&str) -> bool) {
        self.unmatched.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|server, _| keep(server));
    }

    /// All rules that were found to fit no tool, by the ids of their servers.
    pub(super) fn unmatched_rules(&self) -> Vec<UnmatchedRule> {
        self.unmatched.0.lock().unwrap_or_else(PoisonError::into_inner).values().flatten().cloned().collect()
    }
}

/// The rules about a server that fit none of its tools, in words, each with whose token it belongs to.
fn find(
    logic: &mut Supervisor,
    config: &Config,
    server: &str,
    tools: &[String],
) -> LogicResult<Vec<(Option<String>, String)>> {
    let mut found = Vec::new();
    for (principal, policy) in gate::policies_about(config, server) {
        for unmatched in logic.find_unmatched(&policy, server, tools)? {
            let of = principal.as_deref().map(|name| format!("token of {name:?}: ")).unwrap_or_default();
            let list = list_name(unmatched.list);
            found.push((principal.clone(), in_words(&format!("{of}{list}"), &unmatched.pattern, server, tools)));
        }
    }
    for unmatched in logic.find_unmatched(&queues_of(config, server), server, tools)? {
        found.push((None, in_words("tool_queues", &unmatched.pattern, server, tools)));
    }
    Ok(found)
}

/// The tools that have queues of their own, as a list that the component can look at: it knows no queues.
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
    Policy {
        servers: vec![rules],
        selection: None,
        read_only: false,
        destructive: DestructivePolicy::Allow,
        capabilities: None,
    }
}

/// What a list is called in a configuration.
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

/// Such as: `deny: "git_reste" fits none of its 12 tools; did you mean "git_reset"?`
fn in_words(list: &str, pattern: &str, server: &str, tools: &[String]) -> String {
    let count = if tools.len() == 1 { "its 1 tool".to_owned() } else { format!("its {} tools", tools.len()) };
    format!("{list}: {pattern:?} fits none of {count}{}", hint(pattern, server, tools))
}

/// What was probably meant, or the tools that there are.
fn hint(pattern: &str, server: &str, tools: &[String]) -> String {
    let word = pattern.replace(['*', '?'], "");
    let word = word.trim().trim_start_matches("tool:");
    // Names are also shown with the id of their server before them.
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

/// How many tools are named where none is near.
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
            "deny: \"x*\" fits none of its 1 tool; there are: \"git_reset\""
        );
    }

    #[test]
    fn only_rules_about_the_server_are_asked_about() {
        let text =
            "gateway: {tokens: [{principal: a, token: x, servers: {git: [y], other: [\"*\"]}}, {principal: b, token: z}]}
servers: {git: {command: c, deny: [d]}, other: {command: c}}";
        let config = crate::config::parse(text, std::path::Path::new("toolgate.yaml")).unwrap();
        let about = |server: &str| gate::policies_about(&config, server);
        let of = |policies: &[(Option<String>, Policy)]| -> Vec<Option<String>> {
            policies.iter().map(|(principal, _)| principal.clone()).collect()
        };
        assert_eq!(of(&about("git")), [None, Some("a".to_owned())]);
        assert_eq!(of(&about("none")), []);
    }
}
