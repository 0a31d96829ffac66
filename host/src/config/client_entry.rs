//! Puts toolgate's entry into the file of a client, and leaves the rest of the text as it is.

use std::path::Path;
use std::sync::Arc;

use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Map, Value, json};

use super::document::{self, jsonc};
use super::error::ConfigError;
use super::import::ImportClient;

/// The name of the entry.
pub const ENTRY: &str = "toolgate";

/// The reason why an entry cannot be put into a file.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ConfigError),
    /// The edited text would not mean what it should.
    #[error("{file}: cannot be edited without a change to its other contents; put this into it by hand:\n{entry}")]
    Unsafe {
        /// The file.
        file: String,
        /// The text to put into the file.
        entry: String,
    },
}

/// Returns the text of a client's file with an entry that serves `config`, and without the servers that `remove` names.
/// Comments, order and layout of everything else stay. The text is parsed again to prove that nothing else changed.
pub fn with_entry(
    client: ImportClient,
    text: &str,
    file: &Path,
    config: &Path,
    remove: &[&str],
) -> Result<String, EntryError> {
    let mut expected = read(text, file)?;
    let servers = expected.entry(key(client)).or_insert_with(|| json!({}));
    if servers.is_null() {
        *servers = json!({});
    }
    let hand_made = || EntryError::Unsafe { file: file.display().to_string(), entry: whole(client, config) };
    let servers = servers.as_object_mut().ok_or_else(hand_made)?;
    remove.iter().for_each(|name| drop(servers.remove(*name)));
    let own = entry(client, config).into_iter().map(|(key, value)| (key.to_owned(), value));
    servers.insert(ENTRY.to_owned(), Value::Object(own.collect()));
    let edited = match client {
        _ if text.trim_start_matches('\u{feff}').trim().is_empty() => Some(whole(client, config)),
        ImportClient::Codex => Some(edit_toml(text, config, remove)),
        _ => edit_json(client, text, config, remove),
    };
    let edited = edited.ok_or_else(hand_made)?;
    match read(&edited, file) {
        Ok(found) if found == expected => Ok(edited),
        _ => Err(hand_made()),
    }
}

/// Returns the keys of the entry, in order.
fn entry(client: ImportClient, config: &Path) -> Vec<(&'static str, Value)> {
    let kind = (client == ImportClient::VsCode).then(|| ("type", json!("stdio")));
    let args = json!(["serve", "--config", config.to_string_lossy()]);
    kind.into_iter().chain([("command", json!("toolgate")), ("args", args)]).collect()
}

/// Returns the text of a file with nothing but the entry.
pub fn whole(client: ImportClient, config: &Path) -> String {
    let json = || edit_json(client, "{}\n", config, &[]).expect("an empty map can be edited");
    if client == ImportClient::Codex { toml_table(config) } else { json() }
}

/// The key under which a client keeps its servers.
fn key(client: ImportClient) -> &'static str {
    match client {
        ImportClient::VsCode => "servers",
        ImportClient::Codex => "mcp_servers",
        ImportClient::ClaudeDesktop | ImportClient::ClaudeCode | ImportClient::Cursor | ImportClient::Gemini => {
            "mcpServers"
        }
    }
}

/// Reads what a text means.
fn read(text: &str, file: &Path) -> Result<Map<String, Value>, ConfigError> {
    let document = match document::read(text, &Arc::from(file)) {
        Err(ConfigError::Empty(_)) => return Ok(Map::new()),
        document => document?,
    };
    match document.root.to_json() {
        Value::Object(map) => Ok(map),
        _ => {
            let text = format!("expected a map, found {}", document.root.describe());
            Err(ConfigError::invalid(document.root.place.clone(), text))
        }
    }
}

fn edit_json(client: ImportClient, text: &str, config: &Path, remove: &[&str]) -> Option<String> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = CstRootNode::parse(body, &jsonc::OPTIONS).ok()?;
    let servers = root.object_value_or_create()?.object_value_or_set(key(client));
    for name in remove {
        if let Some(server) = servers.get(name) {
            server.remove();
        }
    }
    let entry = entry(client, config).iter().map(|(key, value)| ((*key).to_owned(), input(value))).collect();
    let entry = CstInputValue::Object(entry);
    match servers.get(ENTRY) {
        Some(server) => server.set_value(entry),
        None => drop(servers.append(ENTRY, entry)),
    }
    Some(format!("{}{root}", &text[..text.len() - body.len()]))
}

/// Returns a value of the entry, which is a text or a list of texts.
fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        text => CstInputValue::String(text.as_str().unwrap_or_default().to_owned()),
    }
}

/// Takes whole tables out of the text, and appends the one of toolgate.
fn edit_toml(text: &str, config: &Path, remove: &[&str]) -> String {
    let mut out = String::new();
    let mut is_removed = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            is_removed = table_of(line).is_some_and(|name| name == ENTRY || remove.contains(&name.as_str()));
        }
        // A comment below a table may be about the next one.
        if !is_removed || line.trim_start().starts_with('#') {
            out.push_str(line);
        }
    }
    if !out.is_empty() {
        out.truncate(out.trim_end().len());
        out.push_str("\n\n");
    }
    out + &toml_table(config)
}

/// Returns the server of a header such as `[mcp_servers.files]` or `[mcp_servers.files.env]`.
fn table_of(header: &str) -> Option<String> {
    let path = header.trim_start().strip_prefix('[')?.rsplit_once(']')?.0;
    let keys = toml_edit::Key::parse(path).ok()?;
    let [top, name, ..] = keys.as_slice() else { return None };
    (top.get() == "mcp_servers").then(|| name.get().to_owned())
}

fn toml_table(config: &Path) -> String {
    // A JSON string is also a TOML string.
    let config = Value::from(config.to_string_lossy());
    format!("[mcp_servers.{ENTRY}]\ncommand = \"toolgate\"\nargs = [\"serve\", \"--config\", {config}]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(client: ImportClient, name: &str, text: &str, remove: &[&str]) -> String {
        with_entry(client, text, Path::new(name), Path::new("/c/toolgate.yaml"), remove).unwrap()
    }

    #[test]
    fn comments_and_layout_of_everything_else_stay() {
        let before = "\u{feff}{\r\n\t// mine\r\n\t\"servers\": {\r\n\t\t\"a\": {\"command\": \"x\"}, // of a\r\n\t\t\"b\": {\"command\": \"y\"},\r\n\t},\r\n\t\"inputs\": []\r\n}\r\n";
        let after = edited(ImportClient::VsCode, "mcp.json", before, &[]);
        assert!(
            after.starts_with(
                "\u{feff}{\r\n\t// mine\r\n\t\"servers\": {\r\n\t\t\"a\": {\"command\": \"x\"}, // of a\r\n"
            )
        );
        assert!(after.ends_with("\t\"inputs\": []\r\n}\r\n") && after.contains("\t\t\"toolgate\": {\r\n"), "{after}");
        assert!(!after.replace("\r\n", "").contains('\n'), "{after}");
        let without = edited(ImportClient::VsCode, "mcp.json", before, &["a", "b"]);
        assert!(!without.contains("command\": \"x") && without.contains("// mine"), "{without}");
        assert_eq!(edited(ImportClient::VsCode, "mcp.json", &after, &[]), after, "a second time changes nothing");
    }

    #[test]
    fn a_file_that_is_new_or_empty_gets_the_entry_alone() {
        for (client, name) in [(ImportClient::Cursor, "mcp.json"), (ImportClient::Codex, "config.toml")] {
            let text = edited(client, name, "", &[]);
            assert_eq!(edited(client, name, " \n", &[]), text);
            assert_eq!(edited(client, name, &text, &[]), text);
        }
        assert!(edited(ImportClient::Gemini, "settings.json", "{}", &[]).contains("mcpServers"));
        assert!(edited(ImportClient::Gemini, "settings.json", "{\"mcpServers\": null}", &[]).contains("toolgate"));
    }

    #[test]
    fn tables_of_codex_go_whole() {
        let before = "model = \"m\" # mine\n\n[mcp_servers.\"a b\"]\ncommand = \"x\"\nargs = [\"[y]\"]\n[mcp_servers.\"a b\".env]\nK = \"v\"\n# of c\n[mcp_servers.c]\ncommand = \"z\"\n[tui]\nx = 1\n";
        let after = edited(ImportClient::Codex, "config.toml", before, &["a b"]);
        assert!(after.starts_with("model = \"m\" # mine\n\n# of c\n[mcp_servers.c]\ncommand = \"z\"\n[tui]\nx = 1\n\n[mcp_servers.toolgate]\n"), "{after}");
    }

    #[test]
    fn what_cannot_be_edited_safely_is_left_to_a_person() {
        for (client, name, text) in [
            (ImportClient::Codex, "config.toml", "mcp_servers = {a = {command = \"x\"}}\n"),
            (ImportClient::Codex, "config.toml", "x = '''\n[mcp_servers.toolgate]\n'''\n"),
            (ImportClient::Cursor, "mcp.json", "{\"mcpServers\": [1]}"),
            (ImportClient::Cursor, "mcp.json", "{\"mcpServers\": {}, \"mcpServers\": {\"a\": {}}}"),
        ] {
            let error = with_entry(client, text, Path::new(name), Path::new("/c"), &[]).unwrap_err();
            assert!(matches!(error, EntryError::Unsafe { .. }), "{text}: {error}");
        }
    }
}
