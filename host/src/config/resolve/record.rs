//! Where calls are recorded, with every variable filled in.

use std::path::PathBuf;

use super::resolve_with;
use crate::config::model::{Config, Problem, ServerConfig, TransportKind};
use crate::config::variables::Variables;

/// Fills in the folder that calls are recorded in; none where the file names none.
pub fn resolve_record_dir(config: &Config, variables: &Variables) -> Result<Option<PathBuf>, Problem> {
    let Some(dir) = config.settings.record.as_ref().and_then(|record| record.dir.as_ref()) else { return Ok(None) };
    let server = ServerConfig::new("", dir.place.clone(), TransportKind::Stdio);
    // A folder is shown to whoever looks for a file in it, so nothing of its path is kept secret.
    let (dir, _) = resolve_with(&server, "record", config, variables, None, |resolver| {
        let path = resolver.path(dir)?;
        match path.exists() && !path.is_dir() {
            true => Err(resolver.problem(dir, format_args!("{path:?} is no folder"))),
            false => Ok(path),
        }
    })?;
    Ok(Some(dir))
}
