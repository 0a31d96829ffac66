//! A client's choice: the servers and tools that it wants to use, of those that its principal may use.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::logic::types::filtering::SelectedServer;

/// The servers and tools that a client chose.
pub type Choice = Vec<SelectedServer>;

/// The member of `_meta` with a client's choice.
pub(super) const CHOICE_META: &str = "toolgate/selection";

/// Parses the header, such as `files, tickets/search`: servers, each alone or with one tool or glob.
pub(super) fn parse_header(text: &str) -> Result<Choice, String> {
    let mut choice = Choice::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (server, tool) = part.split_once('/').map_or((part, None), |(server, tool)| (server, Some(tool)));
        let known = choice.iter_mut().find(|selected| selected.id == server);
        match (known, tool) {
            (None, tool) => {
                let tools = tool.map(str::to_owned).into_iter().collect();
                choice.push(SelectedServer { id: server.to_owned(), tools });
            }
            (Some(known), Some(tool)) if !known.tools.is_empty() => known.tools.push(tool.to_owned()),
            // The whole server was chosen, before or now.
            (Some(known), _) => known.tools.clear(),
        }
    }
    checked(choice)
}

/// Parses the member of `_meta`: a list of servers, or a map from servers to lists of tools and globs.
pub(super) fn parse_meta(value: &RawValue) -> Result<Choice, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Servers(Vec<String>),
        Tools(BTreeMap<String, Vec<String>>),
    }
    let selected = |(id, tools)| SelectedServer { id, tools };
    match serde_json::from_str(value.get()) {
        Ok(Written::Servers(servers)) => checked(servers.into_iter().map(|id| selected((id, Vec::new()))).collect()),
        Ok(Written::Tools(servers)) => checked(servers.into_iter().map(selected).collect()),
        Err(_) => Err(format!("{CHOICE_META} is neither a list of servers nor a map from servers to lists of tools")),
    }
}

/// Sorts a choice, so that equal ones are the same, and refuses one that is empty or too large to keep.
fn checked(mut choice: Choice) -> Result<Choice, String> {
    if choice.is_empty() {
        return Err("the selection names no server; leave it out to select all".to_owned());
    }
    let names = || choice.iter().flat_map(|server| std::iter::once(&server.id).chain(&server.tools));
    if names().count() > MOST_NAMES || names().map(String::len).sum::<usize>() > MOST_BYTES {
        return Err(format!("the selection has more than {MOST_NAMES} names or {MOST_BYTES} bytes"));
    }
    choice.iter_mut().for_each(|server| server.tools.sort_unstable());
    choice.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    Ok(choice)
}

const MOST_NAMES: usize = 1000;
const MOST_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(choice: &Result<Choice, String>) -> String {
        match choice {
            Ok(choice) => choice.iter().map(|server| format!("{}{:?} ", server.id, server.tools)).collect(),
            Err(why) => why.clone(),
        }
    }

    #[test]
    fn a_header_names_servers_and_tools() {
        for (text, expected) in [
            ("files", "files[] "),
            (" tickets/search , files,tickets/get_* ", "files[] tickets[\"get_*\", \"search\"] "),
            ("files/read, files", "files[] "),
            ("files, files/read", "files[] "),
            (",", "the selection names no server; leave it out to select all"),
        ] {
            assert_eq!(words(&parse_header(text)), expected, "{text}");
        }
        let many: String = (0..1001).map(|n| format!("s{n},")).collect();
        assert!(words(&parse_header(&many)).contains("more than 1000 names"));
    }

    #[test]
    fn a_member_of_meta_names_servers_and_tools() {
        for (json, expected) in [
            (r#"["files"]"#, "files[] "),
            (r#"{"files":[],"tickets":["search"]}"#, "files[] tickets[\"search\"] "),
            ("[]", "the selection names no server; leave it out to select all"),
            ("{}", "the selection names no server; leave it out to select all"),
            ("7", "toolgate/selection is neither a list of servers nor a map from servers to lists of tools"),
        ] {
            let value: Box<RawValue> = serde_json::from_str(json).unwrap();
            assert_eq!(words(&parse_meta(&value)), expected, "{json}");
        }
    }
}
