//! A tool as its server lists it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::logic::types::{Annotations, Tool};

/// A tool, with the whole of what its server wrote.
pub struct Definition {
    /// Its name on its server.
    pub name: String,
    /// All that the server says of it.
    pub raw: Box<RawValue>,
    read: Read,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Option<Box<RawValue>>,
    #[serde(default)]
    annotations: Option<Hints>,
}

/// Hints of a wrong type say nothing.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    read_only_hint: serde_json::Value,
    destructive_hint: serde_json::Value,
    idempotent_hint: serde_json::Value,
    open_world_hint: serde_json::Value,
}

impl Definition {
    /// Reads an item of `tools/list`; `None` is one without a name.
    pub fn read(item: &RawValue) -> Option<Self> {
        match serde_json::from_str::<Read>(item.get()) {
            Ok(read) => Some(Definition { name: read.name.clone(), raw: item.to_owned(), read }),
            Err(error) => {
                tracing::warn!("left out a tool that cannot be read: {error}");
                None
            }
        }
    }

    /// What the component needs to know.
    pub fn tool(&self) -> Tool {
        let Read { name, description, input_schema, annotations } = &self.read;
        let hints = annotations.clone().unwrap_or_default();
        Tool {
            name: name.clone(),
            description: description.clone(),
            input_schema: input_schema.as_ref().map(|schema| schema.get().to_owned()),
            annotations: Annotations {
                read_only: hints.read_only_hint.as_bool(),
                destructive: hints.destructive_hint.as_bool(),
                idempotent: hints.idempotent_hint.as_bool(),
                open_world: hints.open_world_hint.as_bool(),
            },
        }
    }
}
