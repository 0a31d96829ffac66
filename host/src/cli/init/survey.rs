//! The files of clients on this machine, and the servers in them.

use std::io;
use std::path::Path;

use crate::config;
use crate::config::ConfigError;
use crate::config::client_files::{ClientFile, ClientScope, client_files};
use crate::config::import::merge::{ClientServers, Merge, Merged, read_servers};
use crate::config::resolve::env_file_digests;
use crate::config::search::{self, SearchResult};
use crate::config::trust::TrustStore;
use crate::config::variables::Variables;
use serde::Serialize;

use super::style;

/// The servers of all clients.
pub(super) struct Survey {
    /// The files that exist.
    pub files: Vec<FileReport>,
    /// The servers of all files.
    pub merge: Merge,
}

/// What a client's file has.
#[derive(Serialize)]
pub(super) struct FileReport {
    file: String,
    client: &'static str,
    #[serde(skip)]
    title: &'static str,
    /// Whether the file is the working directory's, and not the user's.
    project: bool,
    /// Whether servers of the file may be enabled.
    trusted: bool,
    /// Why the file cannot be read.
    error: Option<String>,
    /// What was skipped or changed.
    pub notices: Vec<String>,
    servers: Vec<ServerReport>,
}

#[derive(Serialize)]
struct ServerReport {
    /// The name in the client's file.
    name: String,
    /// The id in the configuration.
    id: String,
    transport: &'static str,
    /// Whether a server of another file is the same.
    same: bool,
    enabled: bool,
    #[serde(skip)]
    remark: String,
}

impl Survey {
    /// Reads the files of all clients. A server that serves `out`, the configuration to write, is not one of them.
    pub(super) fn new(out: &Path, variables: &Variables) -> Self {
        let mut survey = Survey { files: Vec::new(), merge: Merge::default() };
        for file in client_files(variables) {
            if let Some(found) = read(&file, out, variables) {
                survey.add(&file, found, variables);
            }
        }
        survey
    }

    fn add(&mut self, file: &ClientFile, found: Result<(String, ClientServers), ConfigError>, variables: &Variables) {
        let mut report = FileReport {
            file: file.path.display().to_string(),
            client: file.client.name(),
            title: file.client.title(),
            project: file.scope == ClientScope::Project,
            trusted: true,
            error: None,
            notices: Vec::new(),
            servers: Vec::new(),
        };
        match found {
            Err(error) => report.error = Some(error.to_string()),
            Ok((text, found)) => {
                report.trusted = !report.project || is_trusted(&file.path, &text, variables);
                report.notices = found.notices.iter().map(ToString::to_string).collect();
                let outcomes = self.merge.add(file, &found, report.trusted);
                let rows = found.servers.iter().zip(outcomes);
                report.servers = rows
                    .map(|(server, outcome)| {
                        let (id, same, remark) = match outcome {
                            Merged::Added(id) if id == server.name => (id, false, String::new()),
                            Merged::Added(id) => (id.clone(), false, format!("called {id} here")),
                            Merged::Renamed(id) => (
                                id.clone(),
                                false,
                                format!("called {id} here, because another {} is above", server.server.id),
                            ),
                            Merged::Same(id) => (id.clone(), true, format!("the same as {id} above")),
                        };
                        let transport = server.server.kind.name();
                        let enabled = server.server.enabled && report.trusted;
                        ServerReport { name: server.name.clone(), id, transport, same, enabled, remark }
                    })
                    .collect();
            }
        }
        self.files.push(report);
    }

    /// Lists the files and their servers for people.
    pub(super) fn describe(&self) -> String {
        let style = style::stdout();
        let mut text = String::new();
        for file in &self.files {
            text += &format!("{}  {}\n", style.bold(file.title), style::clean(&file.file).replace('\n', " "));
            if let Some(error) = &file.error {
                text +=
                    &format!("  {} {}\n", style.red("cannot be read:"), style::clean(error).replace('\n', "\n    | "));
            } else if file.servers.is_empty() {
                text += &format!("  {}\n", style.dim("no servers"));
            }
            let width = file.servers.iter().map(|server| server.name.chars().count()).max().unwrap_or_default();
            for server in &file.servers {
                let name = style::clean(&server.name).replace('\n', " ");
                let disabled = if server.enabled || !file.trusted { "" } else { "disabled" };
                let remarks: Vec<_> =
                    [&*server.remark, disabled].into_iter().filter(|remark| !remark.is_empty()).collect();
                let line = format!("  {name:width$}  {:9}  {}", server.transport, style::clean(&remarks.join("; ")));
                text += line.trim_end();
                text.push('\n');
            }
            if !file.trusted && !file.servers.is_empty() {
                let path = style::clean(&file.file).replace('\n', " ");
                text += &format!(
                    "  {} it came with this folder and can start programs, so its servers are disabled; look at it, \
                     then run `toolgate trust {path}` and `toolgate init --force`\n",
                    style.yellow("not trusted:")
                );
            }
        }
        text
    }

    /// Says that no server was found, and where servers could be.
    pub(super) fn describe_nothing(&self, variables: &Variables) -> String {
        let looked: Vec<_> = client_files(variables)
            .iter()
            .map(|file| format!("  {}: {}", file.client.title(), file.path.display()))
            .collect();
        let used = match search::find(None, variables) {
            Ok(SearchResult::File { path, .. }) => {
                format!("; commands use {} as it is, such as `toolgate check`", path.display())
            }
            _ => String::new(),
        };
        format!(
            "no server of an MCP client was found{used}; write a toolgate.yaml, or convert a file from elsewhere with \
             `toolgate import --from CLIENT FILE`. The places:\n{}",
            looked.join("\n")
        )
    }
}

/// Reads a file of a client; `None` if it does not exist.
fn read(file: &ClientFile, out: &Path, variables: &Variables) -> Option<Result<(String, ClientServers), ConfigError>> {
    let text = match config::read_text(&file.path) {
        Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => return None,
        // A file where a folder is expected means that the client's file does not exist either.
        Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => return None,
        Err(error) => return Some(Err(error)),
        Ok(text) => text,
    };
    Some(read_servers(file, &text, out, variables).map(|found| (text, found)))
}

/// Reports whether the user trusts a file as it is now, with its env files.
fn is_trusted(file: &Path, text: &str, variables: &Variables) -> bool {
    let config = config::parse(text, file);
    let env_files = config.map(|config| env_file_digests(&config, variables)).unwrap_or_default();
    TrustStore::user(variables).is_trusted(file, text.as_bytes(), &env_files)
}
