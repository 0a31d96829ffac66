//! Tells a person at a terminal what a gateway serves, to whom, and where to look at it.

use std::io::IsTerminal;
use std::path::Path;

use crate::cli::{style, table};
use crate::config::model::Config;
use crate::config::resolve::resolve_record_dir;
use crate::config::variables::Variables;

/// Writes a few lines to standard error, if that is a terminal.
pub(super) fn announce(config: &Config, is_http: bool, record: Option<&Path>, variables: &Variables) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let enabled: Vec<&str> =
        config.servers.iter().filter(|server| server.enabled).map(|server| server.id.as_str()).collect();
    let count = table::count_of(enabled.len() as u64, "server");
    let shown = if enabled.is_empty() { String::new() } else { format!(": {}", table::cut(&enabled.join(", "), MOST)) };
    style::write_note(&format!("serving {count}{shown}"));
    let gateway = &config.settings.gateway;
    let principals: Vec<&str> = gateway.tokens.iter().map(|token| token.principal.as_str()).collect();
    match (is_http, principals.as_slice()) {
        (false, _) => style::write_note("to the one client on standard input and output; Ctrl-C ends it"),
        (true, []) => style::write_note("to every program on this machine, without a token; Ctrl-C ends it"),
        (true, all) => {
            style::write_note(&format!(
                "to whoever has a token of {}; Ctrl-C ends it",
                table::cut(&all.join(", "), MOST)
            ));
        }
    }
    let configured = || config.settings.record.as_ref().and_then(|_| resolve_record_dir(config, variables).ok());
    if let Some(folder) = record.map(Path::to_owned).or_else(configured) {
        style::write_note(&format!("recording calls in {}", folder.display()));
    }
    if gateway.socket {
        style::write_note("`toolgate dashboard` opens its page, and `toolgate status` shows its state");
    }
}

/// More letters than these are not read.
const MOST: usize = 200;
