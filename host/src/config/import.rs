//! Converts another client's file to a `toolgate.yaml`.

pub mod merge;
pub(super) mod write;

use std::path::Path;
use std::sync::Arc;

use super::document::ConfigDocument;
use super::error::ConfigError;
use super::model::{Config, FileShape, Notice, ServerConfig, Settings};
use super::section::name_of;
use super::shape::ServersSection;
use super::{document, foreign, shape};

/// A client whose files can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportClient {
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Claude Code: `.mcp.json` and `~/.claude.json`.
    ClaudeCode,
    /// VS Code: `.vscode/mcp.json` and its settings.
    VsCode,
    /// Cursor: `.cursor/mcp.json`.
    Cursor,
    /// Gemini CLI: `.gemini/settings.json`.
    Gemini,
    /// Codex: `~/.codex/config.toml`.
    Codex,
}

impl ImportClient {
    /// All clients with their names on the command line.
    pub const ALL: [(&'static str, ImportClient); 6] = [
        ("claude-desktop", ImportClient::ClaudeDesktop),
        ("claude-code", ImportClient::ClaudeCode),
        ("vscode", ImportClient::VsCode),
        ("cursor", ImportClient::Cursor),
        ("gemini", ImportClient::Gemini),
        ("codex", ImportClient::Codex),
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        name_of(&ImportClient::ALL, self)
    }

    /// Returns the name as its maker writes it.
    pub fn title(self) -> &'static str {
        match self {
            ImportClient::ClaudeDesktop => "Claude Desktop",
            ImportClient::ClaudeCode => "Claude Code",
            ImportClient::VsCode => "VS Code",
            ImportClient::Cursor => "Cursor",
            ImportClient::Gemini => "Gemini CLI",
            ImportClient::Codex => "Codex",
        }
    }

    /// Returns the client with this name.
    pub fn from_name(name: &str) -> Option<ImportClient> {
        ImportClient::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, client)| client)
    }

    fn shape(self) -> FileShape {
        match self {
            ImportClient::ClaudeDesktop | ImportClient::ClaudeCode | ImportClient::Cursor => FileShape::McpServers,
            ImportClient::VsCode => FileShape::VsCode,
            ImportClient::Gemini => FileShape::Gemini,
            ImportClient::Codex => FileShape::Codex,
        }
    }
}

/// The result of an import. `Debug` does not show the text, which may contain secrets.
pub struct ImportedConfig {
    /// The text of a `toolgate.yaml`.
    pub yaml: String,
    /// Whether none of the servers could be imported.
    pub is_empty: bool,
    /// Notices about what was skipped or changed.
    pub notices: Vec<Notice>,
}

impl std::fmt::Debug for ImportedConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportedConfig").field("notices", &self.notices).finish_non_exhaustive()
    }
}

/// Converts a client's file to an equivalent `toolgate.yaml`.
pub fn import(client: ImportClient, text: &str, file: &Path) -> Result<ImportedConfig, ConfigError> {
    let document = document::read(text, &Arc::from(file))?;
    let (found, settings, mut servers, notices) = read(client, &document, file)?;
    servers.iter_mut().for_each(rebase_command);
    let config = Config {
        file: Some(file.to_path_buf()),
        shape: found.shape,
        settings,
        servers,
        notices,
        digest: None,
        trusted_env_files: None,
    };
    let of_all = foreign::settings_entries(&document.root, &found).map(|entry| (entry.key.as_str(), &entry.value));
    let yaml = write::yaml(&config, client.name(), of_all);
    Ok(ImportedConfig { yaml, is_empty: config.servers.is_empty(), notices: config.notices })
}

/// Reads the settings and the usable servers of a client's file, with notices about the others.
fn read<'n>(
    client: ImportClient,
    document: &'n ConfigDocument,
    file: &Path,
) -> Result<(ServersSection<'n>, Settings, Vec<ServerConfig>, Vec<Notice>), ConfigError> {
    let mut found = shape::find_servers(document, file)?;
    match found.shape {
        FileShape::Native => {
            let text = "this is a toolgate.yaml already; there is nothing to import";
            return Err(ConfigError::invalid(document.root.place.clone(), text));
        }
        // The same top-level key means different things to different clients; here the caller says which client it is.
        FileShape::McpServers | FileShape::Gemini if client.shape() != FileShape::VsCode => {
            found.shape = client.shape()
        }
        _ => {}
    }
    found.claude_code = client == ImportClient::ClaudeCode && found.shape == FileShape::McpServers;
    let (settings, mut servers, mut notices) = foreign::read(document, &found)?;
    servers.retain(|server| match &server.problem {
        None => true,
        Some(problem) => {
            notices.push(Notice { place: problem.place.clone(), text: left_out(&server.id, &problem.text) });
            false
        }
    });
    Ok((found, settings, servers, notices))
}

/// Returns the paths of the values of servers that are secrets in plain text, such as `servers.tickets.env.API_KEY`.
pub fn plain_secrets(config: &Config) -> Vec<String> {
    let servers: Vec<_> = config.servers.iter().map(|server| (String::new(), server.clone())).collect();
    write::merged(&[], &servers).secrets
}

/// Rebases a relative program: other clients resolve it in the working directory, toolgate in the folder of the file.
fn rebase_command(server: &mut ServerConfig) {
    let (Some(command), Some(folder)) = (&mut server.command, &server.working_dir) else { return };
    if command.text.contains('/') && !command.text.starts_with(['/', '~', '$', '{']) {
        let within = command.text.trim_start_matches("./");
        command.text = format!("{}/{within}", folder.text.trim_end_matches('/'));
    }
}

fn left_out(id: &str, why: &str) -> String {
    format!("server {id:?} is skipped: {why}")
}

#[cfg(test)]
mod tests;
