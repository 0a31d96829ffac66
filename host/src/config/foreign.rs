//! Files of other clients: read with tolerance, since they say things that are not for us.

use std::collections::BTreeSet;

use super::document::{Document, Entry as MapEntry, Fault, Node, Value};
use super::entry::{self, Entry};
use super::error::ConfigError;
use super::keys::settings;
use super::model::{Notice, Place, Server, Settings, Shape};
use super::native::{Said, is_id};
use super::reading::{Given, Reading};
use super::shape::Found;

/// Reads the servers of another client's file.
pub fn read(document: &Document, found: &Found<'_>) -> Result<Said, ConfigError> {
    let root = &document.root;
    let mut settings = Settings { bare_dollar: found.shape == Shape::Gemini, ..Settings::default() };
    let mut reading = Reading::new(found.shape);
    if let Some(node) = found.inputs {
        let inputs = settings::inputs(&Given { node, field: "inputs".to_owned() }, &mut reading);
        settings.inputs = inputs.unwrap_or_else(|misfit| {
            reading.problem(misfit);
            Vec::new()
        });
    }
    // What is wrong with an input shows again where a server uses it.
    let mut notices = reading.notices;
    notices.extend(document.faults.iter().filter(|fault| concerns(fault, found)).map(|fault| {
        let Fault { place, text, .. } = fault;
        Notice { place: place.clone(), text: text.clone() }
    }));
    notices.extend(reading.problems.into_iter().map(|problem| Notice { place: problem.place, text: problem.text }));
    let named = named(found, &mut notices)?;
    check_count(named.len(), settings.max_servers, found.servers)?;
    let mut servers: Vec<Server> = Vec::new();
    // A name that is an id is nobody else's, wherever it stands.
    let written: BTreeSet<&str> = named.iter().map(|named| named.name).filter(|name| is_id(name)).collect();
    for Named { name, place, node } in named {
        let id = id_of(name, &servers, &written, &place, &mut notices);
        let path = if found.path.is_empty() { name.to_owned() } else { format!("{}.{name}", found.path) };
        let (lifecycle, claude_code) = (settings.lifecycle.clone(), found.claude_code);
        let entry = Entry { id, place, node, path, lifecycle, claude_code };
        servers.extend(entry::read(entry, found.shape, &mut notices));
    }
    if found.shape == Shape::OpenCode {
        servers.iter_mut().flat_map(Server::texts).for_each(|text| text.text = in_our_words(&text.text));
    }
    choose(root, found.shape, &mut servers);
    tell_of_projects(root, &mut notices);
    for (path, node) in &found.unread {
        let names: Vec<&str> = node.entries().unwrap_or_default().iter().map(|entry| entry.key.as_str()).collect();
        let text = format!("{path} is left out, since {} is read: {}; put all under one", found.path, names.join(", "));
        notices.push(Notice { place: node.place.clone(), text });
    }
    Ok((settings, servers, notices))
}

/// Whether it stands where the servers are; what else a client keeps in its file is not for us.
fn concerns(fault: &Fault, found: &Found<'_>) -> bool {
    found.path.is_empty() || fault.under.as_deref() == found.path.split('.').next()
}

/// Refuses a file that would start more programs than anyone means to.
pub fn check_count(count: usize, most: usize, node: &Node) -> Result<(), ConfigError> {
    if count > most {
        return Err(ConfigError::invalid(node.place.clone(), format!("{count} servers, but max_servers is {most}")));
    }
    Ok(())
}

struct Named<'n> {
    name: &'n str,
    place: Place,
    node: &'n Node,
}

fn named<'n>(found: &Found<'n>, notices: &mut Vec<Notice>) -> Result<Vec<Named<'n>>, ConfigError> {
    match &found.servers.value {
        Value::Map(entries) => Ok(entries
            .iter()
            .map(|MapEntry { key, place, value }| Named { name: key, place: place.clone(), node: value })
            .collect()),
        Value::List(items) => {
            let mut named = Vec::new();
            for node in items {
                let name = ["name", "id"].iter().find_map(|key| match &node.at(key)?.value {
                    Value::Scalar(scalar) => Some(scalar.text.as_str()),
                    _ => None,
                });
                match name.filter(|name| !name.is_empty()) {
                    Some(name) => named.push(Named { name, place: node.place.clone(), node }),
                    None => notices.push(Notice {
                        place: node.place.clone(),
                        text: "left out, since it has no `name`".to_owned(),
                    }),
                }
            }
            Ok(named)
        }
        Value::Scalar(_) if found.servers.is_null() => Ok(Vec::new()),
        Value::Scalar(_) => {
            let text =
                format!("{}: expected a map from names to servers, found {}", found.path, found.servers.describe());
            Err(ConfigError::invalid(found.servers.place.clone(), text))
        }
    }
}

/// Makes an id of a name: `My Server!` becomes `My-Server`, and a second one `My-Server-2`.
fn id_of(name: &str, servers: &[Server], written: &BTreeSet<&str>, place: &Place, notices: &mut Vec<Notice>) -> String {
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
        notices.push(Notice { place: place.clone(), text: format!("server {name:?} is called {id:?} here") });
    }
    id
}

/// Gemini CLI lists beside the servers which of them it uses.
fn choose(root: &Node, shape: Shape, servers: &mut [Server]) {
    let Some(choice) = root.at("mcp").filter(|_| shape == Shape::Gemini) else { return };
    let names =
        |key: &str| Some(Given { node: choice.at(key)?, field: String::new() }).and_then(|given| given.texts().ok());
    let (allowed, excluded) = (names("allowed"), names("excluded").unwrap_or_default());
    for server in servers {
        let is_allowed = allowed.as_ref().is_none_or(|allowed| allowed.contains(&server.id));
        server.enabled &= is_allowed && !excluded.contains(&server.id);
    }
}

/// opencode writes `{env:VAR}` and `{file:PATH}` where we write `${env:VAR}` and `${file:PATH}`.
fn in_our_words(text: &str) -> String {
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

/// Claude Code keeps servers of single projects in the same file; which of them is meant here nobody can tell.
fn tell_of_projects(root: &Node, notices: &mut Vec<Notice>) {
    for project in root.at("projects").and_then(Node::entries).into_iter().flatten() {
        let servers = project.value.at("mcpServers").and_then(Node::entries).unwrap_or_default();
        if servers.is_empty() {
            continue;
        }
        let names: Vec<&str> = servers.iter().map(|entry| entry.key.as_str()).collect();
        let text = format!("the servers of the project {:?} are left out: {}", project.key, names.join(", "));
        notices.push(Notice { place: project.place.clone(), text });
    }
}
