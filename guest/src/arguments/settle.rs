//! Turns drafts into values: the schema decides what unquoted words mean.

use super::draft::Draft;
use super::yaml;
use crate::json::Value;
use crate::schema::{Kinds, Schema};

impl<'a> Draft<'a> {
    /// Returns the value, with the schema for it if there is one.
    pub(super) fn settle(self, schema: Option<Schema<'_>>) -> Value<'a> {
        match self {
            Draft::Word(text, value) => {
                // In pairs, `[a, b]` is a text until the schema says that it is a list.
                if let Some(schema) = schema
                    && text.starts_with('[')
                    && schema.kinds().has(Kinds::ARRAY)
                    && !schema.kinds().has(Kinds::STRING)
                    && let Some(list) = list(&text, schema)
                {
                    return list;
                }
                let literal = schema.is_some_and(|schema| is_literal(&value, schema));
                if literal { Value::String(text) } else { value }
            }
            Draft::Text(text) => Value::String(text),
            Draft::List(items) => {
                let schema = schema.and_then(Schema::items);
                Value::Array(items.into_iter().map(|item| item.settle(schema)).collect())
            }
            Draft::Map(members) => {
                let settled = members.into_iter().map(|(key, member)| {
                    let schema = schema.and_then(|schema| schema.property(&key));
                    (key, member.settle(schema))
                });
                Value::Object(settled.collect())
            }
        }
    }
}

/// Reads a list in brackets, such as `[a, b]`, for a property with this schema.
fn list(text: &str, schema: Schema<'_>) -> Option<Value<'static>> {
    let document = format!("list: {text}");
    let (_, list) = yaml::read(&document, None).ok()??.pop()?;
    Some(list.settle(Some(schema)).into_owned())
}

/// Reports whether the schema wants the word as written instead of its meaning.
fn is_literal(meaning: &Value<'_>, schema: Schema<'_>) -> bool {
    let meaning = Kinds::of(meaning);
    let wants_text = |kinds: Kinds| kinds.has(Kinds::STRING) && !kinds.has(meaning);
    let kinds = schema.kinds();
    // A single word becomes a list of one, so the schema of the items counts.
    let is_item = kinds.has(Kinds::ARRAY) && !kinds.has(meaning);
    wants_text(kinds) || is_item && schema.items().is_some_and(|items| wants_text(items.kinds()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;
    use crate::schema::Walk;

    #[test]
    fn a_word_alone_means_what_the_seeds_say() {
        for (word, expected) in [
            ("true", "true"),
            ("True", "true"),
            ("TRUE", "true"),
            ("false", "false"),
            ("False", "false"),
            ("null", "null"),
            ("none", "null"),
            ("None", "null"),
            ("42", "42"),
            ("-5", "-5"),
            ("3.14", "3.14"),
            ("1.10", "1.10"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("NaN", r#""NaN""#),
            ("Inf", r#""Inf""#),
            ("-Inf", r#""-Inf""#),
            ("+Inf", r#""+Inf""#),
            ("007", r#""007""#),
            ("+5", r#""+5""#),
            (".5", r#"".5""#),
            ("0x1F", r#""0x1F""#),
            ("hello", r#""hello""#),
        ] {
            assert_eq!(Draft::word(word.into()).settle(None).to_json(), expected);
        }
    }

    #[test]
    fn the_schema_decides_what_a_word_means() {
        for (schema, word, expected) in [
            (r#"{"type":"string"}"#, "True", r#""True""#),
            (r#"{"type":"string"}"#, "1.10", r#""1.10""#),
            (r#"{"type":"string"}"#, "None", r#""None""#),
            (r#"{"type":["string","null"]}"#, "none", "null"),
            (r#"{"type":["string","integer"]}"#, "12", "12"),
            (r#"{"type":"array","items":{"type":"string"}}"#, "True", r#""True""#),
            (r#"{"type":"object"}"#, "12", "12"),
            (r##"{"type":"array","items":{"$ref":"#"}}"##, "12", "12"),
        ] {
            let schema = parse(schema).unwrap();
            let walk = Walk::new(&schema);
            assert_eq!(Draft::word(word.into()).settle(Some(walk.top())).to_json(), expected, "{schema:?} {word}");
        }
    }
}
