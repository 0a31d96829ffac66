//! Files of other clients: read with tolerance, because they also contain what only those clients need.

use std::collections::BTreeSet;

use super::document::jsonc::LAST_COUNTS;
use super::document::{ConfigDocument, DocumentFault, MapEntry, Node, NodeValue};
use super::error::ConfigError;
use super::field::{ConfigField, ReadContext};
use super::keys::inputs::read_inputs;
use super::keys::masking::MASKING;
use super::keys::server::SERVER;
use super::keys::settings::TOP;
use super::model::{FilePosition, FileShape, Notice, Problem, ServerConfig, Settings, is_id};
use super::section::{is_ignorable, misspelt, read_keys};
use super::server_entry::{self, ConfigParts, ServerEntry, check_count};
use super::shape::ServersSection;

/// Reads the servers and toolgate's own settings from another client's file.
pub(super) fn read(document: &ConfigDocument, found: &ServersSection<'_>) -> Result<ConfigParts, ConfigError> {
    let root = &document.root;
    refuse_doubled_rules(document, found)?;
    let mut settings = Settings { bare_dollar: found.shape == FileShape::Gemini, ..Settings::default() };
    let mut notices = read_settings(root, found, &mut settings)?;
    let mut context = ReadContext::new(found.shape);
    if let Some(node) = found.inputs.or_else(|| root.at("inputs")) {
        let inputs = read_inputs(&ConfigField { node, field: "inputs".to_owned() }, &mut context);
        settings.inputs = inputs.unwrap_or_else(|error| {
            context.add_problem(error);
            Vec::new()
        });
    }
    // A wrong input shows up again as a problem of the server that uses it.
    notices.extend(context.notices);
    let faults = document.faults.iter().filter(|fault| is_among_servers(fault, found));
    notices.extend(faults.map(|fault| Notice { place: fault.place.clone(), text: fault.text.clone() }));
    notices.extend(context.problems.into_iter().map(|problem| Notice { place: problem.place, text: problem.text }));
    let named = named_entries(found, &mut notices)?;
    check_count(named.len(), settings.max_servers, found.servers)?;
    let mut servers: Vec<ServerConfig> = Vec::new();
    let choice = ServerChoice::of(root, found.shape)?;
    // A name that is a valid id is reserved for its server, wherever in the file it is.
    let written: BTreeSet<&str> = named.iter().map(|named| named.name).filter(|name| is_id(name)).collect();
    for NamedEntry { name, place, node } in named {
        let id = id_of(name, &servers, &written, &place, &mut notices);
        let enabled = choice.has(name, &id);
        let path = if found.path.is_empty() { name.to_owned() } else { format!("{}.{name}", found.path) };
        let (lifecycle, claude_code) = (settings.lifecycle.clone(), found.claude_code);
        let entry = ServerEntry { id, place, node, path, lifecycle, claude_code };
        let server = server_entry::read(entry, found.shape, &mut notices);
        servers.extend(server.map(|server| ServerConfig { enabled: server.enabled && enabled, ..server }));
    }
    if found.shape == FileShape::OpenCode {
        servers
            .iter_mut()
            .flat_map(ServerConfig::texts)
            .for_each(|text| text.text = translate_placeholders(&text.text));
    }
    notice_projects(root, &mut notices);
    for (path, node) in &found.ignored {
        let names: Vec<&str> = node.entries().unwrap_or_default().iter().map(|entry| entry.key.as_str()).collect();
        let text = format!(
            "{path} is ignored, because {} is used: {}; put all servers under one key",
            found.path,
            names.join(", ")
        );
        notices.push(Notice { place: node.place.clone(), text });
    }
    Ok((settings, servers, notices))
}

/// Returns the top-level entries of another client's file that are settings of toolgate; they apply as they do in
/// `toolgate.yaml`. The file's version is not toolgate's, and its inputs are read separately.
pub(super) fn settings_entries<'n>(root: &'n Node, found: &ServersSection<'_>) -> impl Iterator<Item = &'n MapEntry> {
    let others = found.path.split('.').next().unwrap_or_default();
    let entries = root.entries().filter(|_| !found.path.is_empty()).unwrap_or_default();
    entries.iter().filter(move |entry| {
        let is_theirs = ["version", "servers", "inputs", "$schema", others].contains(&entry.key.as_str());
        !is_theirs && TOP.iter().any(|key| key.is_called(&entry.key))
    })
}

/// Reads toolgate's settings as strictly as in `toolgate.yaml`, and refuses keys that look like misspelt rules.
fn read_settings(root: &Node, found: &ServersSection<'_>, settings: &mut Settings) -> Result<Vec<Notice>, ConfigError> {
    let ours =
        Node { place: root.place.clone(), value: NodeValue::Map(settings_entries(root, found).cloned().collect()) };
    let mut context = ReadContext::new(FileShape::Native);
    read_keys(TOP, settings, &ConfigField { node: &ours, field: String::new() }, &mut context);
    if let Some(problem) = context.problems.into_iter().next() {
        return Err(ConfigError::Invalid(problem));
    }
    let only_servers = matches!(found.shape, FileShape::McpServers | FileShape::VsCode | FileShape::List)
        && !found.path.contains('.')
        && !root.entries().into_iter().flatten().any(|entry| OF_CLAUDE_CODE.contains(&entry.key.as_str()));
    let others = found.path.split('.').next().unwrap_or_default();
    for entry in root.entries().filter(|_| !found.path.is_empty()).unwrap_or_default() {
        let name = entry.key.as_str();
        if name == others || is_ignorable(name) {
            continue;
        }
        let text = match TOP.iter().find(|key| key.is_called(name)) {
            Some(key) if key.name == "servers" => rule_of_unread(entry, found.path),
            Some(_) => None,
            None => {
                misspelt::intended_top_rule(TOP, entry, only_servers).map(|meant| misspelt::advice_at_top(name, meant))
            }
        };
        if let Some(text) = text {
            return Err(ConfigError::Invalid(Problem { place: entry.place.clone(), field: None, text }));
        }
    }
    Ok(context.notices)
}

/// Returns the error for rules under `servers` if the servers are read from another key.
fn rule_of_unread(servers: &MapEntry, path: &str) -> Option<String> {
    let is_rule = |entry: &MapEntry| SERVER.iter().any(|key| key.is_rule && key.is_called(&entry.key));
    let ruled = |server: &&MapEntry| server.value.entries().is_some_and(|entries| entries.iter().any(is_rule));
    let server = servers.value.entries()?.iter().find(ruled)?;
    Some(format!(
        "{:?} has rules under {:?}, and the servers of this file are read from {path:?}; put the rules there",
        server.key, servers.key
    ))
}

/// Refuses a rule that appears twice in one map, since either could be the intended one.
fn refuse_doubled_rules(document: &ConfigDocument, found: &ServersSection<'_>) -> Result<(), ConfigError> {
    let of_server = |name: &str| SERVER.iter().any(|key| key.is_rule && key.is_called(name));
    let of_masking = |name: &str| MASKING.iter().any(|key| key.is_called(name));
    let of_all = |name: &str| settings_entries(&document.root, found).any(|entry| entry.key == name);
    let is_rule = |fault: &&DocumentFault| {
        let among_servers = is_among_servers(fault, found);
        let among_rules = fault.top_key.as_deref().is_some_and(of_all);
        let doubled = |name: &str| among_servers && (of_server(name) || of_masking(name)) || among_rules;
        fault.duplicate_key.as_deref().is_some_and(doubled)
    };
    match document.faults.iter().find(is_rule) {
        Some(doubled) => {
            let text = doubled.text.trim_end_matches(LAST_COUNTS);
            Err(ConfigError::syntax(doubled.place.clone(), format!("{text}; keep the one that you mean")))
        }
        None => Ok(()),
    }
}

/// Reports whether a fault is among the servers; the rest of the file belongs to the client.
fn is_among_servers(fault: &DocumentFault, found: &ServersSection<'_>) -> bool {
    found.path.is_empty() || fault.top_key.as_deref() == found.path.split('.').next()
}

struct NamedEntry<'n> {
    name: &'n str,
    place: FilePosition,
    node: &'n Node,
}

fn named_entries<'n>(
    found: &ServersSection<'n>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<NamedEntry<'n>>, ConfigError> {
    match &found.servers.value {
        NodeValue::Map(entries) => {
            let named =
                |entry: &'n MapEntry| NamedEntry { name: &entry.key, place: entry.place.clone(), node: &entry.value };
            Ok(entries.iter().map(named).collect())
        }
        NodeValue::List(items) => {
            let mut named = Vec::new();
            for node in items {
                let name = ["name", "id"].iter().find_map(|key| match &node.at(key)?.value {
                    NodeValue::Scalar(scalar) => Some(scalar.text.as_str()),
                    _ => None,
                });
                match name.filter(|name| !name.is_empty()) {
                    Some(name) => named.push(NamedEntry { name, place: node.place.clone(), node }),
                    None => notices.push(Notice {
                        place: node.place.clone(),
                        text: "skipped: this server has no `name`".to_owned(),
                    }),
                }
            }
            Ok(named)
        }
        NodeValue::Scalar(_) if found.servers.is_null() => Ok(Vec::new()),
        NodeValue::Scalar(_) => {
            let text =
                format!("{}: expected a map from names to servers, found {}", found.path, found.servers.describe());
            Err(ConfigError::invalid(found.servers.place.clone(), text))
        }
    }
}

/// Makes an id from a name: `My Server!` becomes `My-Server`, and a second one `My-Server-2`.
fn id_of(
    name: &str,
    servers: &[ServerConfig],
    written: &BTreeSet<&str>,
    position: &FilePosition,
    notices: &mut Vec<Notice>,
) -> String {
    let mut id = String::new();
    for letter in name.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || letter == '_' || letter == '-' => id.push(letter),
            _ if id.is_empty() || id.ends_with('-') => {}
            _ => id.push('-'),
        }
    }
    if !is_id(name) {
        id.truncate(id.trim_end_matches('-').len());
    }
    if id.is_empty() {
        id.push_str("server");
    }
    let taken = |id: &str| servers.iter().any(|server| server.id == id) || id != name && written.contains(id);
    if taken(&id) {
        let next = (2..).map(|number| format!("{id}-{number}")).find(|id| !taken(id));
        id = next.unwrap_or(id);
    }
    if id != name {
        notices.push(Notice { place: position.clone(), text: format!("server {name:?} is called {id:?} here") });
    }
    id
}

/// The servers that Gemini CLI uses: it lists them under `mcp`, and in older files at the top.
#[derive(Default)]
struct ServerChoice {
    /// Lists of servers to use; a server must be in all of them.
    allowed: Vec<Vec<String>>,
    /// Servers not to use.
    excluded: Vec<String>,
}

impl ServerChoice {
    /// Reads the lists; an unreadable one is an error, because ignoring it would enable every server.
    fn of(root: &Node, shape: FileShape) -> Result<Self, ConfigError> {
        let mut choice = ServerChoice::default();
        if shape != FileShape::Gemini {
            return Ok(choice);
        }
        for (path, field, is_allowed) in [
            (&["mcp", "allowed"][..], "mcp.allowed", true),
            (&["allowMCPServers"], "allowMCPServers", true),
            (&["mcp", "excluded"], "mcp.excluded", false),
            (&["excludeMCPServers"], "excludeMCPServers", false),
        ] {
            let Some(node) = path.iter().try_fold(root, |node, key| node.at(key)) else { continue };
            let names = ConfigField { node, field: field.to_owned() }.texts()?;
            match is_allowed {
                true => choice.allowed.push(names),
                false => choice.excluded.extend(names),
            }
        }
        Ok(choice)
    }

    /// Reports whether a server with this name and id is used.
    fn has(&self, name: &str, id: &str) -> bool {
        let lists = |names: &Vec<String>| names.iter().any(|listed| listed == name || listed == id);
        self.allowed.iter().all(lists) && !lists(&self.excluded)
    }
}

/// Translates opencode's `{env:VAR}` and `{file:PATH}` to `${env:VAR}` and `${file:PATH}`.
fn translate_placeholders(text: &str) -> String {
    let mut ours = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, place) = rest.split_at(at);
        ours.push_str(before);
        let is_theirs = place.starts_with("{env:") || place.starts_with("{file:");
        if is_theirs && place.contains('}') && !ours.ends_with(['$', '{']) {
            ours.push('$');
        }
        ours.push('{');
        rest = &place[1..];
    }
    ours + rest
}

/// Adds a notice for servers that Claude Code keeps per project in the same file; toolgate cannot tell which project is
/// meant.
fn notice_projects(root: &Node, notices: &mut Vec<Notice>) {
    for project in root.at("projects").and_then(Node::entries).into_iter().flatten() {
        let servers = project.value.at("mcpServers").and_then(Node::entries).unwrap_or_default();
        if servers.is_empty() {
            continue;
        }
        let names: Vec<&str> = servers.iter().map(|entry| entry.key.as_str()).collect();
        let text = format!("the servers of the project {:?} are ignored: {}", project.key, names.join(", "));
        notices.push(Notice { place: project.place.clone(), text });
    }
}

/// Keys that identify the settings of Claude Code, which contain more than servers.
const OF_CLAUDE_CODE: [&str; 3] = ["numStartups", "projects", "oauthAccount"];
