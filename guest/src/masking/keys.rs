//! Values that a key names: where a key and its value are, and which values are secrets.

use super::automata::Expression;
use super::named_values::{NameRelation, is_long_word, looks_secret};
use super::{Span, values};

/// A key, and what its value must be.
#[derive(Debug)]
pub(super) struct KeyRule {
    /// The key with the sign after it.
    key: &'static Expression,
    /// The minimum length of the value.
    least: usize,
}

impl KeyRule {
    /// Makes the rule for a key that has values of at least so many bytes.
    pub(super) fn new(key: &'static Expression, least: usize) -> Self {
        KeyRule { key, least }
    }

    /// Reports the value of the key that begins here, if it is a secret; returns where to look next, or `None` if no
    /// key begins here.
    pub(super) fn look(&self, text: &str, start: usize, report: &mut dyn FnMut(Span)) -> Option<usize> {
        let at = self.key.end(text, start)?;
        let key = &text[start..at];
        let by_sign = key.trim_end_matches([' ', '\t']).ends_with([':', '=', '>']);
        let flag = is_flag(text, start);
        if !by_sign && !flag {
            return Some(at);
        }
        let name = key.to_ascii_lowercase();
        let is_password = is_password(&name);
        let Some(mut span) = values::after(text, key, at) else { return Some(at) };
        let in_quotes = text[at..span.start].ends_with(['"', '\'', '`']);
        let behind = text[span.end..].trim_start_matches('\\');
        let closed = !in_quotes || behind.starts_with(['"', '\'', '`']);
        // The next string in an object is a key, not the value of a flag at the end of the string before.
        if !by_sign && in_quotes && closed && behind[1..].trim_start().starts_with(':') {
            return Some(at);
        }
        if !is_password {
            let credential = after_scheme(text, span.start);
            // A bare value ends at the blank after its scheme; the word after that is the credential.
            if !in_quotes && credential > span.start {
                span.end = values::after(text, "", credential).map_or(credential, |rest| rest.end);
            }
            span.start = credential.min(span.end);
        }
        let value = &text[span.start..span.end];
        // The value of a flag counts even if it is short; a placeholder such as `<TOKEN>` is already excluded.
        let least = if flag && !value.starts_with(['-', '$', '%']) { 1 } else { self.least };
        // `Token::Value(x)` is a name in code.
        let is_path_of_code = !is_password && value.starts_with(':');
        let is_code = !in_quotes && (value.ends_with(['(', '[']) || is_accessor(value) || is_path_of_code);
        let is_prose = !in_quotes && key.ends_with(": ") && is_prose(value, &text[span.end..]);
        let is_path = name.starts_with("pwd") && value.starts_with(['/', '~']);
        let is_cursor = is_cursor(&name);
        let is_secret = values::unmasked_length(value) >= least
            && !(is_word_or_reference(value) || is_path || is_cursor || is_code)
            && (is_password || in_quotes || !value.contains([' ', '\t']) && !is_prose);
        if is_secret {
            report(span);
        }
        // Quoted text that is no secret may still contain one, and so may the rest of the line after an unclosed quote;
        // a bare value has been read completely.
        Some(if closed && (is_secret || !in_quotes) { at.max(span.end) } else { at })
    }

    /// Returns the end of the key that begins here.
    pub(super) fn key_end(&self, text: &str, at: usize) -> Option<usize> {
        self.key.end(text, at)
    }

    /// Reports whether a value that is not beside its key, which is in lower case, is a secret.
    pub(super) fn is_secret(&self, key: &str, value: &str, relation: NameRelation) -> bool {
        let is_meant = match relation {
            NameRelation::Entry => true,
            NameRelation::Column => is_password(key) || looks_secret(value),
            NameRelation::Below => looks_secret(value) || is_password(key) && is_long_word(value),
            NameRelation::Loose => looks_secret(value),
        };
        is_meant
            && values::unmasked_length(value) >= self.least
            && !(is_word_or_reference(value) || is_cursor(key) || is_accessor(value))
    }
}

fn is_password(key: &str) -> bool {
    ["pass", "pwd", "_pass"].iter().any(|start| key.starts_with(start))
}

/// Reports whether a key is a page token, which is not a secret.
fn is_cursor(key: &str) -> bool {
    key.starts_with("page") || key.starts_with("continuation")
}

/// Reports whether a key belongs to a command-line flag such as `--db-password`.
fn is_flag(text: &str, key: usize) -> bool {
    let before = &text.as_bytes()[key.saturating_sub(MAX_FLAG)..key];
    let name = before.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
    before[before.len() - name..].starts_with(b"-")
}

/// The maximum length of a flag before its key.
const MAX_FLAG: usize = 48;

/// Returns the position of the credential, after `Bearer`, `Basic` or the like.
fn after_scheme(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    for scheme in ["bearer", "basic", "token", "digest", "apikey", "negotiate"] {
        if rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)) {
            let blanks = rest[scheme.len()..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            return if blanks > 0 { at + scheme.len() + blanks } else { at };
        }
    }
    at
}

/// Reports whether a value is code that reads the secret from elsewhere: `os.environ`, `process.env.TOKEN`,
/// `getPassword()`.
fn is_accessor(value: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (path, call) =
        value.strip_suffix("()").or_else(|| value.strip_suffix("();")).map_or((value, false), |path| (path, true));
    let environment = ["os.environ", "process.env.", "env.", "ENV["].iter().any(|start| path.starts_with(start));
    (call || environment) && path.split('.').all(is_name)
}

/// Reports whether a value is a type, an absence, or a variable whose value is elsewhere.
fn is_word_or_reference(value: &str) -> bool {
    let word = value.to_ascii_lowercase();
    let inside = |open: &str, close: &str| {
        value
            .strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(close))
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte)))
    };
    ["string", "integer", "boolean", "number", "object", "undefined", "required", "optional"].contains(&word.as_str())
        || inside("${", "}")
        || inside("$(", ")")
        || inside("{{", "}}")
}

/// Reports whether a value is a word followed by another one: `unexpected token: identifier expected`.
fn is_prose(value: &str, rest: &str) -> bool {
    let mut following = rest.chars().take(2);
    value.bytes().all(|byte| byte.is_ascii_alphabetic())
        && value.len() < 20
        && following.next() == Some(' ')
        && following.next().is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_prose_is_short_and_another_word_follows_it() {
        let long = "a".repeat(20);
        for (value, rest, expected) in [
            ("identifier", " expected", true),
            ("identifier", "", false),
            ("identifier", "  expected", false),
            ("identifier", ", expected", false),
            ("identifier", " - expected", false),
            ("identifier2", " expected", false),
            (&long[..19], " expected", true),
            (&long, " expected", false),
        ] {
            assert_eq!(is_prose(value, rest), expected, "{value}{rest}");
        }
    }

    #[test]
    fn an_accessor_is_a_path_of_names_that_is_called_or_of_the_environment() {
        for (value, expected) in [
            ("os.environ", true),
            ("process.env.API_KEY", true),
            ("getPassword()", true),
            ("config.get();", true),
            ("_private()", true),
            ("1get()", false),
            ("get-it()", false),
            ("env.A-B", false),
            ("getPassword", false),
            ("()", false),
        ] {
            assert_eq!(is_accessor(value), expected, "{value}");
        }
    }

    #[test]
    fn a_credential_begins_behind_its_scheme_and_a_blank() {
        for (text, expected) in [("Bearer abc", 7), ("basic \tabc", 7), ("bearerabc", 0), ("abc", 0)] {
            assert_eq!(after_scheme(text, 0), expected, "{text}");
        }
    }
}
