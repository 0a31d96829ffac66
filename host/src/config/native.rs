//! toolgate's own `toolgate.yaml`: read strictly, because a key that does nothing is a mistake.

use super::document::Node;
use super::error::ConfigError;
use super::field::{ConfigField, ReadContext};
use super::keys::settings::TOP;
use super::model::{FileShape, Problem, Settings, is_id};
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
    Ok((settings, servers, notices))
}
