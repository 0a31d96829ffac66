//! Resolves the folder that calls are recorded in.

use std::path::PathBuf;

use super::resolve_with;
use crate::config::model::{Config, Problem, ServerConfig, TransportKind};
use crate::config::variables::Variables;

/// Resolves the folder that calls are recorded in; returns `None` if the file names none.
pub fn resolve_record_dir(config: &Config, variables: &Variables) -> Result<Option<PathBuf>, Problem> {
    let Some(dir) = config.settings.record.as_ref().and_then(|record| record.dir.as_ref()) else { return Ok(None) };
    let server = ServerConfig::new("", dir.place.clone(), TransportKind::Stdio);
    // Whoever looks for a file sees the path of its folder, so no part of it is a secret.
    let (dir, _) = resolve_with(&server, "record", config, variables, None, |resolver| {
        let path = resolver.path(dir)?;
        match path.exists() && !path.is_dir() {
            true => Err(resolver.problem(dir, format_args!("{path:?} is not a folder"))),
            false => Ok(path),
        }
    })?;
    Ok(Some(dir))
}
