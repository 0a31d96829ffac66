//! A text that begins as a JSON object and does not go on as one: it is cut off, broken, or followed by words.
//!
//! Such a text is never taken for a plain text: half an object as the value of the one string that a tool requires would
//! be a wrong call that looks right.

use super::repair::{self, Begun, Repaired};
use super::{Refusal, is_known};
use crate::json::Value;
use crate::schema::Schema;

/// What a text means that begins as a JSON object.
pub(super) enum Beginning<'a> {
    /// The object, without the words after it.
    Object(Repaired<'a>),
    /// Nothing that is certain, and why.
    Problem(String),
}

/// Reads a text that begins as a JSON object; returns `None` if it does not.
pub(super) fn read<'a>(text: &'a str, schema: Option<Schema<'_>>) -> Result<Option<Beginning<'a>>, Refusal> {
    if text.starts_with("\"{\\\"") {
        return Ok(Some(problem("is cut off: send it whole")));
    }
    let object = text.strip_prefix('[').map_or(text, str::trim_start);
    if !begins_as_object(object) {
        return Ok(None);
    }
    Ok(Some(match repair::begun(text)? {
        Begun::Complete(read, end) if is_words(&text[end..]) && is_meant(&read.value, schema) => {
            Beginning::Object(read)
        }
        Begun::Complete(..) => problem("goes on with other text: send the object alone"),
        Begun::CutOff => problem("is cut off: send it whole"),
        Begun::Broken(at) => problem(&format!("is broken at byte {at}: send correct JSON")),
    }))
}

fn problem(what: &str) -> Beginning<'static> {
    Beginning::Problem(format!("the text begins as a JSON object that {what}"))
}

/// Reports whether a value can be the arguments: an object with a property of the schema, if it lists any.
fn is_meant(value: &Value<'_>, schema: Option<Schema<'_>>) -> bool {
    let is_open = schema.is_none_or(|schema| !schema.lists_properties());
    is_open && value.as_object().is_some() || is_known(value, schema)
}

/// Reports whether a text after an object can only be words about it, and not more of the arguments.
fn is_words(rest: &str) -> bool {
    let rest = rest.trim_start();
    !rest.contains(['{', '}']) && !rest.starts_with([',', ':', '[', ']', '"', '\'', '+', '|', '&', '='])
}

/// Reports whether a text begins with a brace and a key. `{app="nginx"}` and `{ user { name } }` do not.
fn begins_as_object(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('{') else { return false };
    let inside = inside.trim_start();
    let Some(first) = inside.chars().next() else { return true };
    if let Some(closers) = repair::closers(first) {
        let key = &inside[first.len_utf8()..];
        return match key.find(|letter| closers.contains(letter)) {
            Some(end) => {
                let mut after = key[end..].chars();
                after.next();
                let after = after.as_str().trim_start();
                after.is_empty() || after.starts_with(':')
            }
            // The text ends inside the key.
            None => true,
        };
    }
    let key = inside.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_$-.".contains(letter));
    let Some(value) = key.trim_start().strip_prefix(':') else { return false };
    key.len() < inside.len() && begins_as_value(value.trim_start())
}

/// Reports whether a text begins as a JSON value, or ends before one.
fn begins_as_value(text: &str) -> bool {
    let words = ["true", "false", "null", "True", "False", "None"];
    match text.chars().next() {
        None => true,
        Some('{' | '[' | '-' | '0'..='9') => true,
        Some(first) => repair::closers(first).is_some() || words.iter().any(|word| text.starts_with(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::begins_as_object;

    #[test]
    fn a_brace_and_a_key_begin_an_object() {
        for text in [
            "{",
            "{ \n",
            "{\"",
            "{\"ci",
            "{\"city\"",
            "{ \"city\" : x",
            "{'city': 'Par",
            "{“city”: “Par",
            "{city: \"Par",
            "{n: 1",
            "{on: true, x",
            "{city:",
        ] {
            assert!(begins_as_object(text), "{text}");
        }
        for text in [
            "",
            "{}",
            "{} apples",
            "{app=\"nginx\"}",
            "{\"my.metric\", job=\"x\"}",
            "{ user(id: 1) { name } }",
            "{ first: user(id: 1) { name } }",
            "{{ template }}",
            "{not json",
            "{a, b}",
            "{: 1}",
            "{\0",
        ] {
            assert!(!begins_as_object(text), "{text}");
        }
    }
}
