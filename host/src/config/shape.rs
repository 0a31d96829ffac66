//! Detects the format of a file, that is, which client it is for, by its content.

use std::path::Path;

use super::document::{ConfigDocument, FileFormat, MapEntry, Node, NodeValue};
use super::error::ConfigError;
use super::keys::settings::TOP;
use super::model::FileShape;
use super::nearest;

/// The servers of a file and the file's format.
pub(super) struct ServersSection<'n> {
    /// The format of the file.
    pub shape: FileShape,
    /// The map or list of servers.
    pub servers: &'n Node,
    /// The key of the servers, for messages; empty if they are the whole file.
    pub path: &'static str,
    /// The `inputs` of the file.
    pub inputs: Option<&'n Node>,
    /// Whether the file is known to be Claude Code's.
    pub claude_code: bool,
    /// Servers under keys of other clients, which are not read.
    pub ignored: Vec<(&'static str, &'n Node)>,
}

/// Detects the format of a file and finds its servers.
pub(super) fn find_servers<'n>(document: &'n ConfigDocument, file: &Path) -> Result<ServersSection<'n>, ConfigError> {
    let mut found = detect_shape(document, file)?;
    let places = [&["mcpServers"][..], &["mcp", "servers"], &["mcp", "mcpServers"], &["mcp"], &["servers"]];
    for (path, name) in places.iter().zip(["mcpServers", "mcp.servers", "mcp.mcpServers", "mcp", "servers"]) {
        let node = path.iter().try_fold(&document.root, |node, key| node.at(key));
        let has_servers = |node: &&Node| node.entries().unwrap_or_default().iter().any(|entry| is_server(&entry.value));
        if let Some(node) = node.filter(has_servers).filter(|_| !found.path.is_empty() && found.path != name) {
            found.ignored.push((name, node));
        }
    }
    Ok(found)
}

fn detect_shape<'n>(document: &'n ConfigDocument, file: &Path) -> Result<ServersSection<'n>, ConfigError> {
    let root = &document.root;
    let found = |shape, servers, path| {
        Ok(ServersSection { shape, servers, path, inputs: None, claude_code: false, ignored: Vec::new() })
    };
    if let NodeValue::List(_) = &root.value {
        return found(FileShape::List, root, "");
    }
    let Some(entries) = root.entries() else {
        let text = format!("expected a map, found {}", root.describe());
        return Err(ConfigError::invalid(root.place.clone(), text));
    };
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(servers) = root.at("mcpServers") {
        let shape = mcp_servers(servers, file);
        let claude_code = shape == FileShape::McpServers && CLAUDE_CODE.contains(&name);
        return found(shape, servers, "mcpServers").map(|found| ServersSection { claude_code, ..found });
    }
    if let Some(servers) = root.at("mcp_servers") {
        let entries = servers.entries().unwrap_or_default();
        let has_map = |entry: &MapEntry| entry.value.at("transport").is_some_and(|node| node.entries().is_some());
        let shape = if entries.iter().any(has_map) { FileShape::Tarsy } else { FileShape::Codex };
        return found(shape, servers, "mcp_servers");
    }
    if let Some(servers) = root.at("context_servers") {
        return found(FileShape::Zed, servers, "context_servers");
    }
    if let Some(mcp) = root.at("mcp").filter(|mcp| mcp.entries().is_some()) {
        return match (mcp.at("servers"), mcp.at("mcpServers")) {
            (Some(servers), _) if servers.at("command").is_none() => found(FileShape::VsCode, servers, "mcp.servers")
                .map(|found| ServersSection { inputs: mcp.at("inputs"), ..found }),
            (_, Some(servers)) => found(FileShape::McpServers, servers, "mcp.mcpServers"),
            _ => found(FileShape::OpenCode, mcp, "mcp"),
        };
    }
    let ours = |key: &str| TOP.iter().any(|ours| ours.in_schema && ours.name == key);
    let only_ours = entries.iter().any(|entry| ours(&entry.key) && !matches!(entry.key.as_str(), "servers" | "inputs"));
    let by_name = has_our_name(file);
    match root.at("servers") {
        Some(servers) if !by_name && matches!(servers.value, NodeValue::List(_)) => {
            return found(FileShape::List, servers, "servers");
        }
        Some(servers) if !by_name && !only_ours && document.format == FileFormat::Json => {
            return found(FileShape::VsCode, servers, "servers")
                .map(|found| ServersSection { inputs: root.at("inputs"), ..found });
        }
        Some(_) => return found(FileShape::Native, root, ""),
        None if by_name => return found(FileShape::Native, root, ""),
        None => {}
    }
    if !entries.is_empty() && entries.iter().all(|entry| is_server(&entry.value)) {
        return found(FileShape::Bare, root, "");
    }
    if entries.is_empty() {
        return found(FileShape::McpServers, root, "");
    }
    if only_ours {
        return found(FileShape::Native, root, "");
    }
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).take(5).collect();
    let near = keys.iter().find_map(|key| nearest::nearest(key, ROOTS).map(|root| (key, root)));
    let hint = match near {
        Some((key, root)) => format!("did you mean {root:?} where you wrote {key:?}?"),
        None => format!("expected one of {}, found {}", ROOTS.join(", "), keys.join(", ")),
    };
    Err(ConfigError::invalid(root.place.clone(), format!("no servers in this file; {hint}")))
}

/// Tells Gemini CLI from other clients with the same top-level key, by its own keys and its folder.
fn mcp_servers(servers: &Node, file: &Path) -> FileShape {
    let in_folder = file.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".gemini");
    let has_own = |node: &Node| GEMINI.iter().any(|key| node.at(key).is_some());
    let entries = servers.entries().unwrap_or_default();
    match in_folder || entries.iter().any(|entry| has_own(&entry.value)) {
        true => FileShape::Gemini,
        false => FileShape::McpServers,
    }
}

/// Reports whether a file is named like toolgate's own files.
pub(super) fn has_our_name(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("toolgate."))
}

fn is_server(node: &Node) -> bool {
    SERVER.iter().any(|key| node.at(key).is_some())
}

/// The keys under which files keep their servers.
pub(super) const ROOTS: [&str; 5] = ["servers", "mcpServers", "mcp_servers", "context_servers", "mcp"];
const CLAUDE_CODE: [&str; 2] = [".mcp.json", ".claude.json"];
const GEMINI: [&str; 4] = ["httpUrl", "includeTools", "excludeTools", "trust"];
const SERVER: [&str; 8] = ["command", "url", "httpUrl", "serverUrl", "baseUrl", "type", "transport", "cmd"];
