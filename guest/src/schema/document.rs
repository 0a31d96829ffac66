//! A whole schema.

use super::check;
use crate::json::Value;

/// A whole schema.
#[derive(Debug)]
pub struct Document<'s> {
    root: Value<'s>,
}

impl<'s> Document<'s> {
    /// Takes a schema that was read.
    pub fn new(root: Value<'s>) -> Self {
        Document { root }
    }

    /// Returns the schema as written.
    pub fn root(&self) -> &Value<'s> {
        &self.root
    }

    /// Reports whether an object was found to satisfy the schema completely. Then there is nothing to coerce either,
    /// because only values of a wrong kind are coerced.
    pub fn is_satisfied_by(&self, object: &Value<'_>) -> bool {
        check::satisfies(object, &self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::Document;
    use crate::json::parse;
    use crate::schema::{Source, check, coerce};

    const PROPERTIES: [&str; 12] = [
        "{}",
        r#"{"type":"string","title":"T"}"#,
        r#"{"type":"integer","default":3}"#,
        r#"{"type":["number","null"]}"#,
        r#"{"type":7}"#,
        r#"{"type":"array"}"#,
        r#"{"type":"array","items":{"type":"string"}}"#,
        r#"{"type":"string","minLength":2}"#,
        r#"{"enum":["ab"]}"#,
        r##"{"$ref":"#/properties/b"}"##,
        "false",
        "true",
    ];
    const REST: [&str; 10] = [
        "",
        r#","required":["a"]"#,
        r#","required":["a","b","a"]"#,
        r#","required":["z"]"#,
        r#","additionalProperties":false"#,
        r#","additionalProperties":{"type":"null"}"#,
        r#","minProperties":1,"required":[]"#,
        r#","anyOf":[{"required":["b"]}]"#,
        r#","$schema":"x","additionalProperties":true,"type":"object""#,
        r#","type":"string""#,
    ];
    const VALUES: [&str; 9] = ["null", "true", "3", "2.5", r#""a""#, r#""ab""#, "[]", "[1]", "{}"];

    #[test]
    fn what_satisfies_a_schema_has_no_problem_and_nothing_to_coerce() {
        for (property, rest) in PROPERTIES.iter().flat_map(|one| REST.iter().map(move |rest| (one, rest))) {
            let schema = format!(r#"{{"properties":{{"a":{property},"b":{{"type":"string"}}}}{rest}}}"#);
            let document = Document::new(parse(&schema).unwrap());
            let objects = VALUES.iter().flat_map(|value| {
                [format!(r#"{{"a":{value}}}"#), format!(r#"{{"b":"x","a":{value}}}"#), format!(r#"{{"c":{value}}}"#)]
            });
            for object in objects.chain(["{}".to_owned(), r#"{"a":"ab","b":1}"#.to_owned()]) {
                let mut value = parse(&object).unwrap();
                let satisfied = document.is_satisfied_by(&value);
                assert_eq!(satisfied, check(&value, document.root()).is_empty(), "{object} {schema}");
                let coercions = coerce(&mut value, document.root(), Source::Text);
                assert!(!satisfied || coercions.is_empty(), "{object} {schema}: {coercions:?}");
            }
        }
    }

    #[test]
    fn what_servers_write_is_satisfied() {
        for (schema, object) in [
            (r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#, r#"{"text":"a"}"#),
            (
                r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,
                    "properties":{"a":{"type":"number","description":"First"},"b":{"type":["string","null"]}}}"#,
                r#"{"a":1,"b":null}"#,
            ),
            (r#"{"type":"object"}"#, "{}"),
        ] {
            let document = Document::new(parse(schema).unwrap());
            assert!(document.is_satisfied_by(&parse(object).unwrap()), "{object}");
        }
    }
}
