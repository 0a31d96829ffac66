//! Expands `${VAR}`, `{{.VAR}}`, `${file:PATH}` and similar placeholders.
//!
//! A text is expanded once, and inserted values are never expanded again: a secret that contains `$` or `{{` survives.

mod command;
mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::model::{ConfigInput, Settings};
use super::secrets::Secrets;
use super::variables::Variables;
use crate::ownership;
use command::MAX_BYTES;
use template::{TemplatePart, TextTemplate, ValueSource};

/// Optional forms that a file may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpandRules {
    /// Whether `${cmd:…}` runs a command.
    pub commands: bool,
    /// Whether `$VAR` without braces is a variable too.
    pub bare_dollar: bool,
}

impl ExpandRules {
    /// Returns what the settings of a file allow.
    pub fn new(settings: &Settings) -> Self {
        ExpandRules { commands: settings.allow_commands, bare_dollar: settings.bare_dollar }
    }
}

/// The values for the placeholders of a text.
#[derive(Debug, Clone, Copy)]
pub struct ExpandScope<'a> {
    /// The environment, the home folder and the prompter.
    pub variables: &'a Variables,
    /// Variables of the server's env file, which override the environment.
    pub env_file: &'a BTreeMap<String, String>,
    /// The base of relative paths, and the folder in which commands run.
    pub folder: &'a Path,
    /// The value of `${workspaceFolder}`.
    pub workspace: &'a Path,
    /// The inputs that the file declares.
    pub inputs: &'a [ConfigInput],
    /// The value of `{{.SESSION_ID}}`.
    pub session: Option<&'a str>,
    /// The optional forms that the file may use.
    pub rules: ExpandRules,
}

/// The reason why a text cannot be expanded. No case shows an expanded value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The text is malformed.
    #[error("at character {column}: {text}")]
    Malformed {
        /// The position in the text, in characters from 1.
        column: usize,
        /// What is wrong, and how to fix it.
        text: String,
    },
    /// A variable is not set and has no default.
    #[error("variable {0:?} is not set; export it or write ${{{0}:-default}}")]
    Unset(String),
    /// The text needs a session and there is none.
    #[error("{{{{.SESSION_ID}}}} is known only within a session; outside one, use it only in a header")]
    NoSession,
    /// The input has no answer.
    #[error("input {id:?} is not given; set {variable}")]
    NoInput {
        /// The input.
        id: String,
        /// The variable that can provide the answer.
        variable: String,
    },
    /// The answer is not one of the options.
    #[error("input {id:?} must be one of: {}", options.join(", "))]
    NoOption {
        /// The input.
        id: String,
        /// The options.
        options: Vec<String>,
    },
    /// The home folder is unknown.
    #[error("the home folder is not known; set HOME")]
    NoHome,
    /// A file cannot be used.
    #[error("file {path:?}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file may not run commands.
    #[error("${{cmd:…}} runs a command, which this file does not allow; set allow_commands: true in toolgate.yaml")]
    CommandsNotAllowed,
    /// A command failed. Its output is not shown, because it may be the secret.
    #[error("the command of ${{cmd:…}} {0}")]
    Command(String),
}

/// Expands a text. Inserted values that may be secret are added to `secrets`, even if this fails.
pub fn expand(text: &str, scope: &ExpandScope<'_>, secrets: &mut Secrets) -> Result<String, ExpandError> {
    let template = template::parse(text, scope.rules.bare_dollar).map_err(|malformed| ExpandError::Malformed {
        column: text[..malformed.at].chars().count() + 1,
        text: malformed.text,
    })?;
    fill_or(&template, scope, secrets, Err)
}

/// Expands what this scope can provide and leaves a hole for the rest, to find as many secrets as possible. Inserted
/// values that may be secret are added to `secrets`; a malformed text is returned unchanged.
pub(super) fn expand_partly(text: &str, scope: &ExpandScope<'_>, secrets: &mut Secrets) -> String {
    let Ok(template) = template::parse(text, scope.rules.bare_dollar) else { return text.to_owned() };
    fill_or(&template, scope, secrets, |_| Ok(HOLE.to_string())).unwrap_or_else(|_| text.to_owned())
}

/// Returns the variables that a text uses, without expanding it; those before a syntax error count too.
pub fn variables_used(text: &str, rules: ExpandRules) -> BTreeSet<&str> {
    template::variables(text, rules.bare_dollar)
}

/// Resolves a path: `~/` is the home folder, and a relative path starts in the folder of the file.
pub fn resolve_path(text: &str, scope: &ExpandScope<'_>) -> Result<PathBuf, ExpandError> {
    let path = match text.strip_prefix("~/").or((text == "~").then_some("")) {
        Some(rest) => scope.variables.home.as_ref().ok_or(ExpandError::NoHome)?.join(rest),
        None => scope.folder.join(text),
    };
    // This removes single dots and a trailing separator.
    Ok(path.components().collect())
}

/// Reads a whole small text file that only its owner can change. Refuses anything but a regular file, since reading it
/// may block.
pub(super) fn read_text_file(path: &Path) -> Result<String, ExpandError> {
    let failed = |why: String| ExpandError::File { path: path.to_owned(), why };
    let read = || -> io::Result<Option<Vec<u8>>> {
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        ownership::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    let bytes =
        read().map_err(|error| failed(error.to_string()))?.ok_or_else(|| failed("is not a regular file".into()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(format!("has more than {} KiB", MAX_BYTES / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| failed("is not UTF-8 text".into()))
}

/// Expands a template; `otherwise` decides what to insert for a missing value.
fn fill_or(
    template: &TextTemplate<'_>,
    scope: &ExpandScope<'_>,
    secrets: &mut Secrets,
    otherwise: fn(ExpandError) -> Result<String, ExpandError>,
) -> Result<String, ExpandError> {
    let mut filled = String::new();
    for part in &template.0 {
        match part {
            TemplatePart::Text(text) => filled.push_str(text),
            TemplatePart::Value { source, default } => {
                filled.push_str(&match (value(source, scope, secrets), default) {
                    // As in a shell, the default also replaces an empty value.
                    (Ok(value), Some(default)) if value.is_empty() => fill_or(default, scope, secrets, otherwise)?,
                    (Err(error), Some(default)) if error.is_absence() => fill_or(default, scope, secrets, otherwise)?,
                    (value, _) => value.or_else(otherwise)?,
                })
            }
        }
    }
    Ok(filled)
}

impl ExpandError {
    /// Reports whether the value is missing, so that a default applies.
    fn is_absence(&self) -> bool {
        matches!(self, ExpandError::Unset(_) | ExpandError::NoInput { .. } | ExpandError::NoHome)
    }
}

fn value(source: &ValueSource<'_>, scope: &ExpandScope<'_>, secrets: &mut Secrets) -> Result<String, ExpandError> {
    let ExpandScope { variables, workspace, .. } = scope;
    match source {
        ValueSource::Variable(name) => {
            let found = scope.env_file.get(*name).or_else(|| variables.environment.get(*name));
            let value = found.ok_or_else(|| ExpandError::Unset((*name).to_owned()))?;
            let is_folder = |folder: &Path| folder.as_os_str() == value.as_str();
            if !is_folder(workspace) && !variables.home.as_deref().is_some_and(is_folder) {
                secrets.add_variable(name, value);
            }
            Ok(value.clone())
        }
        ValueSource::Session => scope.session.map(str::to_owned).ok_or(ExpandError::NoSession),
        ValueSource::Home => resolve_path("~", scope).map(|home| home.to_string_lossy().into_owned()),
        ValueSource::Workspace => Ok(workspace.to_string_lossy().into_owned()),
        ValueSource::StartFolder => Ok(variables.workspace.to_string_lossy().into_owned()),
        ValueSource::WorkspaceName => Ok(workspace.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        ValueSource::Separator => Ok(std::path::MAIN_SEPARATOR_STR.to_owned()),
        ValueSource::File(path) => {
            let text = read_text_file(&resolve_path(&fill_or(path, scope, secrets, Err)?, scope)?)?;
            secrets.add_content(&text);
            Ok(without_last_newline(&text).to_owned())
        }
        ValueSource::Input(id) => input(id, scope, secrets),
        ValueSource::Command(_) if !scope.rules.commands => Err(ExpandError::CommandsNotAllowed),
        ValueSource::Command(line) => {
            let environment = variables.environment.iter().chain(scope.env_file);
            let output = command::run(line, scope.folder, environment, command::LIMIT).map_err(ExpandError::Command)?;
            secrets.add_content(&output);
            Ok(without_last_newline(&output).to_owned())
        }
    }
}

/// Returns the answer to an input: from its variable, else from a person, else the default.
fn input(id: &str, scope: &ExpandScope<'_>, secrets: &mut Secrets) -> Result<String, ExpandError> {
    let variable = input_variable(id);
    let declared = scope.inputs.iter().find(|input| input.id == id);
    let given = scope.variables.environment.get(&variable).cloned();
    let given = given.or_else(|| scope.variables.prompter.ask(declared?)).or_else(|| declared?.default.clone());
    let given = given.ok_or_else(|| ExpandError::NoInput { id: id.to_owned(), variable: variable.clone() })?;
    match declared {
        // An option that the file itself lists is not a secret.
        Some(ConfigInput { options, .. }) if options.contains(&given) => Ok(given),
        Some(ConfigInput { options, .. }) if !options.is_empty() => {
            Err(ExpandError::NoOption { id: id.to_owned(), options: options.clone() })
        }
        Some(ConfigInput { password: true, .. }) => {
            secrets.add(&given);
            Ok(given)
        }
        _ => {
            secrets.add_variable(&variable, &given);
            Ok(given)
        }
    }
}

/// Returns the name of the variable that answers an input.
pub fn input_variable(id: &str) -> String {
    let id: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("{INPUT_PREFIX}{id}")
}

fn without_last_newline(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// The prefix of the variables that answer inputs.
pub(super) const INPUT_PREFIX: &str = "TOOLGATE_INPUT_";
/// A placeholder for an unknown value; no value in use contains it.
pub(super) const HOLE: char = '\0';
