//! Where the files of a candidate are.

use std::path::PathBuf;

use super::resolve_with;
use crate::config::model::{Config, Problem, ServerConfig, TransportKind};
use crate::config::variables::Variables;

/// A candidate with every variable filled in; its files need not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedShadow {
    /// Its component; none means the one that decides.
    pub logic: Option<PathBuf>,
    /// Its configuration; none means the one in use.
    pub config: Option<PathBuf>,
    /// Which part of all calls it is asked about.
    pub sample: f64,
}

/// Fills in where the files of the candidate are; none where the file has no candidate.
pub fn resolve_shadow(config: &Config, variables: &Variables) -> Result<Option<ResolvedShadow>, Problem> {
    let Some(shadow) = &config.settings.shadow else { return Ok(None) };
    let server = ServerConfig::new("", shadow.place.clone(), TransportKind::Stdio);
    // A path is shown to whoever looks for the file, so nothing of it is kept secret.
    let (filled, _) = resolve_with(&server, "shadow", config, variables, None, |resolver| {
        Ok(ResolvedShadow {
            logic: resolver.optional_path(shadow.logic.as_ref())?,
            config: resolver.optional_path(shadow.config.as_ref())?,
            sample: shadow.sample,
        })
    })?;
    Ok(Some(filled))
}
