//! Makes of a server as it is written one that can be reached: everything filled in, checked and put in its place.

mod gateway;
mod known;
mod oauth;
mod program;
mod record;
mod results;
mod shadow;
mod site;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::environment::parse_dotenv;
use super::expand::{ExpandError, ExpandRules, ExpandScope, expand, read_text_file, resolve_path};
use super::model::{Config, FileShape, Problem, ServerConfig, TransportKind, UnexpandedText};
use super::secrets::Secrets;
use super::variables::Variables;
use crate::transport::endpoint::Endpoint;
pub use gateway::{ResolvedGateway, ResolvedToken, check_tokens, resolve_gateway};
pub use known::known_secrets;
pub use oauth::{ResolvedOAuth, resolve_oauth};
pub use record::resolve_record_dir;
pub use results::{ResolvedSpill, ResolvedSummarizer, ResolvedSummarizerKind, resolve_spill, resolve_summarizer};
pub use shadow::{ResolvedShadow, resolve_shadow};

/// Fills in everything about the server. `session` is what `{{.SESSION_ID}}` stands for.
pub fn resolve(
    server: &ServerConfig,
    config: &Config,
    variables: &Variables,
    session: Option<&str>,
) -> Result<Endpoint, Problem> {
    if let Some(problem) = &server.problem {
        return Err(problem.clone());
    }
    let path = server_path(config.shape, &server.id);
    let (endpoint, secrets) =
        resolve_with(server, &path, config, variables, session, |resolver| endpoint(resolver, config))?;
    Ok(endpoint.with_secrets(secrets))
}

/// What is filled in, and what must not be seen of it. `path` is where the file has what the server stands for.
fn resolve_with<T>(
    server: &ServerConfig,
    path: &str,
    config: &Config,
    variables: &Variables,
    session: Option<&str>,
    fill: impl FnOnce(&mut ConfigResolver<'_>) -> Result<T, Problem>,
) -> Result<(T, Secrets), Problem> {
    let (folder, workspace) = base_folders(config, variables);
    let settings = &config.settings;
    let scope = ExpandScope {
        variables,
        env_file: &BTreeMap::new(),
        folder: &folder,
        workspace: &workspace,
        inputs: &settings.inputs,
        session,
        rules: ExpandRules { commands: settings.allow_commands, bare_dollar: settings.bare_dollar },
    };
    let mut secrets = Secrets::default();
    match fill(&mut ConfigResolver { server, path, scope, secrets: &mut secrets }) {
        Ok(filled) => Ok((filled, secrets)),
        // A problem names files, and a part of a path may be a secret.
        Err(problem) => Err(Problem { text: secrets.redact(&problem.text).into_owned(), ..problem }),
    }
}

fn endpoint(resolver: &mut ConfigResolver<'_>, config: &Config) -> Result<Endpoint, Problem> {
    with_env_file(resolver, |resolver| match resolver.server.kind {
        TransportKind::Stdio => program::resolve_program(resolver, config).map(Endpoint::Stdio),
        TransportKind::Http => site::resolve_site(resolver).map(Endpoint::Http),
        TransportKind::Sse => site::resolve_site(resolver).map(Endpoint::Sse),
        TransportKind::WebSocket => site::resolve_site(resolver).map(Endpoint::WebSocket),
    })
}

/// Fills in with what the server's file of variables has, too.
fn with_env_file<T>(
    resolver: &mut ConfigResolver<'_>,
    fill: impl FnOnce(&mut ConfigResolver<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let env_file = env_file(resolver)?;
    let ConfigResolver { server, path, scope, .. } = *resolver;
    fill(&mut ConfigResolver {
        server,
        path,
        scope: ExpandScope { env_file: &env_file, ..scope },
        secrets: &mut *resolver.secrets,
    })
}

/// What relative paths begin at, and the workspace.
///
/// That is the folder of the file, and where we work. Many clients keep their file in a folder of their own within a
/// project, and start its servers in the project; there both are the project.
fn base_folders(config: &Config, variables: &Variables) -> (PathBuf, PathBuf) {
    let working = &variables.workspace;
    let Some(file) = &config.file else { return (working.clone(), working.clone()) };
    let file = working.join(file);
    let folder = file.parent().unwrap_or(working);
    let of_client = WITHIN_PROJECTS.iter().find(|name| folder.ends_with(name));
    match of_client.and_then(|name| folder.ancestors().nth(Path::new(name).components().count())) {
        // The user's own file serves every project.
        Some(home) if Some(home) == variables.home.as_deref() => (home.to_owned(), working.clone()),
        Some(project) => (project.to_owned(), project.to_owned()),
        None => (folder.to_owned(), working.clone()),
    }
}

/// Where a file of this shape has the server.
pub fn server_path(shape: FileShape, id: &str) -> String {
    let map = match shape {
        FileShape::Native | FileShape::VsCode => "servers.",
        FileShape::McpServers | FileShape::Gemini => "mcpServers.",
        FileShape::Codex => "mcp_servers.",
        FileShape::Zed => "context_servers.",
        FileShape::OpenCode => "mcp.",
        FileShape::Bare | FileShape::List => "",
    };
    format!("{map}{id}")
}

fn env_file(resolver: &mut ConfigResolver<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let Some(located) = &resolver.server.env_file else { return Ok(BTreeMap::new()) };
    let path = resolver.path(located)?;
    let text = read_text_file(&path).map_err(|error| resolver.problem(located, error))?;
    let in_file = |error| resolver.problem(located, format_args!("file {path:?}: {error}"));
    let variables = parse_dotenv(&text).map_err(in_file)?;
    variables.iter().for_each(|(name, value)| resolver.secrets.add_variable(name, value));
    Ok(variables)
}

/// A server while it is filled in.
struct ConfigResolver<'a> {
    server: &'a ServerConfig,
    path: &'a str,
    scope: ExpandScope<'a>,
    secrets: &'a mut Secrets,
}

impl ConfigResolver<'_> {
    fn expand(&mut self, text: &UnexpandedText) -> Result<String, ExpandError> {
        expand(&text.text, &self.scope, self.secrets)
    }

    fn text(&mut self, located: &UnexpandedText) -> Result<String, Problem> {
        let text = self.expand(located).map_err(|error| self.problem(located, error))?;
        if text.contains('\0') {
            return Err(self.problem(located, "has a zero byte in it, which no program can be given"));
        }
        Ok(text)
    }

    fn path(&mut self, located: &UnexpandedText) -> Result<PathBuf, Problem> {
        let text = self.text(located)?;
        if text.is_empty() {
            return Err(self.problem(located, "is empty; name a file or a folder, or leave it out"));
        }
        resolve_path(&text, &self.scope).map_err(|error| self.problem(located, error))
    }

    fn optional_path(&mut self, text: Option<&UnexpandedText>) -> Result<Option<PathBuf>, Problem> {
        text.map(|text| self.path(text)).transpose()
    }

    /// A problem with what stands there.
    fn problem(&self, text: &UnexpandedText, reason: impl fmt::Display) -> Problem {
        let field = Some(format!("{}.{}", self.path, text.field));
        Problem { place: text.place.clone(), field, text: reason.to_string() }
    }

    /// A problem with something that does not stand there.
    fn missing_problem(&self, text: &str) -> Problem {
        Problem { place: self.server.place.clone(), field: Some(self.path.to_owned()), text: text.to_owned() }
    }

    fn max_message_bytes(&self) -> usize {
        usize::try_from(self.server.max_message_bytes).unwrap_or(usize::MAX)
    }
}

/// Whether the text is a path and no name of a program to look for.
fn is_path(text: &str) -> bool {
    text.contains('/') || (cfg!(windows) && text.contains('\\')) || Path::new(text).is_absolute()
}

/// Where clients keep the file of a project. Paths in `.codex/config.toml` begin in `.codex`, as its documentation has it.
const WITHIN_PROJECTS: [&str; 8] =
    [".vscode", ".cursor", ".gemini", ".roo", ".kiro/settings", ".zed", ".opencode", ".amazonq"];
