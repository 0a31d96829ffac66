//! Whatever tools there are and whatever is sought, the order of the tools changes nothing, and exact names come first.
//!
//! The input is a line with a query, and lines with a server, a name and a description each.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_guest::search::{SearchIndex, SearchableTool};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let (query, lines) = text.split_once('\n').unwrap_or((text, ""));
    let mut tools: Vec<(&str, &str, &str)> = lines
        .lines()
        .filter_map(|line| {
            let (server, rest) = line.split_once(' ')?;
            let (name, description) = rest.split_once(' ')?;
            Some((server, name, description))
        })
        .collect();
    tools.sort_unstable();
    tools.dedup_by_key(|(server, name, _)| (*server, *name));
    let found = find(&tools, query);
    tools.reverse();
    assert_eq!(find(&tools, query), found, "another order, other tools");
    if let Some((server, name, _)) = tools.first() {
        let named = find(&tools, name);
        assert!(
            named.is_empty() || named[0].1.eq_ignore_ascii_case(name) || named[0].2 >= 1.0,
            "{server}.{name}: {named:?}"
        );
    }
});

/// Returns the servers, names and scores of what is found.
fn find(tools: &[(&str, &str, &str)], query: &str) -> Vec<(String, String, f64)> {
    let searchable = tools.iter().map(|(server, name, description)| SearchableTool {
        server,
        name,
        description: Some(description),
        input_schema: None,
    });
    let hits = SearchIndex::new(searchable).find(query, 10);
    let told = |(server, name, _): &(&str, &str, &str), score| ((*server).to_owned(), (*name).to_owned(), score);
    hits.into_iter().map(|hit| told(&tools[hit.tool], hit.score)).collect()
}
