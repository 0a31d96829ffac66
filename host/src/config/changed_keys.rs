//! Finds the keys that differ between two versions of a file.

use std::path::Path;
use std::sync::Arc;

use super::document::{self, Node, NodeValue};
use super::shape::ROOTS;

/// Returns the paths of keys whose values differ, such as `servers.files.deny`; added and removed servers are not among
/// them.
pub fn changed_keys(before: &str, after: &str, file: &Path) -> Vec<String> {
    let file: Arc<Path> = file.into();
    let mut paths = Vec::new();
    if let (Ok(before), Ok(after)) = (document::read(before, &file), document::read(after, &file)) {
        compare(&before.root, &after.root, "", 0, &mut paths);
    }
    paths
}

fn compare(before: &Node, after: &Node, path: &str, depth: usize, paths: &mut Vec<String>) {
    let (Some(old), Some(new)) = (before.entries(), after.entries()) else {
        if !is_same(before, after) {
            paths.push(path.to_owned());
        }
        return;
    };
    let holds_servers = ROOTS.contains(&path);
    let gone = old.iter().filter(|entry| after.at(&entry.key).is_none());
    let counts = |entry: &&document::MapEntry| !UNCOUNTED.contains(&entry.key.as_str());
    for entry in new.iter().chain(gone).filter(counts) {
        let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        match (before.at(&entry.key), after.at(&entry.key)) {
            (Some(old), Some(new)) if depth < DEEPEST => compare(old, new, &path, depth + 1, paths),
            (Some(old), Some(new)) if is_same(old, new) => {}
            (None, _) | (_, None) if holds_servers => {}
            _ => paths.push(path),
        }
    }
}

/// Reports whether two values are the same, wherever they stand.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (NodeValue::Scalar(one), NodeValue::Scalar(other)) => one.text == other.text && one.kind == other.kind,
        (NodeValue::List(one), NodeValue::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (NodeValue::Map(entries), NodeValue::Map(others)) => {
            let same =
                |entry: &document::MapEntry| other.at(&entry.key).is_some_and(|value| is_same(&entry.value, value));
            entries.len() == others.len() && entries.iter().all(same)
        }
        _ => false,
    }
}

/// Keys that change nothing.
const UNCOUNTED: [&str; 2] = ["version", "$schema"];
/// How many levels of keys are named.
const DEEPEST: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_differ_are_named_and_no_others() {
        let rows = [
            ("read_only: true", "version: 1\nread_only: true # as before", ""),
            ("{}", "shadow: {config: next.yaml}", "shadow"),
            ("destructive: ask", "destructive: deny", "destructive"),
            (
                "servers: {a: {command: x, ask: [y]}}",
                "servers: {a: {command: x, deny: [y]}}",
                "servers.a.deny servers.a.ask",
            ),
            ("servers: {a: {command: x}}", "servers: {b: {command: x}}", ""),
            ("gateway: {tokens: [1, 2]}", "gateway: {tokens: [1, 3]}", "gateway.tokens"),
            ("servers: {a: {env: {X: 1}}}", "servers: {a: {env: {X: 2}}}", "servers.a.env"),
            ("servers: {a: {env: {X: 1, Y: 2}}}", "servers: {a: {env: {Y: 2, X: 1}}}", ""),
        ];
        for (before, after, expected) in rows {
            assert_eq!(changed_keys(before, after, Path::new("toolgate.yaml")).join(" "), expected, "{after}");
        }
    }
}
