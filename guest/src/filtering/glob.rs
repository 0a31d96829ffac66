//! Lists of name patterns with `*` and `?`, trimmed and case-insensitive.

use crate::broad;

/// A list of patterns, of which one must match.
#[derive(Debug)]
pub(crate) struct Globs(Vec<Glob>);

#[derive(Debug)]
struct Glob {
    /// The pattern as written, for the trace.
    text: String,
    /// The pattern in lower case.
    pattern: String,
}

impl Globs {
    /// Compiles a list that allows tools; blank patterns are dropped.
    pub(super) fn permitting(patterns: &[String]) -> Self {
        let glob = |text: &str| Glob { text: text.to_owned(), pattern: text.to_lowercase() };
        Globs(patterns.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).map(glob).collect())
    }

    /// Compiles a list that restricts tools. Here `any` means `*`: taken literally, it would leave all other tools
    /// open.
    pub(crate) fn restricting(patterns: &[String]) -> Self {
        let mut globs = Self::permitting(patterns);
        globs.0.iter_mut().filter(|glob| glob.pattern == "any").for_each(|glob| glob.pattern = "*".to_owned());
        globs
    }

    /// Returns a list that matches everything, for a key that is not configured.
    pub(super) fn all() -> Self {
        Globs(vec![Glob { text: String::new(), pattern: "*".to_owned() }])
    }

    /// Reports whether a single pattern matches everything.
    pub(super) fn fit_all(&self) -> bool {
        self.0.iter().any(|glob| glob.pattern == "*")
    }

    /// Returns the first pattern that matches, as written.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        self.0.iter().find(|glob| fits(glob.pattern.as_bytes(), name.as_bytes())).map(|glob| &*glob.text)
    }
}

/// Says what is wrong with a name or glob that can never match, because it is written in another syntax.
pub(crate) fn pattern_problem(pattern: &str) -> Option<String> {
    let pattern = pattern.trim();
    let is_odd = |sign: char| {
        "[]{}()\\^$|,".contains(sign) || sign.is_whitespace() || sign.is_control() || broad::is_invisible(sign)
    };
    (pattern.starts_with('!') || pattern.contains(is_odd)).then(|| {
        format!(
            "{pattern:?} is not a valid glob: only `*` (any run of characters) and `?` (any one character) have a \
             meaning; write each tool as an item of its own, and `?` for such a character in its name"
        )
    })
}

/// Reports whether a configured name means this one, ignoring case and surrounding blanks.
pub(super) fn is_same(written: &str, name: &str) -> bool {
    written.trim().to_lowercase() == name.to_lowercase()
}

/// Reports whether the pattern matches the whole name: on a mismatch, the last `*` takes one more byte.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(b'?') => (p, n) = (p + 1, n + 1),
            Some(byte) if *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => (p, n) = (at, taken + 1),
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{fits, is_same, pattern_problem};

    #[test]
    fn stars_fit_any_run_and_question_marks_one_byte() {
        for (pattern, name, expected) in [
            ("get_*", "get_pods", true),
            ("get_*", "get_", true),
            ("get_*", "forget_x", false),
            ("*_pod*", "delete_pods", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("a*bc", "abbc", true),
            ("a*bc", "ab", false),
            ("*a", "aaab", false),
            ("a*?", "a", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**", "x", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_in_another_syntax_has_a_problem() {
        for pattern in
            ["{delete,drop}_*", "[dD]elete*", "!x", " !x", "^x$", "a|b", "a,b", "a b", "a\\*", "(a)", "a\u{200b}b"]
        {
            let problem = pattern_problem(pattern).expect(pattern);
            assert!(problem.contains("is not a valid glob"), "{problem}");
        }
        for pattern in ["*", "get_*", "a?b", " x ", "any", "a.b/c-d:e", "größe", ""] {
            assert_eq!(pattern_problem(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn names_are_the_same_whatever_their_case_in_any_script() {
        for (written, name, expected) in [
            (" Git ", "git", true),
            ("git", "GIT", true),
            ("GRÜN", "grün", true),
            ("grün", "grun", false),
            ("a", "b", false),
        ] {
            assert_eq!(is_same(written, name), expected, "{written} {name}");
        }
    }
}
