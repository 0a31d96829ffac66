//! The JSON Schema of `toolgate.yaml`, generated from the tables of keys.

use serde_json::{Value, json};

use super::keys::settings::TOP;
use super::section::schema::object;

/// Returns the JSON Schema of `toolgate.yaml`.
pub fn schema() -> Value {
    let mut schema = object(TOP);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("toolgate.yaml");
    schema["description"] = json!(ABOUT);
    let properties = &mut schema["properties"];
    // Editors put the address of a schema into the file itself.
    properties["$schema"] = json!({"type": "string", "description": "The address of this schema, for editors."});
    for named in ["servers", "queues"] {
        properties[named]["propertyNames"] = json!({"pattern": "^[A-Za-z0-9_-]+$"});
    }
    schema
}

const ABOUT: &str = "The configuration of toolgate. \
    A duration is text such as \"30s\", \"2m\" or \"500ms\", or a number of seconds. \
    An amount of bytes is text such as \"64MiB\", or a number.";
