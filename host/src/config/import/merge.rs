//! Merges the servers of several clients' files into one `toolgate.yaml`.

use std::path::Path;
use std::sync::Arc;

use super::super::client_files::{ClientFile, ClientScope};
use super::super::command::serves_file;
use super::super::document::{self, ConfigDocument, Node};
use super::super::error::ConfigError;
use super::super::foreign;
use super::super::model::{ConfigInput, Notice, ServerAuth, ServerConfig, TransportKind, UnexpandedText};
use super::super::resolve::base_folders;
use super::super::shape::ROOTS;
use super::super::variables::Variables;
use super::{ImportClient, rebase_command, write};

/// The servers of one file of a client. `Debug` shows no value that may be a secret.
#[derive(Debug)]
pub struct ClientServers {
    /// The usable servers, in the order of the file.
    pub servers: Vec<ClientServer>,
    /// Notices about what was skipped or changed.
    pub notices: Vec<Notice>,
    inputs: Vec<ConfigInput>,
}

/// One server of a client's file.
#[derive(Debug)]
pub struct ClientServer {
    /// The name in the file.
    pub name: String,
    /// Whether `mcpServers` or its like at the top of the file has the server, and not the section of a project.
    pub is_top: bool,
    /// The server, whose relative paths have become absolute.
    pub server: ServerConfig,
    /// What the file says of the server, for comparison; a second file may say the same.
    definition: String,
}

impl ClientServer {
    /// Reports whether a configured server can take the place of this one.
    pub fn is_same(&self, configured: &ServerConfig) -> bool {
        let definition = enabled_definition(configured);
        let is_usable = configured.problem.is_none() && (configured.enabled || !self.server.enabled);
        is_usable && (definition == self.definition || definition == enabled_definition(&self.server))
    }
}

/// Reads the servers of a client's file. A server that serves `own`, the configuration to write, is left out. A file of
/// general settings need not have any server.
pub fn read_servers(
    file: &ClientFile,
    text: &str,
    own: &Path,
    variables: &Variables,
) -> Result<ClientServers, ConfigError> {
    let mut all = ClientServers { servers: Vec::new(), notices: Vec::new(), inputs: Vec::new() };
    let document = match document::read(text, &Arc::from(&*file.path)) {
        Err(ConfigError::Empty(_)) => return Ok(all),
        document => document?,
    };
    let (base, workspace) = base_folders(Some(&file.path), variables);
    let project = (file.scope == ClientScope::Project).then_some(&*workspace);
    if has_servers(&document.root) {
        add_servers(&mut all, file, &document, &base, project)?;
    }
    all.servers.iter_mut().for_each(|server| server.is_top = true);
    if let Some(entry) = own_project(file, &document.root, variables) {
        all.notices.retain(|notice| notice.place != entry.place);
        let root = entry.value.clone();
        let document = ConfigDocument { root, format: document.format, faults: Vec::new() };
        add_servers(&mut all, file, &document, &workspace, Some(&workspace))?;
    }
    all.servers.retain(|server| !serves_file(&server.server, own));
    Ok(all)
}

/// Reports whether a file has a key under which any client keeps servers.
fn has_servers(root: &Node) -> bool {
    let mcp = root.at("mcp").is_some_and(|mcp| mcp.at("servers").or(mcp.at("mcpServers")).is_some());
    mcp || root.entries().is_none() || ROOTS.iter().any(|key| *key != "mcp" && root.at(key).is_some())
}

/// Returns the part of Claude Code's own file with the servers of the project in the working directory.
fn own_project<'n>(file: &ClientFile, root: &'n Node, variables: &Variables) -> Option<&'n document::MapEntry> {
    let projects = root.at("projects").filter(|_| file.client == ImportClient::ClaudeCode)?;
    let project = projects.entries()?.iter().find(|entry| Path::new(&entry.key) == variables.workspace)?;
    project.value.at("mcpServers").and_then(Node::entries).filter(|servers| !servers.is_empty())?;
    Some(project)
}

fn add_servers(
    all: &mut ClientServers,
    file: &ClientFile,
    document: &ConfigDocument,
    base: &Path,
    project: Option<&Path>,
) -> Result<(), ConfigError> {
    let (found, settings, servers, notices) = super::read(file.client, document, &file.path)?;
    let own: Vec<&str> = foreign::settings_entries(&document.root, &found).map(|entry| entry.key.as_str()).collect();
    if !own.is_empty() {
        // Rules for the servers of one file must not apply to those of others, nor be lost.
        let text = format!(
            "this file has toolgate's own settings ({}); convert it alone with `toolgate import --from {}`",
            own.join(", "),
            file.client.name()
        );
        return Err(ConfigError::invalid(document.root.place.clone(), text));
    }
    let names = found.servers.entries().unwrap_or_default();
    for mut server in servers {
        let name =
            names.iter().find(|entry| entry.place == server.place).map_or(&server.id, |entry| &entry.key).clone();
        if settings.bare_dollar {
            server.texts().into_iter().for_each(|text| text.text = write::brace(&text.text));
        }
        make_absolute(&mut server, base);
        if let Some(project) = project {
            let folder = project.to_string_lossy();
            server.texts().into_iter().for_each(|text| text.text = text.text.replace(WORKSPACE, &folder));
        }
        let definition = enabled_definition(&server);
        if let (Some(project), None, TransportKind::Stdio) = (project, &server.working_dir, server.kind) {
            let field = "working_dir".to_owned();
            let text = project.to_string_lossy().into_owned();
            server.working_dir = Some(UnexpandedText { text, place: server.place.clone(), field });
        }
        rebase_command(&mut server);
        all.servers.push(ClientServer { name, is_top: false, server, definition });
    }
    all.notices.extend(notices);
    all.inputs.extend(settings.inputs);
    Ok(())
}

/// Returns what a server is, whether or not it is enabled.
fn enabled_definition(server: &ServerConfig) -> String {
    write::definition(&ServerConfig { enabled: true, ..server.clone() })
}

/// Makes the relative paths of a server absolute, since the new file is in another folder.
fn make_absolute(server: &mut ServerConfig, base: &Path) {
    let is_relative_program =
        server.working_dir.is_none() && server.command.as_ref().is_some_and(|command| command.text.contains('/'));
    let tls = &mut server.tls;
    let mut paths = vec![&mut server.env_file, &mut server.working_dir];
    paths.extend([&mut tls.ca, &mut tls.client_certificate, &mut tls.client_key]);
    if let ServerAuth::OAuth(oauth) = &mut server.auth {
        paths.push(&mut oauth.private_key);
    }
    if is_relative_program {
        paths.push(&mut server.command);
    }
    for path in paths.into_iter().flatten() {
        if !path.text.is_empty() && !path.text.starts_with(['/', '~', '$', '{']) {
            let joined: std::path::PathBuf = base.join(&path.text).components().collect();
            path.text = joined.to_string_lossy().into_owned();
        }
    }
}

/// What became of a server in the merged configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The server has the id that its file gives it.
    Added(String),
    /// Another server has its id, so it has this one.
    Renamed(String),
    /// The server of another file with this id is the same.
    Same(String),
}

/// The servers of several files, which become one configuration. `Debug` shows no value that may be a secret.
#[derive(Debug, Default)]
pub struct Merge {
    inputs: Vec<ConfigInput>,
    servers: Vec<MergedServer>,
    /// The number of files so far.
    files: usize,
}

#[derive(Debug)]
struct MergedServer {
    server: ServerConfig,
    definition: String,
    file: usize,
    comment: String,
}

impl Merge {
    /// Adds the servers of a file, disabled if the user does not trust the file, and says what became of each.
    pub fn add(&mut self, file: &ClientFile, found: &ClientServers, trusted: bool) -> Vec<Merged> {
        self.files += 1;
        let renamed = self.add_inputs(&found.inputs);
        let mut outcomes = Vec::new();
        for ClientServer { server, definition, .. } in &found.servers {
            let (mut server, mut definition) = (server.clone(), definition.clone());
            for (from, to) in &renamed {
                let rename = |text: &str| text.replace(&input_hole(from), &input_hole(to));
                server.texts().into_iter().for_each(|text| text.text = rename(&text.text));
                definition = rename(&definition);
            }
            let same = |other: &&mut MergedServer| other.file != self.files && other.definition == definition;
            if let Some(other) = self.servers.iter_mut().find(same) {
                other.server.enabled |= server.enabled && trusted;
                outcomes.push(Merged::Same(other.server.id.clone()));
                continue;
            }
            let id = self.free_id(&server.id, file.client.name());
            let outcome = if id == server.id { Merged::Added } else { Merged::Renamed };
            outcomes.push(outcome(id.clone()));
            server.id = id;
            server.enabled &= trusted;
            let shown = file.path.display();
            let comment = match trusted {
                true => format!("from {shown}"),
                false => format!("from {shown}, which you had not trusted: look at the server before you enable it"),
            };
            self.servers.push(MergedServer { server, definition, file: self.files, comment });
        }
        outcomes
    }

    /// Returns the text of the configuration, and where it has secrets in plain text.
    pub fn write(&self) -> (String, Vec<String>) {
        let servers: Vec<_> = self.servers.iter().map(|one| (one.comment.clone(), one.server.clone())).collect();
        let write::MergedYaml { yaml, secrets } = write::merged(&self.inputs, &servers);
        (yaml, secrets)
    }

    /// Returns the ids of all servers, in order.
    pub fn ids(&self) -> Vec<&str> {
        self.servers.iter().map(|one| one.server.id.as_str()).collect()
    }

    /// Returns the id, or else one that says which client the server is from.
    fn free_id(&self, id: &str, client: &str) -> String {
        let is_free = |id: &String| self.servers.iter().all(|one| one.server.id != *id);
        let numbered = (2..).map(|number| format!("{id}-{client}-{number}"));
        let mut ids = [id.to_owned(), format!("{id}-{client}")].into_iter().chain(numbered);
        ids.find(is_free).expect("the numbers do not end")
    }

    /// Adds inputs, and returns those that have another id now, because a different one has theirs.
    fn add_inputs(&mut self, inputs: &[ConfigInput]) -> Vec<(String, String)> {
        let mut renamed = Vec::new();
        for input in inputs {
            match self.inputs.iter().find(|other| other.id == input.id) {
                Some(same) if same == input => {}
                None => self.inputs.push(input.clone()),
                Some(_) => {
                    let mut ids = (2..).map(|number| format!("{}-{number}", input.id));
                    let is_free = |id: &String| self.inputs.iter().chain(inputs).all(|other| other.id != *id);
                    let id = ids.find(is_free).expect("the numbers do not end");
                    renamed.push((input.id.clone(), id.clone()));
                    self.inputs.push(ConfigInput { id, ..input.clone() });
                }
            }
        }
        renamed
    }
}

fn input_hole(id: &str) -> String {
    format!("${{input:{id}}}")
}

/// Means the project of the file, and not the folder where toolgate starts.
const WORKSPACE: &str = "${workspaceFolder}";
