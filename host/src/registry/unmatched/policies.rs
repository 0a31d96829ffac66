//! The policies about single servers, to find the rules in them that match no tool.

use std::collections::HashMap;

use crate::config::model::{Config, ServerConfig};
use crate::gate_settings::filter_rules;
use crate::logic::types::filtering::{DestructivePolicy, Policy, SelectedServer, ServerRules};

/// What the tokens of a configuration say about the tools of each server, by its id.
///
/// It is collected once for a configuration: asking about each token whenever a server lists its tools would take
/// servers times tokens.
pub(super) struct TokenPolicies(HashMap<String, Vec<(ToolRights, Vec<String>)>>);

/// What one token says about the tools of one server: those that it selects, and the capabilities that name one.
#[derive(Default, PartialEq, Eq, Hash)]
struct ToolRights {
    selected: Vec<String>,
    capabilities: Vec<String>,
}

impl TokenPolicies {
    /// Collects the rights of all tokens, those of each server in the order of the configuration.
    pub(super) fn new(config: &Config) -> Self {
        let mut found: HashMap<&str, HashMap<ToolRights, (usize, Vec<String>)>> = HashMap::new();
        for (position, token) in config.settings.gateway.tokens.iter().enumerate() {
            let mut rights: HashMap<&str, ToolRights> = HashMap::new();
            for (server, tools) in token.selection.iter().flatten().filter(|(_, tools)| !tools.is_empty()) {
                rights.entry(server).or_default().selected.clone_from(tools);
            }
            for capability in token.capabilities.iter().flatten() {
                if let Some((server, _)) = capability.strip_prefix("tool:").and_then(|rest| rest.split_once('/')) {
                    rights.entry(server).or_default().capabilities.push(capability.clone());
                }
            }
            for (server, rights) in rights {
                let of_server = found.entry(server).or_default();
                let (_, principals) = of_server.entry(rights).or_insert_with(|| (position, Vec::new()));
                principals.push(token.principal.clone());
            }
        }
        let in_order = |of_server: HashMap<ToolRights, (usize, Vec<String>)>| {
            let mut of_server: Vec<_> = of_server.into_iter().collect();
            of_server.sort_by_key(|(_, (position, _))| *position);
            of_server.into_iter().map(|(rights, (_, principals))| (rights, principals)).collect()
        };
        TokenPolicies(found.into_iter().map(|(server, rights)| (server.to_owned(), in_order(rights))).collect())
    }

    /// Returns the policies about one server: its own rules, and what tokens say, each with its principals.
    pub(super) fn about(&self, config: &Config, server: &str) -> Vec<(Vec<Option<String>>, Policy)> {
        let Some(found) = config.servers.iter().find(|known| known.id == server) else { return Vec::new() };
        let bare = filter_rules(&ServerConfig::new(server, found.place.clone(), found.kind));
        let of_tokens = self.0.get(server).into_iter().flatten().map(|(rights, principals)| {
            let ToolRights { selected, capabilities } = rights;
            let selected = SelectedServer { id: server.to_owned(), tools: selected.clone() };
            let policy = Policy {
                selection: Some(vec![selected]),
                capabilities: Some(capabilities.clone()),
                ..policy(bare.clone())
            };
            (principals.iter().cloned().map(Some).collect(), policy)
        });
        std::iter::once((vec![None], policy(filter_rules(found)))).chain(of_tokens).collect()
    }
}

/// Returns a policy with only these rules.
pub(super) fn policy(rules: ServerRules) -> Policy {
    Policy {
        servers: vec![rules],
        selection: None,
        choice: None,
        read_only: false,
        destructive: DestructivePolicy::Allow,
        capabilities: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_asked_about_once_for_equal_rights_and_only_where_they_name_tools() {
        let text = "gateway:
  tokens:
    - {principal: a, token: x, servers: {git: [y], other: [\"*\"]}}
    - {principal: b, token: x}
    - {principal: c, token: x, servers: [git], capabilities: [\"server:*\"]}
    - {principal: d, token: x, servers: {git: [y]}}
    - {principal: e, token: x, capabilities: [\"tool:git/z\", \"tool:git/y\", team]}
servers: {git: {command: c, deny: [d]}, other: {command: c}}";
        let config = crate::config::parse(text, std::path::Path::new("toolgate.yaml")).unwrap();
        let policies = TokenPolicies::new(&config);
        let check = |server: &str, expected: &str| {
            let words = |(principals, policy): (Vec<Option<String>>, Policy)| {
                let names: Vec<_> = principals.iter().map(|name| name.as_deref().unwrap_or("all")).collect();
                let selected = policy.selection.into_iter().flatten().flat_map(|selected| selected.tools);
                let named: Vec<_> = selected.chain(policy.capabilities.into_iter().flatten()).collect();
                format!("{}: {}", names.join(" "), named.join(" "))
            };
            let found: Vec<_> = policies.about(&config, server).into_iter().map(words).collect();
            assert_eq!(found.join("; "), expected, "{server}");
        };
        check("git", "all: ; a d: y; e: tool:git/z tool:git/y");
        check("other", "all: ; a: *");
        check("none", "");
    }
}
