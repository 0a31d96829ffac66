//! Finds patterns of a policy that match no tool: a typing error there would silently open a tool or close all tools.

use super::Policy;
use super::glob::{Globs, is_same};

/// The list of a policy that a pattern is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleList {
    /// The server's `allow`.
    Allow,
    /// The server's `deny`.
    Deny,
    /// The server's `ask`.
    Ask,
    /// The server's rules for single tools.
    Tools,
    /// The server's tools in the selection.
    Selection,
    /// The capabilities of the form `tool:server/tool`.
    Capabilities,
}

/// A pattern or name in a policy that matches no tool and therefore does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The list that contains the pattern.
    pub list: RuleList,
    /// The pattern, as written.
    pub pattern: String,
}

/// Finds the patterns of a policy that match none of a server's tools, in the order of the lists. If the server lists
/// no tools, nothing is reported.
pub fn find_unmatched(policy: &Policy, server: &str, tools: &[String]) -> Vec<Unmatched> {
    let mut found = Vec::new();
    if tools.is_empty() {
        return found;
    }
    let mut look = |list: RuleList, written: &str, fits: &dyn Fn(&str) -> bool| {
        if !tools.iter().any(|tool| fits(tool)) {
            found.push(Unmatched { list, pattern: written.to_owned() });
        }
    };
    let mut look_globs = |list: RuleList, patterns: &[String]| {
        for pattern in patterns {
            let pattern_alone = std::slice::from_ref(pattern);
            let glob = match list {
                RuleList::Deny | RuleList::Ask => Globs::restricting(pattern_alone),
                _ => Globs::permitting(pattern_alone),
            };
            look(list, pattern, &|tool| glob.find(tool).is_some());
        }
    };
    for rules in policy.servers.iter().filter(|rules| rules.id == server) {
        look_globs(RuleList::Allow, rules.rules.allow.as_deref().unwrap_or_default());
        look_globs(RuleList::Deny, &rules.rules.deny);
        look_globs(RuleList::Ask, &rules.ask);
    }
    for selected in policy.selection.iter().flatten().filter(|selected| selected.id == server) {
        look_globs(RuleList::Selection, &selected.tools);
    }
    for rules in policy.servers.iter().filter(|rules| rules.id == server).flat_map(|rules| &rules.tools) {
        look(RuleList::Tools, &rules.tool, &|tool| is_same(&rules.tool, tool));
    }
    for grant in policy.capabilities.iter().flatten() {
        // The short form may mean a tool of another server, so it cannot be called unmatched.
        let named = grant.strip_prefix("tool:").and_then(|rest| rest.split_once('/'));
        if let Some((_, name)) = named.filter(|(id, _)| *id == server) {
            look(RuleList::Capabilities, grant, &|tool| tool == name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filtering::{Rules, SelectedServer, ServerRules, ToolRules};

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn found(policy: &Policy, tools: &[&str]) -> Vec<(RuleList, String)> {
        find_unmatched(policy, "git", &texts(tools)).into_iter().map(|found| (found.list, found.pattern)).collect()
    }

    #[test]
    fn a_pattern_that_fits_no_tool_of_its_server_is_found_in_every_list() {
        let server = ServerRules {
            id: "git".to_owned(),
            rules: Rules { allow: Some(texts(&["git_*", "ad", "["])), deny: texts(&["git_reste", " GIT_RESET ", ""]) },
            ask: texts(&["git_pus?", "git_pull"]),
            tools: ["git_lgo", "Git_Log"]
                .map(|tool| ToolRules { tool: tool.to_owned(), ..ToolRules::default() })
                .into(),
            ..ServerRules::default()
        };
        let other = ServerRules {
            id: "other".to_owned(),
            rules: Rules { allow: Some(texts(&["a"])), deny: texts(&["b"]) },
            ask: texts(&["c"]),
            ..ServerRules::default()
        };
        let selected = |id: &str, tools: &[&str]| SelectedServer { id: id.to_owned(), tools: texts(tools) };
        let policy = Policy {
            servers: vec![server, other],
            selection: Some(vec![selected("git", &["*", "git-log"]), selected("other", &["nothing"])]),
            capabilities: Some(texts(&["tool:git/git_log", "tool:git/log", "tool:other/x", "server:git", "mcp_git_x"])),
            ..Policy::default()
        };
        let tools = ["git_log", "git_reset", "git_push"];
        let expected = [
            (RuleList::Allow, "ad"),
            (RuleList::Allow, "["),
            (RuleList::Deny, "git_reste"),
            (RuleList::Deny, ""),
            (RuleList::Ask, "git_pull"),
            (RuleList::Selection, "git-log"),
            (RuleList::Tools, "git_lgo"),
            (RuleList::Capabilities, "tool:git/log"),
        ];
        assert_eq!(found(&policy, &tools), expected.map(|(list, pattern)| (list, pattern.to_owned())));
        assert_eq!(found(&policy, &[]), []);
    }

    #[test]
    fn any_fits_every_tool_in_the_lists_that_keep_tools_back_and_in_no_other() {
        let any = || texts(&[" Any "]);
        let rules = Rules { allow: Some(any()), deny: any() };
        let server = ServerRules { id: "git".to_owned(), rules, ask: any(), ..ServerRules::default() };
        let selection = Some(vec![SelectedServer { id: "git".to_owned(), tools: any() }]);
        let policy = Policy { servers: vec![server], selection, ..Policy::default() };
        let expected = [RuleList::Allow, RuleList::Selection].map(|list| (list, " Any ".to_owned()));
        assert_eq!(found(&policy, &["git_log"]), expected);
    }
}
