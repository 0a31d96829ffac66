//! A `toolgate.yaml` made from another client's file.

pub(super) mod write;

use std::path::Path;
use std::sync::Arc;

use super::error::ConfigError;
use super::model::{Config, Notice, Server, Shape};
use super::{document, foreign, shape};

/// A client whose files can be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
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

impl Client {
    /// All clients.
    pub const ALL: [Client; 6] =
        [Client::ClaudeDesktop, Client::ClaudeCode, Client::VsCode, Client::Cursor, Client::Gemini, Client::Codex];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "claude-desktop",
            Client::ClaudeCode => "claude-code",
            Client::VsCode => "vscode",
            Client::Cursor => "cursor",
            Client::Gemini => "gemini",
            Client::Codex => "codex",
        }
    }

    /// The client of this name.
    pub fn named(name: &str) -> Option<Client> {
        Client::ALL.into_iter().find(|client| client.name() == name)
    }

    fn shape(self) -> Shape {
        match self {
            Client::ClaudeDesktop | Client::ClaudeCode | Client::Cursor => Shape::McpServers,
            Client::VsCode => Shape::VsCode,
            Client::Gemini => Shape::Gemini,
            Client::Codex => Shape::Codex,
        }
    }
}

/// What was made of another client's file. Its `Debug` does not show the text, which may hold secrets.
pub struct Imported {
    /// The text of a `toolgate.yaml`.
    pub yaml: String,
    /// What did not come along, or came along changed.
    pub notices: Vec<Notice>,
}

impl std::fmt::Debug for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imported").field("notices", &self.notices).finish_non_exhaustive()
    }
}

/// Makes a `toolgate.yaml` that means the same as the client's file.
pub fn import(client: Client, text: &str, file: &Path) -> Result<Imported, ConfigError> {
    let document = document::read(text, &Arc::from(file))?;
    let mut found = shape::find(&document, file)?;
    match found.shape {
        Shape::Native => {
            let text = "this is a toolgate.yaml already; there is nothing to import";
            return Err(ConfigError::invalid(document.root.place.clone(), text));
        }
        // The same root means different things to different clients; here we are told which one it is.
        Shape::McpServers | Shape::Gemini if client.shape() != Shape::VsCode => found.shape = client.shape(),
        _ => {}
    }
    found.claude_code = client == Client::ClaudeCode && found.shape == Shape::McpServers;
    let (settings, mut servers, mut notices) = foreign::read(&document, &found)?;
    servers.retain(|server| match &server.problem {
        None => true,
        Some(problem) => {
            notices.push(Notice { place: problem.place.clone(), text: left_out(&server.id, &problem.text) });
            false
        }
    });
    servers.iter_mut().for_each(from_this_file);
    let config = Config { file: Some(file.to_path_buf()), shape: found.shape, settings, servers, notices };
    let of_all = foreign::entries_of_all(&document.root, &found).map(|entry| (entry.key.as_str(), &entry.value));
    let yaml = write::yaml(&config, client.name(), of_all);
    Ok(Imported { yaml, notices: config.notices })
}

/// Other clients look for a program in the folder that it is to run in; a path of ours begins at the file.
fn from_this_file(server: &mut Server) {
    let (Some(command), Some(folder)) = (&mut server.command, &server.working_dir) else { return };
    if command.text.contains('/') && !command.text.starts_with(['/', '~', '$', '{']) {
        let within = command.text.trim_start_matches("./");
        command.text = format!("{}/{within}", folder.text.trim_end_matches('/'));
    }
}

fn left_out(id: &str, why: &str) -> String {
    format!("server {id:?} is left out: {why}")
}

#[cfg(test)]
mod tests;
