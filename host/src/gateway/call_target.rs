//! What a call was of, in words that no client makes up: for the labels of metrics.

use crate::gate::RESOURCE_SERVER;
use crate::logic::types::ToolRef;

/// What a call was of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallTarget {
    /// A tool of a server.
    Tool {
        /// The id of the server.
        server: String,
        /// The name of the tool on it.
        tool: String,
    },
    /// One of the gate's own tools.
    OwnTool(&'static str),
    /// A name like those of this server's tools, which means none that the caller may know about.
    Server(String),
    /// A name that means nothing at all.
    Nothing,
}

impl CallTarget {
    /// Returns what a call with this name was of. `tool` is the tool that the component found; without one, the name can
    /// still be like those of one of these `servers`.
    pub(super) fn new<'a>(tool: Option<&ToolRef>, name: &str, servers: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(ToolRef { server, tool }) = tool {
            return CallTarget::Tool { server: server.clone(), tool: tool.clone() };
        }
        if let Some(own) = OWN_TOOLS.into_iter().find(|own| *own == name) {
            return CallTarget::OwnTool(own);
        }
        let named = servers.into_iter().filter(|server| begins_with_server(name, server));
        match named.max_by_key(|server| server.len()) {
            Some(server) => CallTarget::Server(server.to_owned()),
            None => CallTarget::Nothing,
        }
    }

    /// Returns the labels for the server and for the tool.
    pub(super) fn labels(&self) -> (&str, &str) {
        match self {
            CallTarget::Tool { server, tool } => (server, tool),
            CallTarget::OwnTool(tool) => (RESOURCE_SERVER, tool),
            CallTarget::Server(server) => (server, UNKNOWN),
            CallTarget::Nothing => (UNKNOWN, UNKNOWN),
        }
    }
}

/// Reports whether a name is written as those of this server's tools are, in any of their forms.
fn begins_with_server(name: &str, server: &str) -> bool {
    for (prefix, separators) in [("", &[".", "__"][..]), ("mcp__", &["__"]), ("mcp_", &["_"])] {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(server)).unwrap_or_default();
        if separators.iter().any(|separator| rest.starts_with(separator)) {
            return true;
        }
    }
    false
}

/// The tools that a gate lists instead of too many tools.
const OWN_TOOLS: [&str; 2] = ["find_tools", "call_tool"];
/// The label of a server or a tool that does not exist, or that the viewer may not know about.
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_client_made_up_is_no_label() {
        let servers = ["files", "files_old", "a__b"];
        let of = |name: &str| {
            let target = CallTarget::new(None, name, servers);
            let (server, tool) = target.labels();
            format!("{server}/{tool}")
        };
        for (name, expected) in [
            ("files.made_up", "files/unknown"),
            ("files__made_up", "files/unknown"),
            ("mcp__files__made_up", "files/unknown"),
            ("mcp_files_made_up", "files/unknown"),
            ("mcp_files_old_made_up", "files_old/unknown"),
            ("a__b__c", "a__b/unknown"),
            ("filesystem__read", "unknown/unknown"),
            ("files", "unknown/unknown"),
            ("made_up", "unknown/unknown"),
            ("find_tools", "toolgate/find_tools"),
            ("call_tool", "toolgate/call_tool"),
            ("files__find_tools", "files/unknown"),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
        let tool = ToolRef { server: "files".to_owned(), tool: "read".to_owned() };
        assert_eq!(CallTarget::new(Some(&tool), "find_tools", servers).labels(), ("files", "read"));
    }
}
