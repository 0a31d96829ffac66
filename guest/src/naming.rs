//! Names of tools: what a model writes, and what a model's provider accepts.

mod fit;
mod lower;
mod target;

use std::collections::BTreeSet;

use crate::types::ToolRef;
pub use fit::{Audience, Candidate, FitError, FittedTool, fit, joined_names};
pub use lower::lower;
pub use target::Target;

/// The maximum length of a name in bytes; MCP allows 128 for the tool alone.
const MAX_NAME: usize = 1_024;

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameProblem {
    /// The name has no form that could mean a tool.
    InvalidName,
    /// The name refers to a server that does not exist.
    UnknownServer,
    /// The name refers to a tool that its server does not have.
    UnknownTool,
    /// The name matches several tools.
    Ambiguous,
}

/// The reason why a name leads to no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// The kind of problem.
    pub problem: NameProblem,
    /// A message that tells the model how to correct the name.
    pub message: String,
}

/// How tool names are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamingStyle {
    /// `server.tool`
    Dot,
    /// `server__tool`
    DoubleUnderscore,
    /// `mcp__server__tool`
    McpPrefix,
    /// `mcp_server_tool`
    McpUnderscore,
    /// `server__tool`, adapted to an audience; schemas are adapted as well.
    Fitted(Audience),
}

/// Writes `server__tool` and `mcp__server__tool` as `server.tool`; a name with a dot stays as it is.
pub fn normalize(name: &str) -> String {
    match server_and_tool(name) {
        Some((server, tool)) => format!("{server}.{tool}"),
        None => name.to_owned(),
    }
}

/// Splits `server.tool`, `server__tool` or `mcp__server__tool` without a catalog.
pub fn split(name: &str) -> Result<ToolRef, NameError> {
    match server_and_tool(name) {
        Some((server, tool)) if is_word(server) && is_word(tool) => Ok(ToolRef::new(server, tool)),
        _ => Err(NameError::invalid(name)),
    }
}

/// Returns what is before and after the first separator: the only reading of a name without a catalog.
fn server_and_tool(name: &str) -> Option<(&str, &str)> {
    if name.contains('.') {
        return name.split_once('.');
    }
    if let Some(rest) = name.strip_prefix("mcp__")
        && rest.contains("__")
    {
        return rest.split_once("__");
    }
    name.split_once("__")
}

/// Reports whether a text is `[\w][\w-]*`, in ASCII.
fn is_word(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('-')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns every pair of server and tool that the name could mean, in any form; most do not exist, and a pair with an
/// empty tool never does.
pub fn readings(name: &str) -> Vec<(&str, &str)> {
    if name.len() > MAX_NAME {
        return Vec::new();
    }
    let mut found = Vec::new();
    splits(name, ".", &mut found);
    splits(name, "__", &mut found);
    if let Some(rest) = name.strip_prefix("mcp__") {
        splits(rest, "__", &mut found);
    }
    if let Some(rest) = name.strip_prefix("mcp_") {
        splits(rest, "_", &mut found);
    }
    let mut seen = BTreeSet::new();
    found.retain(|reading| seen.insert(*reading));
    found
}

/// Returns the only tool of these servers that the name could mean; `None` if it could mean several.
pub fn only_reading(name: &str, servers: &[String]) -> Option<ToolRef> {
    let known = |(server, tool): &(&str, &str)| servers.iter().any(|known| known == server) && !tool.is_empty();
    let mut readings = readings(name).into_iter().filter(known);
    let (server, tool) = readings.next()?;
    readings.next().is_none().then(|| ToolRef::new(server, tool))
}

/// Splits at every occurrence of the separator, also overlapping ones: `a___b` is `a` + `_b` and `a_` + `b`.
fn splits<'a>(name: &'a str, separator: &str, found: &mut Vec<(&'a str, &'a str)>) {
    for (at, _) in name.char_indices() {
        if let Some(tool) = name[at..].strip_prefix(separator)
            && at > 0
        {
            found.push((&name[..at], tool));
        }
    }
}

/// Returns the server that a name most likely means, if it contains a separator.
pub fn likely_server(name: &str) -> Option<&str> {
    let (server, _) = server_and_tool(name)?;
    Some(server)
}

/// Reports whether a name that was fitted for a provider could belong to this server: other characters became `_`,
/// `mcp` or `_` may precede it, and a long id may have been cut.
pub fn begins_like(name: &str, server: &str) -> bool {
    /// Names are cut shorter than this only if a prefix leaves hardly any room.
    const KEPT: usize = 12;
    let flat = |text: &str| -> String {
        text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
    };
    let (name, server) = (flat(name), flat(server));
    let begins = |name: &str| match server.get(..KEPT) {
        Some(kept) => name.starts_with(kept),
        None => name.strip_prefix(&*server).is_some_and(|rest| rest.starts_with('_')),
    };
    ["", "_", "mcp_", "mcp__"].iter().filter_map(|prefix| name.strip_prefix(prefix)).any(begins)
}

impl NameError {
    /// The name has no form that could mean a tool.
    pub fn invalid(name: &str) -> Self {
        let message = format!(
            "invalid tool name {}: must be in 'server.tool' format (e.g., 'kubernetes-server.get_pods')",
            quote(name)
        );
        NameError { problem: NameProblem::InvalidName, message }
    }

    /// The name refers to a server that does not exist.
    pub fn unknown_server(server: &str, available: &[&str]) -> Self {
        let message = format!(
            "MCP server {} is not available for this execution. Available servers: {}",
            quote(server),
            nearest(available, server)
        );
        NameError { problem: NameProblem::UnknownServer, message }
    }

    /// The name refers to a tool that its server does not have.
    pub fn unknown_tool(tool: &str, server: &str, available: &[&str]) -> Self {
        let message = format!(
            "tool {} is not available on server {}. Available tools: {}",
            quote(tool),
            quote(server),
            nearest(available, tool)
        );
        NameError { problem: NameProblem::UnknownTool, message }
    }

    /// Adds the name that was probably meant, if there is one.
    #[must_use]
    pub fn suggesting(mut self, meant: Option<String>) -> Self {
        if let Some(meant) = meant {
            self.message = format!("{}; did you mean {}?", self.message, quote(&meant));
        }
        self
    }

    /// The name matches several tools.
    pub fn ambiguous(name: &str, meanings: &[String]) -> Self {
        let shown: Vec<&str> = meanings.iter().map(String::as_str).collect();
        let message = format!("tool name {} is ambiguous. It could mean: {}", quote(name), nearest(&shown, name));
        NameError { problem: NameProblem::Ambiguous, message }
    }
}

/// The maximum number of names in a message.
const LISTED: usize = 20;
/// How many characters of a name a message shows, and how many count for similarity.
const SHOWN: usize = 128;

/// Quotes a name, escapes control characters, and cuts it if it is very long.
fn quote(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}", format!("{}…", &name[..cut])),
        None => format!("{name:?}"),
    }
}

/// Joins the names; a long list is shortened to those most similar to the wanted one.
fn nearest(names: &[&str], wanted: &str) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    if names.len() <= LISTED {
        return names.join(", ");
    }
    let wanted: Vec<char> = wanted.chars().take(SHOWN).flat_map(char::to_lowercase).collect();
    let mut ranked: Vec<(usize, &str)> = names.iter().map(|&name| (distance(name, &wanted), name)).collect();
    ranked.sort_by_key(|&(distance, _)| distance);
    let shown: Vec<&str> = ranked.iter().take(LISTED).map(|&(_, name)| name).collect();
    format!("{}, … ({} more)", shown.join(", "), names.len() - LISTED)
}

/// Returns the name that is most like the wanted one, if it is like it: a third of the letters may differ, and one in a
/// short name.
pub(crate) fn most_like<'n>(names: impl IntoIterator<Item = &'n str>, wanted: &str) -> Option<&'n str> {
    if wanted.len() > SHOWN {
        return None;
    }
    let letters: Vec<char> = wanted.chars().flat_map(char::to_lowercase).collect();
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        let longest = letters.len().max(name.chars().count());
        let distance = distance(name, &letters);
        let is_near = distance <= (longest / 3).max(1) && distance < longest;
        if is_near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Returns the edit distance between two names.
pub(crate) fn distance(name: &str, wanted: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=wanted.len()).collect();
    for (n, letter) in name.chars().take(SHOWN).flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = n + 1;
        for (w, &other) in wanted.iter().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[w + 1];
            row[w + 1] = changed.min(diagonal + 1).min(row[w] + 1);
        }
    }
    row[wanted.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_catalog_has_one_reading() {
        for (name, server, tool) in [
            ("a.b", "a", "b"),
            ("a__b", "a", "b"),
            ("mcp__a__b", "a", "b"),
            ("mcp__a__b__c", "a", "b__c"),
            ("a__b__c", "a", "b__c"),
            ("a__b.c", "a__b", "c"),
            ("mcp__a.b", "mcp__a", "b"),
            ("mcp__a__b.c", "mcp__a__b", "c"),
            ("mcp__a", "mcp", "a"),
            ("mcp.a__b", "mcp", "a__b"),
        ] {
            assert_eq!(split(name), Ok(ToolRef::new(server, tool)), "{name}");
            assert_eq!(normalize(name), format!("{server}.{tool}"));
            assert_eq!(split(&normalize(name)), split(name), "{name}");
            assert_eq!(likely_server(name), Some(server));
            assert!(readings(name).contains(&(server, tool)), "{name}");
        }
        for name in ["mcp_a_b", "plain", "mcp__", "__b", "mcp____b", "mcp__a__"] {
            assert_eq!(split(name).unwrap_err().problem, NameProblem::InvalidName, "{name}");
        }
    }

    #[test]
    fn the_first_double_underscore_becomes_a_dot_where_there_is_none() {
        for (name, expected) in [
            ("kubernetes-server__get_pods", "kubernetes-server.get_pods"),
            ("kubernetes-server.get_pods", "kubernetes-server.get_pods"),
            ("get_pods", "get_pods"),
            ("server.tool__name", "server.tool__name"),
            ("server__tool__extra", "server.tool__extra"),
            ("", ""),
        ] {
            assert_eq!(normalize(name), expected);
        }
    }

    #[test]
    fn a_name_splits_at_its_one_dot() {
        for name in ["kubernetes.get_pods", "kubernetes-server.get-pods", "server1.tool2", "my_server.my_tool"] {
            let (server, tool) = name.split_once('.').unwrap();
            assert_eq!(split(name), Ok(ToolRef::new(server, tool)));
        }
        for name in [
            "",
            "kubernetes_get_pods",
            "server.tool.extra",
            ".tool",
            "server.",
            ".",
            "my server.my tool",
            "-s.tool",
            "é.x",
        ] {
            assert_eq!(split(name).unwrap_err().problem, NameProblem::InvalidName, "{name}");
        }
        assert_eq!(
            split("x").unwrap_err().message,
            "invalid tool name \"x\": must be in 'server.tool' format (e.g., 'kubernetes-server.get_pods')"
        );
    }

    #[test]
    fn every_form_is_read() {
        for (name, expected) in [
            ("a.b", &[("a", "b")][..]),
            ("a.b.c", &[("a", "b.c"), ("a.b", "c")]),
            ("a__b__c", &[("a", "b__c"), ("a__b", "c")]),
            ("a___b", &[("a", "_b"), ("a_", "b")]),
            ("mcp__a__b", &[("mcp", "a__b"), ("mcp__a", "b"), ("a", "b"), ("_a", "_b"), ("_a_", "b")]),
            ("mcp_a_b", &[("a", "b")]),
            ("mcp_a_b_c", &[("a", "b_c"), ("a_b", "c")]),
            ("plain", &[]),
            (".x", &[]),
            ("x.", &[("x", "")]),
        ] {
            assert_eq!(readings(name), expected, "{name}");
        }
        assert!(readings(&"_".repeat(1_000_000)).is_empty());
        let longest = format!("s.{}", "t".repeat(MAX_NAME - 2));
        assert_eq!(readings(&longest), [("s", &longest[2..])]);
        assert!(readings(&format!("{longest}t")).is_empty());
    }

    #[test]
    fn the_likely_server_stands_before_the_first_separator() {
        for (name, expected) in [
            ("a.b", Some("a")),
            ("a.b.c", Some("a")),
            ("a__b__c", Some("a")),
            ("a__b.c", Some("a__b")),
            ("mcp__a__b", Some("a")),
            ("mcp__a__b__c", Some("a")),
            ("mcp__a", Some("mcp")),
            ("mcp__a.b", Some("mcp__a")),
            ("mcp_a_b", None),
            ("plain", None),
            (".b", Some("")),
            ("", None),
        ] {
            assert_eq!(likely_server(name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_made_to_fit_begins_like_its_server() {
        for (name, server, expected) in [
            ("git_log", "git", true),
            ("git", "git", false),
            ("github_log", "git", false),
            ("log_git_x", "git", false),
            ("my_git__log", "my-git", true),
            ("my-git.log", "my_git", true),
            ("_1a__x", "1a", true),
            ("mcp_git_log", "git", true),
            ("mcp__git__log", "git", true),
            ("mcp___git_log", "git", false),
            ("xmcp_git_log", "git", false),
            // An id of twelve signs or more may have been cut after the twelfth.
            ("kubernetes-p_1a2b3c4d", "kubernetes-prod", true),
            ("kubernetes-p", "kubernetes-p", true),
            ("kubernetes_x_1a2b3c4d", "kubernetes-prod", false),
            ("kubernetes-_1a2b3c4d", "kubernetes-prod", false),
            ("kubernetes-__get", "kubernetes-", true),
            ("kubernetes_1a2b3c4d", "kubernetes-", false),
        ] {
            assert_eq!(begins_like(name, server), expected, "{name} of {server}");
        }
    }

    #[test]
    fn the_distance_counts_letters_that_are_changed_added_or_dropped() {
        for (name, wanted, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("Abc", "abc", 0),
            ("abcd", "abc", 1),
            ("abc", "abcd", 1),
            ("abc", "axc", 1),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("ab", "ba", 2),
        ] {
            let wanted: Vec<char> = wanted.chars().collect();
            assert_eq!(distance(name, &wanted), expected, "{name} {wanted:?}");
        }
    }

    #[test]
    fn long_lists_show_the_nearest_first() {
        let names: Vec<String> = (0..50).map(|n| format!("tool_{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = NameError::unknown_tool("tool_42x", "s", &names);
        assert!(error.message.contains("Available tools: tool_42, "), "{}", error.message);
        assert!(error.message.ends_with("… (30 more)"), "{}", error.message);
        let all = NameError::unknown_tool("tool_19", "s", &names[..LISTED]).message;
        assert!(all.ends_with(&format!("Available tools: {}", names[..LISTED].join(", "))), "{all}");
        assert!(NameError::unknown_tool("t", "s", &[]).message.ends_with("Available tools: none"));
    }
}
