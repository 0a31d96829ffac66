//! The names that `patternProperties` allows.
//!
//! Its patterns are expressions of ECMAScript. One that might mean something else here counts as matching every name, so
//! that nothing legal is refused: the server has the last word.

use super::Schema;
use crate::json::{Object, Value};
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The compiled patterns of each schema that was asked, by its place in memory.
#[derive(Debug, Default)]
pub(super) struct PatternCache(RefCell<BTreeMap<*const Value<'static>, Rc<Patterns>>>);

/// The patterns of one schema.
#[derive(Debug)]
enum Patterns {
    /// A name must match one of these to be allowed.
    Known(Vec<Regex>),
    /// Any name may be allowed.
    Unknown,
}

impl<'s> Schema<'s> {
    /// Reports whether a member with this name may be one that `patternProperties` describes.
    pub(super) fn has_pattern_for(self, name: &str) -> bool {
        let Some(value) = self.keyword("patternProperties") else { return false };
        let Some(patterns) = value.as_object() else { return true };
        // Classes such as `\w` mean the same in both languages for ASCII alone.
        if !name.is_ascii() || !self.walk.spend(1 + name.len() / 8) {
            return true;
        }
        let place = std::ptr::from_ref(value).cast();
        let mut cache = self.walk.patterns.0.borrow_mut();
        let compiled = cache.entry(place).or_insert_with(|| Rc::new(self.compile(patterns)));
        match &**compiled {
            Patterns::Known(patterns) => patterns.iter().any(|pattern| pattern.is_match(name)),
            Patterns::Unknown => true,
        }
    }

    /// Compiles patterns, which costs steps.
    fn compile(self, patterns: &Object<'_>) -> Patterns {
        if patterns.len() > MAX_PATTERNS {
            return Patterns::Unknown;
        }
        let mut known = Vec::with_capacity(patterns.len());
        for (pattern, _) in patterns.iter() {
            if !self.walk.spend(COMPILE_STEPS) || !means_the_same(pattern) {
                return Patterns::Unknown;
            }
            match RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build() {
                Ok(pattern) => known.push(pattern),
                Err(_) => return Patterns::Unknown,
            }
        }
        Patterns::Known(known)
    }
}

/// Reports whether an expression of ECMAScript that compiles here means the same here.
fn means_the_same(pattern: &str) -> bool {
    if pattern.len() > MAX_PATTERN {
        return false;
    }
    let mut in_class = false;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // Escapes that only one of the languages has, or that mean something else in it.
            '\\' => match letters.next() {
                Some('d' | 'w' | 's' | 'D' | 'W' | 'S' | 'b' | 'B' | 'n' | 'r' | 't' | 'f' | 'v') if !in_class => {}
                Some('d' | 'w' | 's' | 'n' | 'r' | 't' | 'f' | 'v') => {}
                Some(other) if other.is_ascii_punctuation() && !"<>".contains(other) => {}
                _ => return false,
            },
            '[' if in_class => return false,
            '[' => {
                in_class = true;
                letters.next_if_eq(&'^');
                // `[]` and `[^]` are whole classes there.
                if letters.peek() == Some(&']') {
                    return false;
                }
            }
            ']' => in_class = false,
            // Here, these make sets of classes.
            '&' | '~' | '-' if in_class && letters.peek() == Some(&letter) => return false,
            '(' if letters.peek() == Some(&'?') => {
                letters.next();
                if letters.peek() != Some(&':') {
                    return false;
                }
            }
            _ => {}
        }
    }
    pattern.is_ascii()
}

/// The maximum number of patterns of one schema that are looked at.
const MAX_PATTERNS: usize = 32;
/// The maximum length of a pattern that is looked at.
const MAX_PATTERN: usize = 256;
/// The maximum size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 64 << 10;
/// The steps of a walk that it costs to compile a pattern.
const COMPILE_STEPS: usize = 1_000;

#[cfg(test)]
mod tests {
    use crate::json::parse;
    use crate::schema::Walk;

    #[test]
    fn a_name_that_no_pattern_allows_is_known_where_the_patterns_are_sure() {
        for (pattern, name, expected) in [
            ("^x-", "x-a", true),
            ("^x-", "y", false),
            ("f.o", "fxo", true),
            ("f.o", "foo2", true),
            ("f.o", "bar", false),
            (r"^\\d+$", "12", true),
            (r"^\\d+$", "a", false),
            (r"^\\W$", "é", true),
            ("^[a-z]{2}$", "ab", true),
            ("^[a-z]{2}$", "a", false),
            (r"^a\\/b$", "a/b", true),
            ("^(?:a|b)$", "c", false),
            // What cannot be compiled, or might mean something else, allows every name.
            ("^(?=x)", "y", true),
            ("(?<n>x)", "y", true),
            ("(", "y", true),
            ("[[a]]", "y", true),
            ("[a&&b]", "y", true),
            ("[^]", "y", true),
            (r"\\cA", "y", true),
            (r"\\u0078", "y", true),
            ("(a{1000}){1000}", "y", true),
        ] {
            let schema = format!(r#"{{"patternProperties":{{"{pattern}":{{}}}}}}"#);
            let schema = parse(&schema).unwrap();
            let walk = Walk::new(&schema);
            assert_eq!(walk.top().has_pattern_for(name), expected, "{pattern} {name}");
        }
        for (schema, expected) in
            [("{}", false), (r#"{"patternProperties":{}}"#, false), (r#"{"patternProperties":5}"#, true)]
        {
            let schema = parse(schema).unwrap();
            assert_eq!(Walk::new(&schema).top().has_pattern_for("x"), expected, "{schema:?}");
        }
    }
}
