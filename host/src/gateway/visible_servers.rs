//! The servers and tools that a principal may see.

use std::collections::HashSet;

/// The servers and tools that a principal may see.
pub(super) enum VisibleServers {
    All,
    Only { servers: HashSet<String>, tools: HashSet<(String, String)> },
}

impl VisibleServers {
    pub(super) fn has(&self, server: &str) -> bool {
        match self {
            VisibleServers::All => true,
            VisibleServers::Only { servers, .. } => servers.contains(server),
        }
    }

    pub(super) fn has_tool(&self, server: &str, tool: &str) -> bool {
        match self {
            VisibleServers::All => true,
            VisibleServers::Only { tools, .. } => tools.contains(&(server.to_owned(), tool.to_owned())),
        }
    }
}
