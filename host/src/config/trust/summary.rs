//! What a trusted file said, without its values: enough to name what changed since.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::changed_keys;
use super::super::document::{self, Node, NodeValue};
use super::super::shape::ROOTS;
use crate::sha256::{Sha256, sha256_hex};

/// A change of a file since it was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustChange {
    /// What changed, such as `server "files" is new` or `servers.files.args changed`.
    pub text: String,
    /// The new or changed server in the file, if the change is about one that is still there.
    pub server: Option<String>,
}

/// Returns the keys of a file with a digest in place of each value, as JSON; `None` if the file cannot be read.
pub(super) fn summarize(text: &str, file: &Path) -> Option<String> {
    let document = document::read(text, &Arc::from(file)).ok()?;
    // The path makes the digests of equal values in other files differ.
    let salt = sha256_hex(file.as_os_str().as_encoded_bytes());
    Some(format!("{:#}\n", digests(&document.root, &salt)))
}

fn digests(node: &Node, salt: &str) -> Value {
    match &node.value {
        NodeValue::Scalar(scalar) => {
            let mut digest = Sha256::new();
            digest.update(salt);
            digest.update(&scalar.text);
            let mut digest = digest.hex();
            digest.truncate(16);
            Value::from(format!("{:?} {digest}", scalar.kind))
        }
        NodeValue::List(items) => items.iter().map(|item| digests(item, salt)).collect(),
        NodeValue::Map(entries) => {
            let pair = |entry: &document::MapEntry| (entry.key.clone(), digests(&entry.value, salt));
            Value::Object(entries.iter().map(pair).collect())
        }
    }
}

/// Returns the differences between two summaries.
pub(super) fn compare(before: &str, after: &str) -> Vec<TrustChange> {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let (old, new) = (read(before), read(after));
    let mut changes = Vec::new();
    for root in ROOTS {
        let servers = |map: &Map<String, Value>| map.get(root).and_then(Value::as_object).cloned().unwrap_or_default();
        let (old, new) = (servers(&old), servers(&new));
        for name in new.keys().filter(|name| !old.contains_key(*name)) {
            changes.push(TrustChange { text: format!("server {name:?} is new"), server: Some(name.clone()) });
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            changes.push(TrustChange { text: format!("server {name:?} is gone"), server: None });
        }
    }
    for path in changed_keys(before, after, Path::new("summary.json")) {
        let root = ROOTS.iter().find_map(|root| path.strip_prefix(root)?.strip_prefix('.'));
        // Only what starts a program, or is asked over the network, is worth showing.
        let server = root.and_then(|rest| rest.rsplit_once('.')).filter(|(_, key)| STARTS.contains(key));
        let server = server.map(|(name, _)| name.to_owned());
        let text = if path.is_empty() { "the whole file changed".to_owned() } else { format!("{path} changed") };
        changes.push(TrustChange { text, server });
    }
    changes
}

/// The keys of a server that say what is started or asked.
const STARTS: [&str; 7] = ["command", "cmd", "args", "url", "httpUrl", "serverUrl", "baseUrl"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_and_no_value_is_kept() {
        let file = Path::new("/p/toolgate.yaml");
        let before = "servers: {a: {command: x, args: [s3cret], env: {K: s3cret}}, b: {url: u}}\nread_only: true\n";
        let kept = summarize(before, file).unwrap();
        assert!(!kept.contains("s3cret"), "{kept}");
        let rows = [
            (before, ""),
            ("# a\nread_only: true\nservers: {b: {url: u}, a: {command: x, args: [s3cret], env: {K: s3cret}}}\n", ""),
            (
                "servers: {a: {command: x, args: [other], env: {K: t}}, c: {command: y}}\n",
                "server \"c\" is new (c); server \"b\" is gone; servers.a.args changed (a); servers.a.env changed; \
                 read_only changed",
            ),
        ];
        for (after, expected) in rows {
            let changes = compare(&kept, &summarize(after, file).unwrap());
            let shown = changes.iter().map(|change| match &change.server {
                Some(server) => format!("{} ({server})", change.text),
                None => change.text.clone(),
            });
            assert_eq!(shown.collect::<Vec<_>>().join("; "), expected, "{after}");
        }
        assert!(summarize("a: [", file).is_none());
    }
}
