//! Asks whether to trust a file that was found in the working directory.

use std::path::Path;

use crate::config;
use crate::config::model::ServerConfig;
use crate::config::resolve::EnvFileDigests;
use crate::config::secrets::Secrets;
use crate::config::trust::{TrustChange, TrustStore};
use crate::config::variables::Variables;

use super::error::CliError;
use super::table;
use super::terminal::TerminalPrompter;

/// Refuses an untrusted file in the working directory: it may come from somebody else's project and start any program.
/// On a terminal, asks; for a file that was trusted before, says what changed.
pub(super) fn check(
    path: &Path,
    text: &str,
    env_files: &EnvFileDigests,
    variables: &Variables,
) -> Result<(), CliError> {
    let store = TrustStore::user(variables);
    if store.is_trusted(path, text.as_bytes(), env_files) {
        return Ok(());
    }
    let shown = path.display();
    let changes = store.changes(path, text, env_files).map(|changes| describe(&changes, path, text));
    let since = changes.map(|changes| format!("since you trusted {shown}:\n{changes}\n")).unwrap_or_default();
    let question = format!("{since}{shown} can start programs on this machine. Trust it as it is now? [y/N] ");
    match TerminalPrompter::confirm(&question) {
        Some(true) => Ok(store.trust(path, text.as_bytes(), env_files)?),
        Some(false) => Err(CliError::Usage(format!("{shown} is not trusted"))),
        None => Err(CliError::Usage(format!(
            "{shown} was found in the working directory and is not trusted yet; look at it, then run `toolgate trust`, \
             or name it with --config{}",
            if since.is_empty() { String::new() } else { format!("\n{}", since.trim_end()) }
        ))),
    }
}

/// Lists changes, with what new and changed servers start now. Nothing is filled into their values, and no secret is
/// shown.
fn describe(changes: &[TrustChange], path: &Path, text: &str) -> String {
    if changes.is_empty() {
        return "  no key or value changed, only the layout or comments".to_owned();
    }
    let servers = config::parse(text, path).map(|config| config.servers).unwrap_or_default();
    let mut lines = Vec::new();
    for TrustChange { text, server } in changes.iter().take(MOST) {
        let server = server.as_ref().and_then(|name| servers.iter().find(|server| server.id == *name));
        let now = server.map(|server| format!(": {}", table::first_line(&starts(server)))).unwrap_or_default();
        lines.push(format!("  {}{now}", text.replace('\n', " ")));
    }
    if changes.len() > MOST {
        lines.push(format!("  and {} more", changes.len() - MOST));
    }
    lines.join("\n")
}

/// Returns the command line or the address of a server, without secrets.
fn starts(server: &ServerConfig) -> String {
    let mut secrets = Secrets::default();
    let texts = server.command.iter().chain(&server.args).chain(&server.url);
    let words: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
    for (at, word) in words.iter().enumerate() {
        secrets.add_argument(at.checked_sub(1).map(|before| words[before]), word);
        secrets.add_address(word);
    }
    let line = words.join(" ").replace('\n', " ");
    secrets.redact(&line).into_owned()
}

/// More changes than these are not read.
const MOST: usize = 20;
