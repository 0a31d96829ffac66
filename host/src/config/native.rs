//! toolgate's own `toolgate.yaml`: read strictly, because a key that does nothing is a mistake.

use std::collections::HashMap;

use super::document::Node;
use super::error::ConfigError;
use super::field::{ConfigField, ReadContext};
use super::keys::settings::TOP;
use super::model::{FileShape, Problem, ServerConfig, Settings, is_id};
use super::section::read_keys;
use super::server_entry::{self, ConfigParts, ServerEntry, check_count};

/// Reads a `toolgate.yaml`.
pub(super) fn read(root: &Node) -> Result<ConfigParts, ConfigError> {
    let mut context = ReadContext::new(FileShape::Native);
    let mut settings = Settings::default();
    read_keys(TOP, &mut settings, &ConfigField { node: root, field: String::new() }, &mut context);
    if let Some(problem) = context.problems.into_iter().next() {
        return Err(ConfigError::Invalid(problem));
    }
    let mut notices = context.notices;
    let mut servers = Vec::new();
    if let Some(node) = root.at("servers").filter(|node| !node.is_null()) {
        let Some(entries) = node.entries() else {
            let text = format!("expected a map from ids to servers, found {}", node.describe());
            return Err(ConfigField { node, field: "servers".to_owned() }.error(text).into());
        };
        check_count(entries.len(), settings.max_servers, node)?;
        for named in entries {
            let path = format!("servers.{}", named.key);
            let entry = ServerEntry {
                id: named.key.clone(),
                place: named.place.clone(),
                node: &named.value,
                path: path.clone(),
                lifecycle: settings.lifecycle.clone(),
                claude_code: false,
            };
            let Some(mut server) = server_entry::read(entry, FileShape::Native, &mut notices) else { continue };
            if !is_id(&named.key) {
                let text = format!("the id {:?} must be letters, digits, `_` and `-`", named.key);
                server.problem = Some(Problem { place: named.place.clone(), field: Some(path), text });
            }
            servers.push(server);
        }
    }
    check_rule_names(&settings, &servers)?;
    Ok((settings, servers, notices))
}

/// Checks that no two rules have the same name, since messages and counts name them; but tokens may share a rule.
fn check_rule_names(settings: &Settings, servers: &[ServerConfig]) -> Result<(), ConfigError> {
    let of_servers = servers.iter().flat_map(|server| &server.rules);
    let of_tokens = settings.gateway.tokens.iter().flat_map(|token| &token.rules);
    let others = settings.rules.iter().chain(of_servers).map(|rule| (rule, false));
    let mut names = HashMap::new();
    for (rule, of_token) in others.chain(of_tokens.map(|rule| (rule, true))) {
        match names.insert(&rule.rule.name, (rule, of_token)) {
            None => {}
            // Several principals may have the same rule.
            Some((same, true)) if of_token && same.rule == rule.rule => {}
            Some(_) => {
                let text = format!("another rule has the name {:?} too", rule.rule.name);
                return Err(ConfigError::invalid(rule.place.clone(), text));
            }
        }
    }
    Ok(())
}
