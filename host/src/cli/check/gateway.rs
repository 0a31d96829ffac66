//! Looks at the settings of the gateway: what `serve` would refuse, and what it would do without.

use std::path::Path;

use crate::config;
use crate::config::model::Config;
use crate::config::resolve::{ResolvedShadow, resolve_record_dir};
use crate::config::variables::Variables;
use crate::record::folder;

use super::surroundings::certificate_warning;
use crate::cli::configured_records::unusable;
use crate::cli::error::CliError;
use crate::cli::serve::GatewaySetup;

/// What is wrong with the settings of the gateway.
#[derive(Default)]
pub(super) struct GatewayFindings {
    /// The reasons why `serve` would not start.
    pub errors: Vec<String>,
    /// What `serve` would do without, or soon refuse.
    pub warnings: Vec<String>,
}

impl GatewayFindings {
    /// Looks at the settings as `serve` reads them when it starts, without opening anything.
    pub(super) fn new(config: &Config) -> Self {
        let variables = Variables::from_process();
        let mut findings = GatewayFindings::default();
        match GatewaySetup::checked(config, &variables) {
            Ok(setup) => {
                let tls = setup.http.as_ref().and_then(|http| http.tls.as_ref());
                let warning = tls.and_then(|tls| certificate_warning("gateway.tls", &tls.certificate, &tls.key));
                findings.warnings.extend(warning);
                findings.warnings.extend(setup.shadow.as_ref().and_then(shadow_warning));
            }
            Err(CliError::Usage(text) | CliError::NotFound(text)) => findings.errors.push(text),
            Err(error) => findings.errors.push(error.to_string()),
        }
        if config.settings.record.is_some() {
            match resolve_record_dir(config, &variables) {
                Ok(dir) => {
                    let wrong = folder::check(&dir).err().map(|error| unusable(&dir, "record.dir", &error));
                    findings.errors.extend(wrong);
                }
                Err(problem) => findings.errors.push(problem.to_string()),
            }
        }
        findings
    }
}

/// Says why the shadow policy would be off.
fn shadow_warning(shadow: &ResolvedShadow) -> Option<String> {
    let unread = |path: &Path| std::fs::metadata(path).err().map(|error| format!("{}: {error}", path.display()));
    let of_logic = shadow.logic.as_deref().and_then(unread);
    let of_config =
        || shadow.config.as_deref().and_then(|file| config::load(file).err().map(|error| error.to_string()));
    let why = of_logic.or_else(of_config)?;
    Some(format!("the shadow policy would be off, and the gateway would run without it: {why}"))
}
