//! Unknown keys that look like rules: they become errors, so that a typing error never permits what it should forbid.

use super::super::document::MapEntry;
use super::super::nearest;
use super::ignorable::is_ignorable;
use super::key::ConfigKey;

/// Returns the rule that an unknown key of a table probably stands for, if it looks like one.
pub(crate) fn intended_rule<T>(keys: &[ConfigKey<T>], entry: &MapEntry) -> Option<&'static str> {
    let rules = || keys.iter().filter(|key| key.is_rule);
    rules().next()?;
    let near = rules().find(|key| key.names().any(|name| is_near(name, &entry.key))).map(|key| key.name);
    let of_all = || FOR_ALL.into_iter().find(|name| is_near(name, &entry.key));
    near.or_else(of_all).or_else(|| rule_by_words(&entry.key)).or_else(|| nested_rule(entry, 2))
}

/// Returns the rule that an unknown top-level key of another client's file probably stands for. If the file contains
/// only servers, every key that sounds like a rule counts; in a settings file, it belongs to the client.
pub(crate) fn intended_top_rule<T>(
    keys: &[ConfigKey<T>],
    entry: &MapEntry,
    only_servers: bool,
) -> Option<&'static str> {
    let name = entry.key.as_str();
    if CLIENTS.iter().any(|known| nearest::is_same_word(known, name)) {
        return None;
    }
    let restricts = |key: &&ConfigKey<T>| key.is_rule || matches!(key.name, "gateway" | "record");
    let near = keys.iter().filter(restricts).find(|key| is_near(key.name, name)).map(|key| key.name);
    let inner = || {
        let entries = entry.value.entries().unwrap_or_default();
        let named = |rule: &&'static str| entries.iter().any(|inner| nearest::is_same_word(rule, &inner.key));
        FOR_ALL.into_iter().chain(["masking"]).find(named)
    };
    near.or_else(|| rule_by_words(name).or_else(inner).filter(|_| only_servers))
}

/// Returns the message for a key of a server that looks like a misspelt rule.
pub(crate) fn advice(name: &str, meant: &str) -> String {
    rule_advice(name, &hint(name, meant))
}

/// Returns the end of a message that names the rule which a key of a server, or of one of its tools, probably stands for.
pub(crate) fn hint(name: &str, meant: &str) -> String {
    let is_for_all = FOR_ALL.contains(&meant);
    if nearest::is_same_word(name, meant) && !is_for_all {
        return format!("; write it in the server, with names of tools, such as `{meant}: [delete_*]`");
    }
    let place = if is_for_all { " at the top of the file" } else { "" };
    format!("; did you mean {meant:?}{place}?")
}

/// Returns the message for a top-level key that looks like a misspelt rule.
pub(crate) fn advice_at_top(name: &str, meant: &str) -> String {
    let place = if matches!(meant, "allow" | "deny" | "ask") { " of a server" } else { "" };
    rule_advice(name, &format!("; did you mean {meant:?}{place}?"))
}

fn rule_advice(name: &str, hint: &str) -> String {
    format!("unknown key {name:?} looks like a rule, and rules are never ignored{hint} If it is not one, remove it")
}

/// Reports whether a key is a likely misspelling of a known one; short words may differ in one letter only.
fn is_near(known: &str, name: &str) -> bool {
    let (known, name) = (nearest::fold(known), nearest::fold(name));
    let longest = known.chars().count().max(name.chars().count());
    longest <= 64
        && !COMMON.contains(&known.as_str())
        && strsim::damerau_levenshtein(&known, &name) <= ((longest + 1) / 4).max(1)
}

/// Returns the rule that one of the words in a key belongs to.
fn rule_by_words(name: &str) -> Option<&'static str> {
    if is_ignorable(name) || name.len() > 64 {
        return None;
    }
    let words = words(name);
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
    if has(&["ask", "asks", "asking"]) {
        return Some("ask");
    }
    if has(&["block", "blocks", "blocked", "blocklist"]) {
        return Some("deny");
    }
    if words.iter().any(|word| word.starts_with("mask")) {
        return Some("masking");
    }
    if has(&["tool", "tools"])
        && has(&["only", "filter", "filters", "enabled", "disabled", "include", "included", "hidden"])
    {
        return Some("allow");
    }
    let folded = nearest::fold(name).replace("shallow", "");
    STEMS.iter().find(|(stem, _)| folded.contains(stem)).map(|(_, rule)| *rule)
}

/// Returns the rule that a nested key sounds like, as in `"toolConfiguration": {"allowedTools": []}`.
fn nested_rule(entry: &MapEntry, depth: usize) -> Option<&'static str> {
    let inner = entry.value.entries().filter(|_| depth > 0)?;
    inner.iter().find_map(|entry| rule_by_words(&entry.key).or_else(|| nested_rule(entry, depth - 1)))
}

/// Splits a key into lower-case words, at punctuation and at capitals.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || lower && letter.is_uppercase() {
            words.push(String::new());
        }
        lower = letter.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

/// Parts of words that people use for rules, each with the nearest rule of toolgate.
const STEMS: [(&str, &str); 15] = [
    ("disallow", "deny"),
    ("allow", "allow"),
    ("whitelist", "allow"),
    ("deny", "deny"),
    ("denied", "deny"),
    ("forbid", "deny"),
    ("blacklist", "deny"),
    ("exclude", "deny"),
    ("restrict", "deny"),
    ("redact", "masking"),
    ("approv", "ask"),
    ("confirm", "ask"),
    ("permission", "ask"),
    ("readonly", "read_only"),
    ("destructive", "destructive"),
];

/// Rules for all servers that people also write in a single server.
const FOR_ALL: [&str; 2] = ["read_only", "destructive"];

/// Known names that are only matched exactly, because ordinary words are close to them.
const COMMON: [&str; 5] = ["ask", "active", "enable", "disable", "retry"];

/// Top-level keys that clients write about themselves.
const CLIENTS: [&str; 13] = [
    "permissions",
    "permission",
    "coreTools",
    "allowedTools",
    "excludeTools",
    "includedTools",
    "filteredTools",
    "allowDevTools",
    "approvalPolicy",
    "approvalMode",
    "approvalsReviewer",
    "allowMCPServers",
    "excludeMCPServers",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_key_are_found_however_it_is_written() {
        for (name, expected) in [
            ("toolsDeny", &["tools", "deny"][..]),
            ("read_only", &["read", "only"]),
            ("MAX-Size", &["max", "size"]),
            ("x", &["x"]),
        ] {
            assert_eq!(words(name), expected, "{name}");
        }
    }

    #[test]
    fn words_that_only_look_like_others_are_no_rules() {
        for name in ["shallowClone", "umask", "task", "basket", "netmask", "includeInstructions", "toolTimeout"] {
            assert_eq!(rule_by_words(name), None, "{name}");
        }
    }
}
