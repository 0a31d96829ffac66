//! What is wrong with a value, in words that help a model to correct it.

use super::{Kinds, MAX_NOTES, MAX_SHOWN, MAX_WALK, Path, Schema, Walk, decimal, short, shown};
use crate::json::{Object, Value};
use std::cmp::Ordering;

/// Returns what is wrong with a value, each problem with its position; a long list is cut.
pub fn check(value: &Value<'_>, schema: &Value<'_>) -> Vec<String> {
    let walk = Walk::new(schema);
    let mut check = Check { problems: Vec::new() };
    check.value(value, walk.top(), Path::Top, 0);
    check.problems
}

/// Reports whether a value was found to satisfy a schema completely. Then there is nothing to coerce either, because
/// only values of a wrong kind are coerced.
pub(super) fn satisfies(value: &Value<'_>, schema: &Value<'_>) -> bool {
    let walk = Walk::new(schema);
    fits(value, walk.top(), 0) && !walk.is_spent()
}

/// Reports whether nothing is wrong with a value at this depth.
pub(super) fn fits(value: &Value<'_>, schema: Schema<'_>, depth: usize) -> bool {
    let mut check = Check { problems: Vec::new() };
    check.value(value, schema, Path::Top, depth);
    check.problems.is_empty()
}

struct Check {
    problems: Vec<String>,
}

impl Check {
    fn value(&mut self, value: &Value<'_>, schema: Schema<'_>, path: Path<'_>, depth: usize) {
        if depth > MAX_WALK || self.problems.len() >= MAX_NOTES || !schema.walk.spend(1) {
            return;
        }
        let kinds = schema.kinds();
        if !kinds.has(Kinds::of(value)) {
            // For a value of the wrong kind, further problems would not help.
            return self.problem(path, format!("expected {kinds}, found {}", shown(value)));
        }
        self.choice(value, schema, path);
        match value {
            Value::String(text) if schema.keyword("minLength").or(schema.keyword("maxLength")).is_some() => {
                self.size(text.chars().count(), schema, path, ("minLength", "maxLength"), "characters");
            }
            Value::Number(digits) => self.range(digits, schema, path),
            Value::Array(items) => {
                self.size(items.len(), schema, path, ("minItems", "maxItems"), "items");
                self.items(items, schema, path, depth);
            }
            Value::Object(members) => self.members(members, schema, path, depth),
            _ => {}
        }
        for branch in schema.branches("allOf") {
            self.value(value, branch, path, depth + 1);
        }
        self.alternatives(value, schema, path, "anyOf", depth);
        // Accept two matches of `oneOf`: the keyword that distinguishes them may be one that is not checked here.
        self.alternatives(value, schema, path, "oneOf", depth);
    }

    fn choice(&mut self, value: &Value<'_>, schema: Schema<'_>, path: Path<'_>) {
        let allowed = match (schema.keyword("enum"), schema.keyword("const")) {
            (Some(Value::Array(values)), _) => values.as_slice(),
            (_, Some(value)) => std::slice::from_ref(value),
            _ => return,
        };
        if schema.walk.spend(allowed.len()) && !allowed.iter().any(|one| decimal::same(one, value)) {
            self.problem(path, format!("expected {}, found {}", listed(allowed), shown(value)));
        }
    }

    fn size(&mut self, size: usize, schema: Schema<'_>, path: Path<'_>, (least, most): (&str, &str), what: &str) {
        for (keyword, wrong, word) in [(least, Ordering::Less, "least"), (most, Ordering::Greater, "most")] {
            if let Some(Value::Number(limit)) = schema.keyword(keyword)
                && decimal::compare(&size.to_string(), limit) == wrong
            {
                self.problem(path, format!("expected at {word} {} {what}, found {size}", short(limit)));
            }
        }
    }

    fn range(&mut self, digits: &str, schema: Schema<'_>, path: Path<'_>) {
        // Each keyword, the orderings that it forbids, and its words.
        for (keyword, wrong, also_wrong, words) in [
            ("minimum", Ordering::Less, Ordering::Less, "at least"),
            ("maximum", Ordering::Greater, Ordering::Greater, "at most"),
            ("exclusiveMinimum", Ordering::Less, Ordering::Equal, "more than"),
            ("exclusiveMaximum", Ordering::Greater, Ordering::Equal, "less than"),
        ] {
            let Some(Value::Number(limit)) = schema.keyword(keyword) else { continue };
            let order = decimal::compare(digits, limit);
            if order == wrong || order == also_wrong {
                self.problem(path, format!("expected {words} {}, found {}", short(limit), short(digits)));
            }
        }
    }

    fn items(&mut self, items: &[Value<'_>], schema: Schema<'_>, path: Path<'_>, depth: usize) {
        let first = schema.keyword("prefixItems").and_then(Value::as_array).unwrap_or_default();
        let rest = schema.keyword("items");
        for (index, item) in items.iter().enumerate() {
            if let Some(one) = first.get(index).or(rest) {
                self.value(item, schema.at(one), Path::Item(&path, index), depth + 1);
            }
        }
    }

    fn members(&mut self, members: &Object<'_>, schema: Schema<'_>, path: Path<'_>, depth: usize) {
        for name in schema.required() {
            if schema.lookup(members, name).is_none() && schema.walk.spend(1) {
                self.problem(path, format!("missing required property {}", quoted(name)));
            }
        }
        let properties = schema.properties();
        for (name, value) in members.iter() {
            let named = properties.and_then(|all| schema.lookup(all, name));
            let one = named.or_else(|| schema.additional(name));
            let is_forbidden = named.is_none() && one == Some(&Value::Bool(false));
            if let Some(one) = one.filter(|one| named.is_some() || one.as_object().is_some()) {
                self.value(value, schema.at(one), Path::Member(&path, name), depth + 1);
            } else if is_forbidden && schema.walk.spend(1) {
                let known: Vec<Value<'_>> =
                    properties.into_iter().flat_map(Object::iter).map(|(name, _)| Value::string(name)).collect();
                let known = if known.is_empty() { "none".into() } else { listed(&known) };
                self.problem(path, format!("unknown property {}, known: {known}", quoted(name)));
            }
            if self.problems.len() >= MAX_NOTES {
                return;
            }
        }
    }

    fn alternatives(&mut self, value: &Value<'_>, schema: Schema<'_>, path: Path<'_>, keyword: &str, depth: usize) {
        let mut nearest: Option<Vec<String>> = None;
        for branch in schema.branches(keyword).filter(|branch| branch.kinds().has(Kinds::of(value))) {
            let before = std::mem::take(&mut self.problems);
            self.value(value, branch, path, depth + 1);
            let problems = std::mem::replace(&mut self.problems, before);
            if problems.is_empty() {
                return;
            }
            if nearest.as_ref().is_none_or(|nearest| problems.len() < nearest.len()) {
                nearest = Some(problems);
            }
        }
        self.problems.extend(nearest.unwrap_or_default());
    }

    fn problem(&mut self, path: Path<'_>, text: String) {
        match self.problems.len().cmp(&(MAX_NOTES - 1)) {
            Ordering::Less => self.problems.push(format!("{path}{text}")),
            Ordering::Equal => self.problems.push("and more".into()),
            Ordering::Greater => {}
        }
    }
}

fn quoted(name: &str) -> String {
    Value::string(short(name)).to_json()
}

/// Lists the first few allowed values.
fn listed(values: &[Value<'_>]) -> String {
    let mut list = String::new();
    for (n, value) in values.iter().enumerate() {
        if n > 0 {
            list.push_str(if n + 1 == values.len() { " or " } else { ", " });
        }
        if list.len() > 4 * MAX_SHOWN {
            list.push('…');
            break;
        }
        match value {
            Value::String(text) => list.push_str(&quoted(text)),
            Value::Array(_) | Value::Object(_) => list.push_str(value.kind()),
            other => other.write(&mut list),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn problems(schema: &str, value: &str) -> Vec<String> {
        check(&parse(value).unwrap(), &parse(schema).unwrap())
    }

    #[test]
    fn what_is_valid_has_no_problems() {
        for (schema, value) in [
            (r#"{"required":["name"]}"#, r#"{"name":"John","age":30}"#),
            (r#"{"required":["name"]}"#, r#"{"name":"John"}"#),
            (r#"{"type":"string"}"#, r#""hello""#),
            (r#"{"type":"string","minLength":3}"#, r#""hello""#),
            (r#"{"type":"string","maxLength":10}"#, r#""hello""#),
            (r#"{"type":"string","maxLength":2}"#, r#""äö""#),
            (r#"{"type":"number"}"#, "42.0"),
            (r#"{"type":"integer"}"#, "42.0"),
            (r#"{"type":"integer","maximum":9007199254740993}"#, "9007199254740993"),
            (r#"{"type":"number","minimum":5}"#, "10"),
            (r#"{"type":"number","maximum":20}"#, "10"),
            (r#"{"type":"array"}"#, r#"["a","b","c"]"#),
            (r#"{"type":"array","maxItems":3}"#, r#"["a","b"]"#),
            (r#"{"type":"array","items":{"type":"string"}}"#, r#"["hello","world"]"#),
            (r#"{"prefixItems":[{"type":"null"}],"items":{"type":"string"}}"#, r#"[null,"world"]"#),
            (r#"{"properties":{"name":{"type":"string"}}}"#, r#"{"name":"John","unknown":"field"}"#),
            (r#"{"additionalProperties":false,"patternProperties":{"^x":{}}}"#, r#"{"x1":1}"#),
            (
                r#"{"properties":{"bar":{"type":"array"}},"patternProperties":{"f.o":{"minItems":2}},
                    "additionalProperties":{"type":"integer"}}"#,
                r#"{"fxo":[1,2],"bar":[],"quux":3}"#,
            ),
            (r#"{"additionalProperties":false,"patternProperties":{"(?=x)":{}}}"#, r#"{"y":1}"#),
            (r#"{"additionalProperties":false,"patternProperties":{"^á":{}}}"#, r#"{"ármányos":1}"#),
            ("null", r#"{"any":"value"}"#),
            ("true", r#"{"any":"value"}"#),
            (r#"{"type":["string","null"]}"#, "null"),
            (r#"{"enum":[1,"a"]}"#, "1.0"),
            (r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#, "5"),
            (r#"{"oneOf":[{"type":"number"},{"type":"integer"}]}"#, "5"),
            (r#"{"pattern":"^a","format":"email","not":{}}"#, r#""b""#),
            (r##"{"properties":{"next":{"$ref":"#"}},"type":"object"}"##, r#"{"next":{"next":{}}}"#),
        ] {
            assert_eq!(problems(schema, value), Vec::<String>::new(), "{schema} {value}");
            assert!(satisfies(&parse(value).unwrap(), &parse(schema).unwrap()), "{schema} {value}");
        }
    }

    #[test]
    fn each_problem_names_its_place_and_what_was_found() {
        for (schema, value, problem) in [
            (r#"{"required":["name"]}"#, r#"{"age":30}"#, r#"missing required property "name""#),
            (r#"{"required":["name"]}"#, "{}", r#"missing required property "name""#),
            (r#"{"type":"string","minLength":5}"#, r#""hi""#, "expected at least 5 characters, found 2"),
            (r#"{"type":"string","maxLength":5}"#, r#""hello world""#, "expected at most 5 characters, found 11"),
            (r#"{"type":"string"}"#, "123", "expected string, found integer 123"),
            (r#"{"type":"number","minimum":5}"#, "3", "expected at least 5, found 3"),
            (r#"{"type":"number","maximum":20}"#, "25", "expected at most 20, found 25"),
            (r#"{"exclusiveMinimum":5}"#, "5.0", "expected more than 5, found 5.0"),
            (r#"{"type":"number"}"#, r#""not a number""#, r#"expected number, found string "not a number""#),
            (r#"{"type":"array","minItems":2}"#, r#"["a"]"#, "expected at least 2 items, found 1"),
            (r#"{"type":"array","maxItems":3}"#, "[1,2,3,4]", "expected at most 3 items, found 4"),
            (r#"{"items":{"type":"string"}}"#, r#"["a",123]"#, r#""[1]": expected string, found integer 123"#),
            (r#"{"type":"array"}"#, r#""no array""#, r#"expected array, found string "no array""#),
            (
                r#"{"properties":{"name":{}},"additionalProperties":false}"#,
                r#"{"name":"John","unknown":"field"}"#,
                r#"unknown property "unknown", known: "name""#,
            ),
            (
                r#"{"properties":{"limit":{"type":"integer"}}}"#,
                r#"{"limit":"abc"}"#,
                r#""limit": expected integer, found string "abc""#,
            ),
            (
                r#"{"properties":{"a":{"items":{"properties":{"b":{"type":"null"}}}}}}"#,
                r#"{"a":[{"b":[]}]}"#,
                r#""a[0].b": expected null, found array"#,
            ),
            (
                r#"{"properties":{"a":{}},"additionalProperties":false,"patternProperties":{"^x":{}}}"#,
                r#"{"y":1}"#,
                r#"unknown property "y", known: "a""#,
            ),
            (
                r#"{"patternProperties":{"^x":{}},"additionalProperties":{"type":"null"}}"#,
                r#"{"x1":1,"y":1}"#,
                r#""y": expected null, found integer 1"#,
            ),
            (r#"{"enum":["a","b",null]}"#, r#""c""#, r#"expected "a", "b" or null, found string "c""#),
            (r#"{"const":1}"#, "2", "expected 1, found integer 2"),
            (
                r#"{"anyOf":[{"required":["a","b"]},{"required":["c"]},{"type":"string"}]}"#,
                "{}",
                r#"missing required property "c""#,
            ),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "1.5", "expected string or null, found number 1.5"),
            (r#"{"allOf":[{"required":["a"]}]}"#, "{}", r#"missing required property "a""#),
            (
                r##"{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"null"}}}"##,
                "[0]",
                r#""[0]": expected null, found integer 0"#,
            ),
            (r#"{"additionalProperties":{"type":"null"}}"#, r#"{"a":1}"#, r#""a": expected null, found integer 1"#),
            ("false", "1", "expected nothing, found integer 1"),
        ] {
            assert_eq!(problems(schema, value), [problem], "{schema} {value}");
        }
    }

    #[test]
    fn long_values_and_long_lists_are_cut() {
        let found = problems(r#"{"type":"null"}"#, &format!("\"{}\"", "x".repeat(5000)));
        assert_eq!(found, [format!("expected null, found string \"{}…\"", "x".repeat(MAX_SHOWN))]);
        let found = problems(r#"{"items":{"type":"null"}}"#, &format!("[{}0]", "0,".repeat(5000)));
        assert_eq!((found.len(), found[MAX_NOTES - 1].as_str()), (MAX_NOTES, "and more"));
    }

    #[test]
    fn what_was_not_seen_to_the_end_does_not_count_as_satisfying() {
        let schema = parse(r#"{"items":{"type":"null"}}"#).unwrap();
        for (length, expected) in [(3, true), (super::super::MAX_STEPS, false)] {
            let value = Value::Array(vec![Value::Null; length]);
            assert_eq!((check(&value, &schema), satisfies(&value, &schema)), (Vec::new(), expected));
        }
        assert!(!satisfies(&parse("[1]").unwrap(), &schema));
    }

    #[test]
    fn a_schema_without_end_comes_to_an_end() {
        let schema = r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"required":["x"]}],"items":{"$ref":"#"}}"##;
        let deep = "[".repeat(200) + &"]".repeat(200);
        problems(schema, &deep);
    }
}
