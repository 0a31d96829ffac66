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
    not_empty(choice)
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
        Ok(Written::Servers(servers)) => not_empty(servers.into_iter().map(|id| selected((id, Vec::new()))).collect()),
        Ok(Written::Tools(servers)) => not_empty(servers.into_iter().map(selected).collect()),
        Err(_) => Err(format!("{CHOICE_META} is neither a list of servers nor a map from servers to lists of tools")),
    }
}

fn not_empty(choice: Choice) -> Result<Choice, String> {
    match choice.is_empty() {
        true => Err("the selection names no server; leave it out to select all".to_owned()),
        false => Ok(choice),
    }
}

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
            (" files , tickets/search,tickets/get_* ", "files[] tickets[\"search\", \"get_*\"] "),
            ("files/read, files", "files[] "),
            ("files, files/read", "files[] "),
            (",", "the selection names no server; leave it out to select all"),
        ] {
            assert_eq!(words(&parse_header(text)), expected, "{text}");
        }
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
