//! A whole schema, with a quick check for the most common kind: a list of names and types.

use super::{Kinds, Schema, Walk, check};
use crate::json::{Object, Value};

/// A whole schema.
#[derive(Debug)]
pub struct Document<'s> {
    root: Value<'s>,
    outline: Option<Outline>,
}

impl<'s> Document<'s> {
    /// Reads a schema and prepares the quick check.
    pub fn new(root: Value<'s>) -> Self {
        let outline = Outline::of(&root);
        Document { root, outline }
    }

    /// Returns the schema as written.
    pub fn root(&self) -> &Value<'s> {
        &self.root
    }

    /// Reports whether an object was found to satisfy the schema completely. Then there is nothing to coerce either,
    /// because only values of a wrong kind are coerced.
    pub fn is_satisfied_by(&self, object: &Value<'_>) -> bool {
        let at_a_glance = |outline: &Outline| object.as_object().is_some_and(|members| outline.accepts(members));
        self.outline.as_ref().is_some_and(at_a_glance) || check::satisfies(object, &self.root)
    }
}

/// The allowed members of an object, by name and kind only.
#[derive(Debug)]
struct Outline {
    members: Vec<Member>,
    /// The number of required members.
    required: usize,
    /// Whether other members are allowed.
    open: bool,
}

#[derive(Debug)]
struct Member {
    name: String,
    required: bool,
    /// The kinds that are certainly right; none if the member's schema says more than that.
    kinds: Kinds,
}

impl Outline {
    /// Returns the outline of a schema, or `None` if the schema says anything else about the object.
    fn of(root: &Value<'_>) -> Option<Outline> {
        let walk = Walk::new(root);
        let schema = Schema::new(&walk, root);
        let outlined = |(keyword, value): (&str, &Value<'_>)| match keyword {
            "type" => value.as_str() == Some("object"),
            "properties" => value.as_object().is_some(),
            "required" => value.as_array().is_some(),
            "additionalProperties" => true,
            keyword => is_remark(keyword),
        };
        if !root.as_object()?.iter().all(outlined) {
            return None;
        }
        let required: Vec<&str> = schema.required().collect();
        let members: Vec<Member> = schema
            .properties()
            .into_iter()
            .flat_map(Object::iter)
            .map(|(name, value)| {
                let kinds = if says_kinds_alone(value) { Schema::new(&walk, value).kinds() } else { Kinds::NONE };
                Member { name: name.to_owned(), required: required.contains(&name), kinds }
            })
            .collect();
        let is_member = |name: &&str| members.iter().any(|member| member.name == *name);
        if members.len() > MOST || !required.iter().all(is_member) {
            return None;
        }
        let required = members.iter().filter(|member| member.required).count();
        let open = matches!(schema.keyword("additionalProperties"), None | Some(Value::Bool(true)));
        Some(Outline { members, required, open })
    }

    /// Reports whether an object is certainly right; if this returns false, it may still be.
    fn accepts(&self, object: &Object<'_>) -> bool {
        let mut required = 0;
        let mut is_right = |(name, value): (&str, &Value<'_>)| {
            let Some(member) = self.members.iter().find(|member| member.name == name) else { return self.open };
            required += usize::from(member.required);
            member.kinds.has(Kinds::of(value))
        };
        object.len() <= MOST && object.iter().all(&mut is_right) && required == self.required
    }
}

fn says_kinds_alone(schema: &Value<'_>) -> bool {
    let keywords = schema.as_object().into_iter().flat_map(Object::iter);
    schema.as_object().is_some() && keywords.into_iter().all(|(keyword, _)| keyword == "type" || is_remark(keyword))
}

/// Reports whether a keyword forbids nothing, as far as this crate knows keywords.
fn is_remark(keyword: &str) -> bool {
    matches!(keyword, "$schema" | "title" | "description" | "default" | "examples" | "format")
}

/// Objects with more members go through the general check.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

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
    fn what_is_right_at_a_glance_is_right() {
        let (mut glances, mut all) = (0, 0);
        for (property, rest) in PROPERTIES.iter().flat_map(|one| REST.iter().map(move |rest| (one, rest))) {
            let schema = format!(r#"{{"properties":{{"a":{property},"b":{{"type":"string"}}}}{rest}}}"#);
            let document = Document::new(parse(&schema).unwrap());
            let objects = VALUES.iter().flat_map(|value| {
                [format!(r#"{{"a":{value}}}"#), format!(r#"{{"b":"x","a":{value}}}"#), format!(r#"{{"c":{value}}}"#)]
            });
            for object in objects.chain(["{}".to_owned(), r#"{"a":"ab","b":1}"#.to_owned()]) {
                let value = parse(&object).unwrap();
                let satisfied = check::satisfies(&value, document.root());
                let glance =
                    document.outline.as_ref().is_some_and(|outline| outline.accepts(value.as_object().unwrap()));
                assert!(satisfied || !glance, "{object} is no {schema}");
                assert_eq!(document.is_satisfied_by(&value), satisfied, "{object} {schema}");
                glances += usize::from(glance);
                all += usize::from(satisfied);
            }
        }
        assert!(glances * 3 > all && glances < all, "{glances} of {all}");
    }

    #[test]
    fn what_servers_write_is_seen_at_a_glance() {
        for (schema, object) in [
            (r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#, r#"{"text":"a"}"#),
            (
                r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,
                    "properties":{"a":{"type":"number","description":"First"},"b":{"type":["string","null"]}}}"#,
                r#"{"a":1,"b":null}"#,
            ),
            (r#"{"type":"object"}"#, "{}"),
        ] {
            let (schema, object) = (parse(schema).unwrap(), parse(object).unwrap());
            let outline = Outline::of(&schema).expect("it says nothing but names and kinds");
            assert!(outline.accepts(object.as_object().unwrap()), "{object:?}");
        }
    }
}
