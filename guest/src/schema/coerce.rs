//! Converts values to what the schema asks for, if they can mean only one thing.

use super::check::fits;
use super::{Kinds, MAX_NOTES, MAX_WALK, Path, Schema, Walk, measure, shown};
use crate::json::{self, Value, is_number};

/// The source of the values, which decides how freely they are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// JSON, in which a list is written as a list.
    Json,
    /// Text such as `tags: a`, in which one word can stand for a list of one.
    Text,
}

/// Converts values of the wrong kind to the kind that the schema asks for; returns a note for each change.
///
/// A value of an accepted kind stays as it is, so nothing is over-parsed.
pub fn coerce(value: &mut Value<'_>, schema: &Value<'_>, source: Source) -> Vec<String> {
    let walk = Walk::new(schema);
    let mut coercion = Coercion { source, notes: Vec::new() };
    coercion.value(value, walk.top(), Path::Top, 0);
    coercion.notes
}

/// Reports whether a value is of one of these kinds, or would be after coercion.
pub fn coercible(value: &Value<'_>, kinds: Kinds) -> bool {
    kinds.has(Kinds::of(value)) || converted(value, kinds).is_some()
}

struct Coercion {
    source: Source,
    notes: Vec<String>,
}

impl Coercion {
    fn value(&mut self, value: &mut Value<'_>, schema: Schema<'_>, path: Path<'_>, depth: usize) {
        if depth > MAX_WALK || !schema.walk.spend(1) {
            return;
        }
        let kinds = schema.kinds();
        if !kinds.has(Kinds::of(value)) {
            // Parsing a string costs as much as reading it.
            let length = value.as_str().map_or(0, str::len);
            if !schema.walk.spend(length / 8) {
                return;
            }
            if let Some(other) = converted(value, kinds) {
                self.note(path, value, &other);
                *value = other;
            } else if self.source == Source::Text && kinds.has(Kinds::ARRAY) && is_item(value) {
                self.note(path, value, &Value::Array(Vec::new()));
                *value = Value::Array(vec![std::mem::replace(value, Value::Null)]);
            } else {
                return;
            }
        }
        self.inside(value, schema, path, depth);
        for branch in schema.branches("allOf") {
            self.value(value, branch, path, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            self.alternatives(value, schema, path, keyword, depth);
        }
    }

    /// Continues with the items or members of a value.
    fn inside(&mut self, value: &mut Value<'_>, schema: Schema<'_>, path: Path<'_>, depth: usize) {
        match value {
            Value::Array(items) => {
                let first = schema.keyword("prefixItems").and_then(Value::as_array).unwrap_or_default();
                let rest = schema.keyword("items");
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(one) = first.get(index).or(rest) {
                        self.value(item, schema.at(one), Path::Item(&path, index), depth + 1);
                    }
                }
            }
            Value::Object(members) => {
                let properties = schema.properties();
                for (name, value) in members.iter_mut() {
                    let named = properties.and_then(|all| schema.lookup(all, name));
                    if let Some(one) = named.or_else(|| schema.additional(name)) {
                        self.value(value, schema.at(one), Path::Member(&path, name), depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    /// Keeps a value that matches one alternative; otherwise uses the first alternative that it matches after coercion.
    fn alternatives(&mut self, value: &mut Value<'_>, schema: Schema<'_>, path: Path<'_>, keyword: &str, depth: usize) {
        // A scalar already has an accepted kind; only the inside of a list or an object can still change.
        if is_scalar(value) || schema.branches(keyword).any(|branch| fits(value, branch, depth + 1)) {
            return;
        }
        for branch in schema.branches(keyword).filter(|branch| branch.kinds().has(Kinds::of(value))) {
            if !schema.walk.spend(measure(value).0) {
                return;
            }
            let mut trial = value.clone();
            let known = self.notes.len();
            self.value(&mut trial, branch, path, depth + 1);
            if fits(&trial, branch, depth + 1) {
                *value = trial;
                return;
            }
            self.notes.truncate(known);
        }
    }

    fn note(&mut self, path: Path<'_>, from: &Value<'_>, to: &Value<'_>) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(format!("{path}read {} as {}", shown(from), shown(to)));
        }
    }
}

/// Returns what else a value of a wrong kind can mean.
fn converted<'a>(value: &Value<'a>, kinds: Kinds) -> Option<Value<'a>> {
    match value {
        Value::String(text) => {
            let text = text.trim();
            if is_number(text) {
                let whole = !text.contains(['.', 'e', 'E']);
                let fits = kinds.has(Kinds::FRACTION) || whole && kinds.has(Kinds::INTEGER);
                return fits.then(|| Value::Number(text.to_owned().into()));
            }
            let word = |word: &str| text.eq_ignore_ascii_case(word);
            if word("true") || word("false") {
                return kinds.has(Kinds::BOOLEAN).then(|| Value::Bool(word("true")));
            }
            if word("null") || word("none") {
                return kinds.has(Kinds::NULL).then_some(Value::Null);
            }
            let bracket = match text.as_bytes().first()? {
                b'{' => Kinds::OBJECT,
                b'[' => Kinds::ARRAY,
                _ => return None,
            };
            if kinds.has(bracket) { json::parse(text).ok().map(Value::into_owned) } else { None }
        }
        Value::Number(digits) if kinds.has(Kinds::STRING) => Some(Value::String(digits.clone())),
        Value::Bool(truth) if kinds.has(Kinds::STRING) => Some(Value::string(if *truth { "true" } else { "false" })),
        _ => None,
    }
}

/// Reports whether a value is a string, a number or a boolean.
fn is_scalar(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

/// Reports whether a value can be the only item of a list; a text in brackets is a list that could not be read.
fn is_item(value: &Value<'_>) -> bool {
    is_scalar(value) && !value.as_str().is_some_and(|text| text.starts_with(['[', '{']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn coerced(schema: &str, value: &str, source: Source) -> (String, Vec<String>) {
        let mut value = parse(value).unwrap();
        let notes = coerce(&mut value, &parse(schema).unwrap(), source);
        (value.to_json(), notes)
    }

    #[test]
    fn a_value_of_the_wrong_kind_becomes_the_right_one() {
        for (schema, value, expected, note) in [
            (r#"{"type":"integer"}"#, r#""12""#, "12", r#"read string "12" as integer 12"#),
            (r#"{"type":"number"}"#, r#"" 1.50 ""#, "1.50", r#"read string " 1.50 " as number 1.50"#),
            (r#"{"type":"string"}"#, "1.10", r#""1.10""#, r#"read number 1.10 as string "1.10""#),
            (r#"{"type":"string"}"#, "true", r#""true""#, r#"read boolean true as string "true""#),
            (r#"{"type":"boolean"}"#, r#""TRUE""#, "true", r#"read string "TRUE" as boolean true"#),
            (r#"{"type":["integer","null"]}"#, r#""None""#, "null", r#"read string "None" as null"#),
            (r#"{"type":"object"}"#, r#""{\"a\":1}""#, r#"{"a":1}"#, r#"read string "{\"a\":1}" as object"#),
            (r#"{"type":"array"}"#, r#""[1]""#, "[1]", r#"read string "[1]" as array"#),
            (r#"{"enum":["1","2"]}"#, "1", r#""1""#, r#"read integer 1 as string "1""#),
            (r#"{"items":{"type":"integer"}}"#, r#"["5"]"#, "[5]", r#""[0]": read string "5" as integer 5"#),
            (
                r#"{"properties":{"a":{"properties":{"b":{"type":"integer"}}}}}"#,
                r#"{"a":{"b":"5"}}"#,
                r#"{"a":{"b":5}}"#,
                r#""a.b": read string "5" as integer 5"#,
            ),
            (
                r#"{"anyOf":[{"properties":{"t":{"const":"x"}}},{"properties":{"t":{"const":"y"},"n":{"type":"integer"}}}]}"#,
                r#"{"t":"y","n":"5"}"#,
                r#"{"t":"y","n":5}"#,
                r#""n": read string "5" as integer 5"#,
            ),
            (
                r#"{"anyOf":[{"required":["a"]},{"properties":{"n":{"type":"integer"}}}]}"#,
                r#"{"n":"5"}"#,
                r#"{"n":5}"#,
                r#""n": read string "5" as integer 5"#,
            ),
        ] {
            let (json, notes) = coerced(schema, value, Source::Json);
            assert_eq!((json.as_str(), notes.join("; ").as_str()), (expected, note), "{schema} {value}");
        }
    }

    #[test]
    fn what_fits_or_cannot_be_mended_stays() {
        for (schema, value) in [
            (r#"{"type":"string"}"#, r#""{\"a\":1}""#),
            (r#"{"type":"string"}"#, r#""007""#),
            (r#"{"type":["string","integer"]}"#, r#""12""#),
            (r#"{"type":["string","integer"]}"#, "12"),
            (r#"{"anyOf":[{"type":"string"},{"type":"object"}]}"#, r#""{}""#),
            (r#"{"type":"integer"}"#, r#""5.0""#),
            (r#"{"type":"integer"}"#, r#""007""#),
            (r#"{"type":"integer"}"#, r#""abc""#),
            (r#"{"type":"integer"}"#, "5.5"),
            (r#"{"type":"boolean"}"#, r#""yes""#),
            (r#"{"type":"boolean"}"#, "1"),
            (r#"{"type":["string","null"]}"#, r#""null""#),
            (r#"{"type":"string"}"#, "null"),
            (r#"{"type":"string"}"#, "{}"),
            (r#"{"type":"object"}"#, r#""[1]""#),
            (r#"{"type":"array"}"#, r#""[1""#),
            (r#"{"type":"array"}"#, r#""a""#),
            ("{}", r#"{"a":"1"}"#),
        ] {
            assert_eq!(coerced(schema, value, Source::Json), (value.into(), Vec::new()), "{schema}");
        }
    }

    #[test]
    fn one_word_of_a_text_can_be_a_list_of_one() {
        let schema = r#"{"type":"array","items":{"type":"string"}}"#;
        assert_eq!(coerced(schema, r#""a""#, Source::Text).0, r#"["a"]"#);
        assert_eq!(coerced(schema, "5", Source::Text).0, r#"["5"]"#);
        assert_eq!(coerced(schema, "null", Source::Text).0, "null");
        assert_eq!(coerced(schema, r#""[a, b]""#, Source::Text).0, r#""[a, b]""#);
    }

    #[test]
    fn a_schema_without_end_comes_to_an_end() {
        let schema = r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"required":["x"]}],"items":{"$ref":"#"}}"##;
        coerced(schema, &("[".repeat(200) + &"]".repeat(200)), Source::Json);
    }
}
