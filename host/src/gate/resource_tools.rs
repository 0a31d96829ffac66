//! Two tools for models that cannot read resources themselves: they list and read the resources that the gate may use.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{CallOptions, Gate};
use crate::session::ListKind;

impl Gate {
    /// Answers a call of a resource tool with a `tools/call` result.
    pub(super) async fn call_resource_tool(&self, tool: &str, arguments: &str, options: &CallOptions) -> String {
        #[derive(Deserialize)]
        struct Arguments {
            #[serde(default)]
            server: Option<String>,
            #[serde(default)]
            uri: String,
        }
        let answer = match serde_json::from_str::<Arguments>(arguments) {
            Err(error) => Err(error.to_string()),
            Ok(Arguments { server, .. }) if tool == "list_resources" => self.list_for_model(server.as_deref()).await,
            Ok(Arguments { server, uri }) => self.read_for_model(&uri, server.as_deref(), options).await,
        };
        let is_error = answer.is_err();
        let content = answer.unwrap_or_else(|why| vec![text_block(&self.registry().secrets().redact(&why))]);
        json!({"content": content, "isError": is_error}).to_string()
    }

    /// Returns one line for each resource and template.
    async fn list_for_model(&self, server: Option<&str>) -> Result<Vec<Value>, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Resource {
            #[serde(alias = "uriTemplate")]
            uri: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            description: String,
            #[serde(default)]
            mime_type: String,
        }
        let mut text = String::new();
        for kind in [ListKind::Resources, ListKind::Templates] {
            let found = self.list(kind).await.map_err(|error| error.to_string())?;
            for listed in found.items.iter().filter(|item| server.is_none_or(|server| server == item.server)) {
                let Ok(resource) = serde_json::from_str::<Resource>(listed.item.get()) else { continue };
                let Resource { uri, name, description, mime_type } = resource;
                let words = [name, description, mime_type].join(" · ");
                let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                let _ = writeln!(text, "{}: {uri} ({})", listed.server, words.trim_matches([' ', '·']));
            }
            for (server, why) in found.failed.iter().filter(|_| kind == ListKind::Resources) {
                let _ =
                    writeln!(text, "{server}: not available: {}", self.registry().secrets().redact(&why.to_string()));
            }
        }
        if text.is_empty() {
            text.push_str("There are no resources.");
        }
        Ok(vec![text_block(text.trim_end())])
    }

    async fn read_for_model(
        &self,
        uri: &str,
        server: Option<&str>,
        options: &CallOptions,
    ) -> Result<Vec<Value>, String> {
        #[derive(Deserialize)]
        struct Contents {
            contents: Vec<Box<RawValue>>,
        }
        let content = self.read_resource_for(uri, server, options).await.map_err(|error| error.to_string())?;
        let Contents { contents } = serde_json::from_str(content.result.get()).map_err(|error| error.to_string())?;
        let block = |part: Box<RawValue>| {
            let part: Value = serde_json::from_str(part.get()).unwrap_or_default();
            match part["text"].as_str() {
                Some(text) => text_block(text),
                None => json!({"type": "resource", "resource": part}),
            }
        };
        Ok(contents.into_iter().map(block).collect())
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
