//! Resolves the folder that calls are recorded in.

use std::path::PathBuf;

use super::resolver::resolve_folder;
use crate::config::model::{Config, Problem};
use crate::config::variables::Variables;
use crate::record::folder::default_dir;

/// Resolves the folder that calls are recorded in: the one that the file names, or its default folder.
pub fn resolve_record_dir(config: &Config, variables: &Variables) -> Result<PathBuf, Problem> {
    match config.settings.record.as_ref().and_then(|record| record.dir.as_ref()) {
        Some(dir) => resolve_folder(dir, "record", config, variables),
        None => Ok(default_dir(variables, config.file.as_deref())),
    }
}
