//! The env files of a configuration that needs trust. What they set reaches the programs of its servers and its own
//! values, so the user's trust is for their content too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resolver::{base_folders, expand_scope};
use crate::config::expand::{expand, read_text_file, resolve_path};
use crate::config::model::Config;
use crate::config::secrets::Secrets;
use crate::config::variables::{NoPrompter, Variables};
use crate::sha256::sha256_hex;

/// The SHA-256 digest of each env file; `None` for one that cannot be read.
pub type EnvFileDigests = BTreeMap<PathBuf, Option<String>>;

/// Returns the digests of the env files of all servers, as they are now. Runs no command and asks nobody, so a path
/// that needs either is left out, and such a file is then refused.
pub fn env_file_digests(config: &Config, variables: &Variables) -> EnvFileDigests {
    let folders = base_folders(config.file.as_deref(), variables);
    let variables = &Variables { prompter: Arc::new(NoPrompter), ..variables.clone() };
    let mut scope = expand_scope(config, variables, &folders);
    scope.rules.commands = false;
    let mut digests = EnvFileDigests::new();
    for server in &config.servers {
        let Some(located) = &server.env_file else { continue };
        let Ok(text) = expand(&located.text, &scope, &mut Secrets::default()) else { continue };
        let Ok(path) = resolve_path(&text, &scope) else { continue };
        let digest = read_text_file(&path).ok().map(|text| sha256_hex(text.as_bytes()));
        digests.insert(path, digest);
    }
    digests
}

/// Returns an error unless an env file has the content that the user trusted.
pub(super) fn check(trusted: &EnvFileDigests, path: &Path, text: &str) -> Result<(), String> {
    match trusted.get(path) {
        Some(Some(digest)) if *digest == sha256_hex(text.as_bytes()) => Ok(()),
        Some(_) => {
            Err(format!("file {path:?} has changed since you trusted it; look at it, then run `toolgate trust`"))
        }
        None => {
            Err(format!("file {path:?} is not among those that you trusted; write its path without what may change"))
        }
    }
}
