//! A tool in a list, from a gate or from a gateway.

use crate::decide::Decide;
use crate::gate::Gate;
use crate::json::JsonObject;
use crate::logic::Supervisor;
use crate::logic::types::search::SearchHit;
use crate::logic::types::{ToolRef, catalog::ExposedTool, naming};
use crate::words::ErrorText;

use crate::cli::error::CliError;
use crate::cli::requests;

/// A tool in a list.
pub(super) struct ToolEntry {
    /// The name to show and to call.
    pub name: String,
    /// Its server.
    pub server: String,
    /// Its description.
    pub description: Option<String>,
    /// The schema of its arguments.
    pub schema: Option<String>,
    /// Its name on its server.
    pub tool: String,
    /// Why a search found it.
    pub found: Option<SearchHit>,
    /// Its definition, as its server lists it.
    pub definition: JsonObject,
}

impl ToolEntry {
    /// Returns the tools of a gate, with masked descriptions and schemas.
    pub(super) fn all(tools: Vec<ExposedTool>, gate: &Gate) -> Result<Vec<Self>, CliError> {
        let describe = |tool: &ExposedTool| {
            let mut described = JsonObject::default();
            if let Some(definition) = gate.definition(&tool.tool) {
                described.set("definition", &definition);
            }
            if let Some(description) = &tool.description {
                described.set("description", description);
            }
            if let Some(schema) = tool.input_schema.as_deref().and_then(JsonObject::read) {
                described.set("schema", &schema);
            }
            (tool.tool.server.clone(), described)
        };
        let mut described: Vec<_> = tools.iter().map(describe).collect();
        gate.mask_descriptions(&mut described)?;
        let entry = |(tool, (_, described)): (ExposedTool, (String, JsonObject))| {
            let ExposedTool { name, tool: ToolRef { server, tool }, .. } = tool;
            let definition =
                described.get("definition").and_then(|raw| JsonObject::read(raw.get())).unwrap_or_default();
            let schema = described.get("schema").map(|schema| schema.get().to_owned());
            ToolEntry {
                name,
                server,
                description: requests::member_text(&described, "description"),
                schema,
                tool,
                found: None,
                definition,
            }
        };
        Ok(tools.into_iter().zip(described).map(entry).collect())
    }

    /// Reads a tool from the JSON of `tools --json` or of a gateway.
    pub(super) fn from_json(mut listed: JsonObject) -> Option<Self> {
        let text = |name: &str| requests::member_text(&listed, name);
        let (name, server, tool) = (text("name")?, text("server")?, text("tool")?);
        let description = text("description");
        let schema = listed.get("inputSchema").map(|schema| schema.get().to_owned());
        listed.remove("server");
        listed.remove("tool");
        Some(ToolEntry { name, server, description, schema, tool, found: None, definition: listed })
    }

    /// Returns the server's definition under the name that is shown.
    pub(super) fn renamed_definition(&self) -> JsonObject {
        let mut definition = self.definition.clone();
        definition.set("name", &self.name);
        if let Some(description) = &self.description {
            definition.set("description", description);
        }
        definition
    }

    /// Returns JSON for programs: the name, the server, and the server's definition.
    pub(super) fn to_json(&self) -> JsonObject {
        let mut out = JsonObject::default();
        out.set("name", &self.name);
        out.set("server", &self.server);
        out.set("tool", &self.tool);
        let mut definition = self.renamed_definition();
        definition.remove("name");
        out.extend(&definition);
        if let Some(SearchHit { score, why, .. }) = &self.found {
            out.set("score", score);
            out.set("why", why);
        }
        out
    }
}

/// Returns the audience for a target, without a prefix.
pub(super) fn audience(target: naming::Target) -> naming::Audience {
    naming::Audience { target, prefix: String::new() }
}

/// Gives tools names and schemas that the target accepts.
pub(super) fn fit(entries: &mut [ToolEntry], target: naming::Target, logic: &mut Supervisor) -> Result<(), CliError> {
    let candidate = |entry: &ToolEntry| naming::Candidate {
        tool: ToolRef { server: entry.server.clone(), tool: entry.tool.clone() },
        schema: entry.schema.clone(),
    };
    let candidates: Vec<_> = entries.iter().map(candidate).collect();
    let fitted =
        logic.fit(&candidates, &audience(target))?.map_err(|error| CliError::ServerError(error.error_text()))?;
    for fitted in fitted {
        let same = |entry: &&mut ToolEntry| entry.server == fitted.tool.server && entry.tool == fitted.tool.tool;
        if let Some(entry) = entries.iter_mut().find(same) {
            entry.name = fitted.name;
            entry.schema = Some(fitted.schema);
        }
    }
    Ok(())
}
