//! Whatever schema comes in, what goes out is accepted and final.

use super::super::facts::KINDS;
use super::super::gemini::keeps;
use super::super::{MERGED, lower};
use super::*;

/// A small generator of schemas (xorshift), so that a failure comes again.
struct Dice(u64);

impl Dice {
    fn of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        choices[(self.0 % choices.len() as u64) as usize]
    }

    fn list(&mut self, depth: usize) -> String {
        let items: Vec<String> =
            (0..self.of(&["0", "1", "2", "3"]).parse().unwrap()).map(|_| self.schema(depth)).collect();
        format!("[{}]", items.join(","))
    }

    fn map(&mut self, depth: usize) -> String {
        let names = ["a", "b", "type", "$ref", "properties"];
        let members: Vec<String> = (0..self.of(&["0", "1", "3"]).parse().unwrap())
            .map(|_| format!(r#""{}":{}"#, self.of(&names), self.schema(depth)))
            .collect();
        format!("{{{}}}", members.join(","))
    }

    fn schema(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.of(&["{}", "true", "false", r#"{"type":"string"}"#, r#"{"type":"null"}"#, "1"]).into();
        }
        let mut members = Vec::new();
        for _ in 0..self.of(&["0", "1", "2", "3", "4", "5"]).parse().unwrap() {
            let key = self.of(&[
                "type",
                "type",
                "properties",
                "properties",
                "items",
                "anyOf",
                "oneOf",
                "allOf",
                "$ref",
                "enum",
                "const",
                "required",
                "description",
                "minLength",
                "minimum",
                "format",
                "not",
                "nullable",
                "$defs",
                "prefixItems",
                "default",
                "additionalProperties",
                "title",
                "propertyOrdering",
            ]);
            let value = match key {
                "type" => self
                    .of(&[
                        r#""object""#,
                        r#""string""#,
                        r#""array""#,
                        r#"["integer","null"]"#,
                        r#"["object","string"]"#,
                        r#"["array","number"]"#,
                        "7",
                    ])
                    .into(),
                "properties" | "$defs" => self.map(depth - 1),
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.list(depth - 1),
                "$ref" => self
                    .of(&[
                        r##""#""##,
                        r##""#/$defs/a""##,
                        r##""#/$defs/b""##,
                        r##""#/properties/a""##,
                        r##""#/anyOf/0""##,
                        r##""#/allOf/1/properties/a""##,
                        r#""x""#,
                    ])
                    .into(),
                "enum" => self.of(&[r#"["a","b"]"#, "[1,null]", r#"["a",1,{}]"#, "[]", r#"[""]"#]).into(),
                "const" | "default" => self.of(&["1", "null", r#""a""#, "{}", "[1.50]"]).into(),
                "required" | "propertyOrdering" => self.of(&[r#"["a","b"]"#, r#"["a"]"#, "true", "[1]"]).into(),
                "description" | "title" | "format" => self.of(&[r#""x""#, r#""y""#, "1", r#""date-time""#]).into(),
                "minLength" | "minimum" | "nullable" => self.of(&["1", "true", r#""x""#]).into(),
                _ => self.schema(depth - 1),
            };
            members.push(format!(r#""{key}":{value}"#));
        }
        format!("{{{}}}", members.join(","))
    }
}

/// What Gemini refuses in a schema.
fn complaint(schema: &Value) -> Option<String> {
    let members = schema.as_object()?;
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    for (key, value) in members.iter() {
        let fine = match key {
            "anyOf" => members.len() == 1 && value.as_array().is_some_and(|list| list.len() > 1),
            "type" => KINDS.contains(&kind),
            "enum" => {
                kind == "string"
                    && value
                        .as_array()
                        .is_some_and(|list| list.iter().all(|v| v.as_str().is_some_and(|v| !v.is_empty())))
            }
            "items" => kind == "array" && value.as_object().is_some(),
            "properties" => {
                kind == "object"
                    && value
                        .as_object()
                        .is_some_and(|all| !all.is_empty() && all.iter().all(|(_, v)| v.as_object().is_some()))
            }
            "required" | "propertyOrdering" => value.as_array().is_some_and(|list| {
                !list.is_empty()
                    && list
                        .iter()
                        .all(|v| schema.get("properties").is_some_and(|p| p.get(v.as_str().unwrap()).is_some()))
            }),
            "nullable" => *value == Value::Bool(true),
            _ => keeps(key, value, kind),
        };
        if !fine {
            return Some(format!("{key} in {}", schema.to_json()));
        }
    }
    if schema.get("anyOf").is_none() && kind.is_empty() || kind == "array" && schema.get("items").is_none() {
        return Some(schema.to_json());
    }
    let inner =
        schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.iter().map(|(_, v)| v));
    let inner =
        inner.chain(schema.get("items")).chain(schema.get("anyOf").and_then(Value::as_array).unwrap_or_default());
    inner.filter_map(complaint).next()
}

#[test]
fn whatever_comes_in_what_goes_out_is_accepted_and_final() {
    let mut dice = Dice(11);
    for _ in 0..500 {
        let schema = dice.schema(4);
        for target in Target::ALL {
            let once = lower(Some(&schema), target).unwrap();
            assert_eq!(lower(Some(&once), target).unwrap(), once, "{target:?} of {schema}");
            let value = json::parse(&once).unwrap();
            if target == Target::Gemini {
                assert_eq!(value.get("type"), Some(&Value::string("object")), "{schema}");
                assert_eq!(complaint(&value), None, "{schema}");
            } else if target != Target::Mcp {
                assert_eq!(value.get("type"), Some(&Value::string("object")), "{schema}");
                assert!(value.get("properties").is_some_and(|all| all.as_object().is_some()), "{schema}");
                assert!(MERGED.iter().all(|key| value.get(key).is_none()), "{schema}");
            }
        }
    }
}
