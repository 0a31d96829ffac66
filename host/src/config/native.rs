//! toolgate's own `toolgate.yaml`: read strictly, because a key that does nothing is a mistake.

use super::document::Node;
use super::error::ConfigError;
use super::field::{ConfigField, ReadContext};
use super::foreign::check_count;
use super::keys::{self, settings};
use super::model::{FileShape, Notice, Problem, ServerConfig, Settings};
use super::server_entry::{self, ServerEntry};

/// The content of a file: its settings, its servers, and notices for its author.
pub type ConfigParts = (Settings, Vec<ServerConfig>, Vec<Notice>);

/// Reads a `toolgate.yaml`.
pub fn read(root: &Node) -> Result<ConfigParts, ConfigError> {
    let mut context = ReadContext::new(FileShape::Native);
    let mut settings = Settings::default();
    keys::read_keys(settings::TOP, &mut settings, &ConfigField { node: root, field: String::new() }, &mut context);
    if let Some(problem) = context.problems.into_iter().next() {
        return Err(ConfigError::Invalid(problem));
    }
    let mut notices = context.notices;
    let mut servers = Vec::new();
    if let Some(node) = root.at("servers").filter(|node| !node.is_null()) {
        let Some(entries) = node.entries() else {
            let text = format!("expected a map from ids to servers, found {}", node.describe());
            return Err(ConfigError::Invalid(Problem {
                place: node.place.clone(),
                field: Some("servers".to_owned()),
                text,
            }));
        };
        check_count(entries.len(), settings.max_servers, node)?;
        for named in entries {
            let path = format!("servers.{}", named.key);
            let position = named.place.clone();
            let entry = ServerEntry {
                id: named.key.clone(),
                place: position.clone(),
                node: &named.value,
                path: path.clone(),
                lifecycle: settings.lifecycle.clone(),
                claude_code: false,
            };
            let Some(mut server) = server_entry::read(entry, FileShape::Native, &mut notices) else { continue };
            if !is_id(&named.key) {
                let text = format!("the id {:?} must be letters, digits, `_` and `-`", named.key);
                server.problem = Some(Problem { place: position, field: Some(path), text });
            }
            servers.push(server);
        }
    }
    Ok((settings, servers, notices))
}

/// Reports whether the text is a valid id of a server.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
