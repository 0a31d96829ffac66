//! What a new configuration changes.

use std::collections::BTreeMap;

use crate::config::model::{Config, Server};

/// What became of the servers when the configuration changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Servers that were not there before.
    pub added: Vec<String>,
    /// Servers that are no longer there; calls under way come to their end.
    pub removed: Vec<String>,
    /// Servers that are configured otherwise now, and begin anew.
    pub updated: Vec<String>,
    /// Servers of which nothing has changed; no call of theirs was touched.
    pub unchanged: Vec<String>,
    /// Servers that cannot be used, and why.
    pub errors: BTreeMap<String, String>,
}

/// Whether a server is reached and run as before, wherever in the file it now stands.
pub(super) fn same(before: (&Config, &Server), after: (&Config, &Server)) -> bool {
    let of_all = |config: &Config| {
        let settings = &config.settings;
        (settings.allow_commands, settings.inputs.clone(), settings.bare_dollar, config.file.clone())
    };
    before.1.without_places() == after.1.without_places() && of_all(before.0) == of_all(after.0)
}
