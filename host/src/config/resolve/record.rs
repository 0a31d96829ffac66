//! Resolves the folder that calls are recorded in.

use std::path::PathBuf;

use super::resolver::resolve_folder;
use crate::config::model::{Config, Problem};
use crate::config::variables::Variables;

/// Resolves the folder that calls are recorded in; returns `None` if the file names none.
pub fn resolve_record_dir(config: &Config, variables: &Variables) -> Result<Option<PathBuf>, Problem> {
    let Some(dir) = config.settings.record.as_ref().and_then(|record| record.dir.as_ref()) else { return Ok(None) };
    resolve_folder(dir, "record", config, variables).map(Some)
}
