//! Resolves the files of a shadow candidate.

use std::path::PathBuf;

use super::resolver::resolve_section;
use crate::config::model::{Config, Problem};
use crate::config::variables::Variables;

/// A candidate with all variables expanded; its files need not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedShadow {
    /// The component to try; `None` means the active one.
    pub logic: Option<PathBuf>,
    /// The configuration to try; `None` means the active one.
    pub config: Option<PathBuf>,
    /// The share of calls to try.
    pub sample: f64,
}

/// Resolves the files of the candidate; returns `None` if there is none.
pub fn resolve_shadow(config: &Config, variables: &Variables) -> Result<Option<ResolvedShadow>, Problem> {
    let Some(shadow) = &config.settings.shadow else { return Ok(None) };
    // Whoever looks for the file sees its path, so no part of it is a secret.
    let (filled, _) = resolve_section(&shadow.place, "shadow", config, variables, |resolver| {
        Ok(ResolvedShadow {
            logic: resolver.optional_path(shadow.logic.as_ref())?,
            config: resolver.optional_path(shadow.config.as_ref())?,
            sample: shadow.sample,
        })
    })?;
    Ok(Some(filled))
}
