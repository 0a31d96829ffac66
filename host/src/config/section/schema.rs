//! The JSON Schema of a section and of its values.

use serde_json::{Map, Value, json};

use super::key::{ConfigKey, KeyForm};

/// Returns the schema of a map with these keys.
pub(crate) fn object<T>(keys: &[ConfigKey<T>]) -> Value {
    let properties: Map<String, Value> =
        keys.iter().filter(|key| key.in_schema).map(|key| (key.name.to_owned(), property(key))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Returns the schema of a map with these keys that may also be a value of type `kind`.
pub(crate) fn object_or<T>(kind: &str, keys: &[ConfigKey<T>]) -> Value {
    let mut schema = object(keys);
    schema["type"] = json!(["object", kind]);
    schema
}

/// Returns the schema of text.
pub(crate) fn text() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

/// Returns the schema of a list of strings.
pub(crate) fn texts() -> Value {
    list(text())
}

/// Returns the schema of a map from names to strings.
pub(crate) fn text_map() -> Value {
    map(text())
}

/// Returns the schema of a program, or of a list of a program and its arguments.
pub(crate) fn command() -> Value {
    json!({"type": ["string", "array"], "items": text(), "minItems": 1})
}

/// Returns the schema of a whole number in this inclusive range.
pub(crate) fn number(least: u64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// Returns the schema of a duration.
pub(crate) fn span() -> Value {
    json!({"type": ["string", "number"], "pattern": SPAN})
}

/// Returns the schema of a list of such values.
pub(crate) fn list(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

/// Returns the schema of a map from names to such values.
pub(crate) fn map(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value})
}

fn property<T>(key: &ConfigKey<T>) -> Value {
    let mut schema = match &key.form {
        KeyForm::Flag(_) => json!({"type": "boolean"}),
        KeyForm::Text(_) | KeyForm::UnexpandedText(_) => text(),
        KeyForm::Span(_) | KeyForm::Limit(_) | KeyForm::Retention(_) | KeyForm::RetentionAboveZero(..) => span(),
        KeyForm::Bytes(_) | KeyForm::BytesFrom(..) => json!({"type": ["string", "integer"], "pattern": BYTES}),
        KeyForm::Number(least, most, _) => number(*least, *most),
        KeyForm::Fraction(_) => json!({"type": "number", "minimum": 0, "maximum": 1}),
        KeyForm::Texts(_) | KeyForm::Patterns(_) | KeyForm::UnexpandedTexts(_) => texts(),
        KeyForm::Typed(form) => form.schema(),
        KeyForm::Custom(schema, _) => schema(),
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

/// The form of a duration; parsing checks its unit and its limits.
const SPAN: &str = r"^\s*([Oo][Ff][Ff]|[0-9.]+|([0-9.]+\s*[A-Za-z]+\s*)+)\s*$";
/// The form of a number of bytes.
const BYTES: &str = r"^\s*[0-9]+\s*([Bb]|[KkMmGg]([Ii]?[Bb])?)?\s*$";
