//! What has come into a list of names and globs, or has gone from it.

/// The patterns of the old list that no pattern of the new one covers.
pub fn removed_patterns<'p>(before: &'p [String], after: &'p [String]) -> impl Iterator<Item = &'p String> {
    before.iter().filter(|old| !old.trim().is_empty() && !after.iter().any(|new| covers(new, old)))
}

/// The patterns of the new list that no pattern of the old one covers.
pub fn added_patterns<'p>(before: &'p [String], after: &'p [String]) -> impl Iterator<Item = &'p String> {
    removed_patterns(after, before)
}

/// Whether two names of tools are one to the rules, which trim them and make no difference of case.
pub fn is_same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// Whether every name that fits the second pattern fits the first. Some that do may be taken for one that does not.
fn covers(wide: &str, narrow: &str) -> bool {
    let (wide, narrow) = (plain(wide), plain(narrow));
    if wide == "*" || wide == "any" || wide == narrow {
        return true;
    }
    // A star of the wide pattern also takes the wildcards of the narrow one; a question mark takes one letter alone.
    let mut parts = wide.split('*');
    let (Some(first), false) = (parts.next(), wide.contains('?')) else { return false };
    let Some(mut rest) = narrow.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn plain(pattern: &str) -> String {
    pattern.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_pattern_covers_what_it_would_let_through_itself() {
        for (wide, narrow, expected) in [
            ("get_*", "get_pods", true),
            ("get_*", " GET_* ", true),
            ("get_*", "get_pod*", true),
            ("get_*", "get*", false),
            ("get_*", "*", false),
            ("*", "x?", true),
            ("any", "*", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a*c", false),
            ("ab*ba", "aba", false),
            ("a?", "a*", false),
            ("a?", "ab", false),
            ("a?", "a?", true),
            ("get", "gets", false),
            ("", "x", false),
        ] {
            assert_eq!(covers(wide, narrow), expected, "{wide} {narrow}");
        }
    }
}
