//! The JSON Schema of `toolgate.yaml`, generated from the tables of keys.

use serde_json::{Map, Value, json};

use super::keys::{ConfigKey, KeyForm, settings};

/// Returns the JSON Schema of `toolgate.yaml`.
pub fn schema() -> Value {
    let mut schema = object(settings::TOP);
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!("toolgate.yaml"));
        map.insert("description".to_owned(), json!(ABOUT));
        // Editors put the address of a schema into the file itself.
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            properties.insert(
                "$schema".to_owned(),
                json!({"type": "string", "description": "The address of this schema, for editors."}),
            );
            for named in ["servers", "queues"] {
                if let Some(map) = properties.get_mut(named) {
                    map["propertyNames"] = json!({"pattern": "^[A-Za-z0-9_-]+$"});
                }
            }
        }
    }
    schema
}

/// Returns the schema of a map with these keys.
pub fn object<T>(keys: &[ConfigKey<T>]) -> Value {
    let properties: Map<String, Value> =
        keys.iter().filter(|key| key.in_schema).map(|key| (key.name.to_owned(), property(key))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Returns the schema of a map with these keys that may also be a value of type `kind`.
pub fn object_or<T>(kind: &str, keys: &[ConfigKey<T>]) -> Value {
    let mut schema = object(keys);
    schema["type"] = json!(["object", kind]);
    schema
}

fn property<T>(key: &ConfigKey<T>) -> Value {
    let text = || json!({"type": ["string", "number", "boolean"]});
    let mut schema = match &key.form {
        KeyForm::Flag => json!({"type": "boolean"}),
        KeyForm::Text => text(),
        KeyForm::Choice(words) => json!({"enum": words}),
        KeyForm::Span => span(),
        KeyForm::Spans(most) => json!({"type": "array", "items": span(), "minItems": 1, "maxItems": most}),
        KeyForm::Bytes => json!({"type": ["string", "integer"], "pattern": BYTES}),
        KeyForm::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        KeyForm::Fraction => json!({"type": "number", "minimum": 0, "maximum": 1}),
        KeyForm::Texts => json!({"type": "array", "items": text()}),
        KeyForm::Command => json!({"type": ["string", "array"], "items": text(), "minItems": 1}),
        KeyForm::TextMap => json!({"type": "object", "additionalProperties": text()}),
        KeyForm::Section(section) => section(),
        KeyForm::Sections(section) => json!({"type": "array", "items": section()}),
        KeyForm::NamedSections(section) => json!({"type": "object", "additionalProperties": section()}),
    };
    schema["description"] = json!(key.about);
    if !key.default.is_empty() {
        schema["default"] = serde_json::from_str(key.default).unwrap_or_default();
    } else if !key.is_rule {
        // An empty value counts as no value, as in the example; only for a rule it is an error.
        match schema.get_mut("type") {
            Some(Value::Array(kinds)) => kinds.push(json!("null")),
            Some(kind) => *kind = json!([kind, "null"]),
            None => schema["enum"].as_array_mut().into_iter().for_each(|words| words.push(Value::Null)),
        }
    }
    schema
}

fn span() -> Value {
    json!({"type": ["string", "number"], "pattern": SPAN})
}

/// The form of a duration; parsing checks its unit and its limits.
const SPAN: &str = r"^\s*([Oo][Ff][Ff]|[0-9.]+|([0-9.]+\s*[A-Za-z]+\s*)+)\s*$";
/// The form of a number of bytes.
const BYTES: &str = r"^\s*[0-9]+\s*([Bb]|[KkMmGg]([Ii]?[Bb])?)?\s*$";
const ABOUT: &str = "The configuration of toolgate. \
    A duration is text such as \"30s\", \"2m\" or \"500ms\", or a number of seconds. \
    An amount of bytes is text such as \"64MiB\", or a number.";
