//! Expands the values of one server or section, and collects the secrets in them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::env_files::{self, EnvFileDigests};
use crate::config::environment::parse_dotenv;
use crate::config::expand::{ExpandError, ExpandRules, ExpandScope, expand, read_text_file, resolve_path};
use crate::config::model::{Config, FilePosition, FileShape, Problem, ServerConfig, TransportKind, UnexpandedText};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;

/// Runs `fill` and returns its result with the secrets it found; `path` is the path of the server in the file.
pub(super) fn resolve_with<T>(
    server: &ServerConfig,
    path: &str,
    config: &Config,
    variables: &Variables,
    session: Option<&str>,
    fill: impl FnOnce(&mut ConfigResolver<'_>) -> Result<T, Problem>,
) -> Result<(T, Secrets), Problem> {
    let folders = base_folders(config.file.as_deref(), variables);
    let scope = ExpandScope { session, ..expand_scope(config, variables, &folders) };
    let mut secrets = Secrets::default();
    let trusted_env_files = config.trusted_env_files.as_ref();
    match fill(&mut ConfigResolver { server, path, scope, trusted_env_files, secrets: &mut secrets }) {
        Ok(filled) => Ok((filled, secrets)),
        // A problem names files, and part of a path may be a secret.
        Err(problem) => Err(Problem { text: secrets.redact(&problem.text).into_owned(), ..problem }),
    }
}

/// Resolves values of a section that is not a server; `path` is the name of the section.
pub(super) fn resolve_section<T>(
    place: &FilePosition,
    path: &str,
    config: &Config,
    variables: &Variables,
    fill: impl FnOnce(&mut ConfigResolver<'_>) -> Result<T, Problem>,
) -> Result<(T, Secrets), Problem> {
    let server = ServerConfig::new("", place.clone(), TransportKind::Stdio);
    resolve_with(&server, path, config, variables, None, fill)
}

/// Resolves a folder, which need not exist yet. Whoever looks for a file in it sees its path, so no part of that is a
/// secret.
pub(super) fn resolve_folder(
    dir: &UnexpandedText,
    path: &str,
    config: &Config,
    variables: &Variables,
) -> Result<PathBuf, Problem> {
    let (folder, _) = resolve_section(&dir.place, path, config, variables, |resolver| {
        let folder = resolver.path(dir)?;
        match folder.exists() && !folder.is_dir() {
            true => Err(resolver.problem(dir, format_args!("{folder:?} is not a folder"))),
            false => Ok(folder),
        }
    })?;
    Ok(folder)
}

/// Runs `fill` with the variables of the server's env file in scope.
pub(super) fn with_env_file<T>(
    resolver: &mut ConfigResolver<'_>,
    fill: impl FnOnce(&mut ConfigResolver<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let env_file = env_file(resolver)?;
    let ConfigResolver { server, path, scope, trusted_env_files, .. } = *resolver;
    fill(&mut ConfigResolver {
        server,
        path,
        trusted_env_files,
        scope: ExpandScope { env_file: &env_file, ..scope },
        secrets: &mut *resolver.secrets,
    })
}

/// Returns the scope of a file's texts, without a session and an env file.
pub(super) fn expand_scope<'a>(
    config: &'a Config,
    variables: &'a Variables,
    folders: &'a (PathBuf, PathBuf),
) -> ExpandScope<'a> {
    static NO_ENV_FILE: BTreeMap<String, String> = BTreeMap::new();
    ExpandScope {
        variables,
        env_file: &NO_ENV_FILE,
        folder: &folders.0,
        workspace: &folders.1,
        inputs: &config.settings.inputs,
        session: None,
        rules: ExpandRules::new(&config.settings),
    }
}

/// Returns the base of relative paths, and the workspace.
///
/// Usually these are the folder of the file and the working directory. Many clients keep their file in a folder of
/// their own within a project and start its servers in the project; then both are the project.
pub(in crate::config) fn base_folders(file: Option<&Path>, variables: &Variables) -> (PathBuf, PathBuf) {
    let working = &variables.workspace;
    let Some(file) = file else { return (working.clone(), working.clone()) };
    let file = working.join(file);
    let folder = file.parent().unwrap_or(working);
    let of_client = WITHIN_PROJECTS.iter().find(|name| folder.ends_with(name));
    match of_client.and_then(|name| folder.ancestors().nth(Path::new(name).components().count())) {
        // The user's own file applies to every project.
        Some(home) if Some(home) == variables.home.as_deref() => (home.to_owned(), working.clone()),
        Some(project) => (project.to_owned(), project.to_owned()),
        None => (folder.to_owned(), working.clone()),
    }
}

fn env_file(resolver: &mut ConfigResolver<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let Some(located) = &resolver.server.env_file else { return Ok(BTreeMap::new()) };
    let path = resolver.path(located)?;
    let text = read_text_file(&path).map_err(|error| resolver.problem(located, error))?;
    if let Some(trusted) = resolver.trusted_env_files {
        env_files::check(trusted, &path, &text).map_err(|why| resolver.problem(located, why))?;
    }
    let in_file = |error| resolver.problem(located, format_args!("file {path:?}: {error}"));
    let variables = parse_dotenv(&text).map_err(in_file)?;
    variables.iter().for_each(|(name, value)| resolver.secrets.add_variable(name, value));
    Ok(variables)
}

/// Returns the path of a server in a file of this format.
pub fn server_path(shape: FileShape, id: &str) -> String {
    let map = match shape {
        FileShape::Native | FileShape::VsCode => "servers.",
        FileShape::McpServers | FileShape::Gemini => "mcpServers.",
        FileShape::Codex | FileShape::Tarsy => "mcp_servers.",
        FileShape::Zed => "context_servers.",
        FileShape::OpenCode => "mcp.",
        FileShape::Bare | FileShape::List => "",
    };
    format!("{map}{id}")
}

/// A server while it is being resolved.
pub(super) struct ConfigResolver<'a> {
    /// The server, or the section as a server without keys.
    pub server: &'a ServerConfig,
    /// The path of the server in the file.
    pub path: &'a str,
    /// The env files as the user trusted them, if the file needs trust.
    pub trusted_env_files: Option<&'a EnvFileDigests>,
    /// The values for placeholders.
    pub scope: ExpandScope<'a>,
    /// The secrets found so far.
    pub secrets: &'a mut Secrets,
}

impl ConfigResolver<'_> {
    pub(super) fn expand(&mut self, text: &UnexpandedText) -> Result<String, ExpandError> {
        expand(&text.text, &self.scope, self.secrets)
    }

    pub(super) fn text(&mut self, located: &UnexpandedText) -> Result<String, Problem> {
        let text = self.expand(located).map_err(|error| self.problem(located, error))?;
        if text.contains('\0') {
            return Err(self.problem(located, "contains a zero byte, which cannot be passed to a program"));
        }
        Ok(text)
    }

    pub(super) fn path(&mut self, located: &UnexpandedText) -> Result<PathBuf, Problem> {
        let text = self.text(located)?;
        if text.is_empty() {
            return Err(self.problem(located, "is empty; name a file or a folder, or leave it out"));
        }
        resolve_path(&text, &self.scope).map_err(|error| self.problem(located, error))
    }

    pub(super) fn optional_path(&mut self, text: Option<&UnexpandedText>) -> Result<Option<PathBuf>, Problem> {
        text.map(|text| self.path(text)).transpose()
    }

    /// Creates a problem about a value.
    pub(super) fn problem(&self, text: &UnexpandedText, reason: impl fmt::Display) -> Problem {
        let field = Some(format!("{}.{}", self.path, text.field));
        Problem { place: text.place.clone(), field, text: reason.to_string() }
    }

    /// Creates a problem about a missing value.
    pub(super) fn missing_problem(&self, text: &str) -> Problem {
        Problem { place: self.server.place.clone(), field: Some(self.path.to_owned()), text: text.to_owned() }
    }

    pub(super) fn max_message_bytes(&self) -> usize {
        usize::try_from(self.server.max_message_bytes).unwrap_or(usize::MAX)
    }
}

/// Folders where clients keep the file of a project. Paths in `.codex/config.toml` start in `.codex`, as Codex
/// documents.
const WITHIN_PROJECTS: [&str; 8] =
    [".vscode", ".cursor", ".gemini", ".roo", ".kiro/settings", ".zed", ".opencode", ".amazonq"];
