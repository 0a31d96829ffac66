//! Compares two lists of names and globs.

/// Returns the patterns of the old list that no pattern of the new one covers.
pub(super) fn removed_patterns<'p>(before: &'p [String], after: &'p [String]) -> impl Iterator<Item = &'p String> {
    before.iter().filter(|old| !old.trim().is_empty() && !after.iter().any(|new| covers(new, old)))
}

/// Returns the patterns of the new list that no pattern of the old one covers.
pub(super) fn added_patterns<'p>(before: &'p [String], after: &'p [String]) -> impl Iterator<Item = &'p String> {
    removed_patterns(after, before)
}

/// Reports whether two tool names are equal to the rules, which trim them and ignore case.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// Reports whether every name that matches `narrow` also matches `wide`; may return false although it does.
fn covers(wide: &str, narrow: &str) -> bool {
    let (wide, narrow) = (plain(wide), plain(narrow));
    if wide == "*" || wide == "any" || wide == narrow {
        return true;
    }
    // A `*` in `wide` also covers wildcards in `narrow`; a `?` covers only one letter.
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
