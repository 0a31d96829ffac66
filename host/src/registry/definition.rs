//! A tool as its server lists it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{self, JsonObject};
use crate::logic::types::{Annotations, Tool};

/// A tool, with the full text that its server wrote.
pub struct ToolDefinition {
    /// The tool's name on its server.
    pub name: String,
    /// The whole item as the server wrote it.
    pub raw: Arc<RawValue>,
}

/// The members that matter here. A name must be a string, because it goes back to the server; other members of a wrong
/// type are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolFields<'a> {
    name: String,
    #[serde(default, borrow)]
    description: Option<&'a RawValue>,
    #[serde(default, borrow)]
    input_schema: Option<&'a RawValue>,
    #[serde(default, borrow)]
    annotations: Option<&'a RawValue>,
}

impl ToolDefinition {
    /// Reads an item of `tools/list`, also in the component's form; `None` if it has no usable name.
    pub fn read(item: &Arc<RawValue>) -> Option<(Self, Tool)> {
        match serde_json::from_str::<ToolFields>(item.get()) {
            Ok(read) => Some((ToolDefinition { name: read.name.clone(), raw: Arc::clone(item) }, tool(read))),
            Err(error) => {
                let name = JsonObject::read(item.get()).and_then(|item| json::string_value(item.get("name")?));
                tracing::warn!(tool = name, "skipped a tool that cannot be read: {error}");
                None
            }
        }
    }
}

fn tool(read: ToolFields<'_>) -> Tool {
    let ToolFields { name, description, input_schema, annotations } = read;
    let hints = annotations.and_then(|hints| JsonObject::read(hints.get())).unwrap_or_default();
    let hint = |name: &str| match hints.get(name)?.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Tool {
        name,
        description: description.and_then(json::string_value),
        input_schema: input_schema.map(|schema| schema.get().to_owned()),
        annotations: Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(item: &str) -> Option<Tool> {
        ToolDefinition::read(&RawValue::from_string(item.to_owned()).unwrap().into()).map(|(_, tool)| tool)
    }

    #[test]
    fn a_tool_needs_no_more_than_a_name() {
        let cut = read(r#"{"name":"cut","description":"half \ud83d","inputSchema":{"a":1.10}}"#).unwrap();
        assert_eq!(cut.description.as_deref(), Some("half \u{fffd}"));
        assert_eq!(cut.input_schema.as_deref(), Some(r#"{"a":1.10}"#));
        let odd = read(r#"{"description":7,"annotations":"none","name":"odd","inputSchema":null}"#).unwrap();
        assert_eq!((odd.name.as_str(), odd.description, odd.input_schema), ("odd", None, None));
        let hinted = read(r#"{"name":"h","annotations":{"readOnlyHint":true,"destructiveHint":"no","x":1}}"#).unwrap();
        assert_eq!((hinted.annotations.read_only, hinted.annotations.destructive), (Some(true), None));
        for nameless in [r#"{"description":"x"}"#, r#"{"name":7}"#, r#"{"name":"half \ud83d"}"#, "[]"] {
            assert!(read(nameless).is_none(), "{nameless}");
        }
    }
}
