//! One tool of a list, wherever the list came from.

use toolgate::decide::Decide;
use toolgate::gate::Gate;
use toolgate::json::Object;
use toolgate::logic::Supervisor;
use toolgate::logic::types::{ToolRef, catalog::ExposedTool, naming};
use toolgate::words::Say;

use crate::cli::failure::Failure;
use crate::cli::reply;

/// One tool.
pub struct Entry {
    /// The name to show and to call.
    pub name: String,
    /// The server that has it.
    pub server: String,
    /// What it does.
    pub description: Option<String>,
    /// The schema of its arguments.
    pub schema: Option<String>,
    /// Its name on its server.
    tool: String,
    /// All that its server says of it.
    definition: Object,
}

impl Entry {
    /// The tools of a gate, with what is masked in them.
    pub fn all(tools: Vec<ExposedTool>, gate: &Gate) -> Result<Vec<Self>, Failure> {
        let said = |tool: &ExposedTool| {
            let mut said = Object::default();
            if let Some(definition) = gate.definition(&tool.tool) {
                said.set("definition", &definition);
            }
            if let Some(description) = &tool.description {
                said.set("description", description);
            }
            if let Some(schema) = tool.input_schema.as_deref().and_then(Object::read) {
                said.set("schema", &schema);
            }
            (tool.tool.server.clone(), said)
        };
        let mut said: Vec<_> = tools.iter().map(said).collect();
        gate.mask_described(&mut said)?;
        let entry = |(tool, (_, said)): (ExposedTool, (String, Object))| {
            let ExposedTool { name, tool: ToolRef { server, tool }, .. } = tool;
            let definition = said.get("definition").and_then(|raw| Object::read(raw.get())).unwrap_or_default();
            let schema = said.get("schema").map(|schema| schema.get().to_owned());
            Entry { name, server, description: reply::text(&said, "description"), schema, tool, definition }
        };
        Ok(tools.into_iter().zip(said).map(entry).collect())
    }

    /// A tool as `tools --json` and a gateway list it.
    pub fn listed(mut listed: Object) -> Option<Self> {
        let text = |name: &str| reply::text(&listed, name);
        let (name, server, tool) = (text("name")?, text("server")?, text("tool")?);
        let description = text("description");
        let schema = listed.get("inputSchema").map(|schema| schema.get().to_owned());
        listed.remove("server");
        listed.remove("tool");
        Some(Entry { name, server, description, schema, tool, definition: listed })
    }

    /// The server's own definition under the name that is shown.
    pub fn renamed(&self) -> Object {
        let mut definition = self.definition.clone();
        definition.set("name", &self.name);
        if let Some(description) = &self.description {
            definition.set("description", description);
        }
        definition
    }

    /// For programs: its name, whose it is, and all that its server says of it.
    pub fn shown(&self) -> Object {
        let mut out = Object::default();
        out.set("name", &self.name);
        out.set("server", &self.server);
        out.set("tool", &self.tool);
        let mut definition = self.renamed();
        definition.remove("name");
        out.extend(&definition);
        out
    }
}

/// Who the names and schemas are for.
pub fn audience(target: naming::Target) -> naming::Audience {
    naming::Audience { target, prefix: String::new() }
}

/// Gives tools names and schemas that the target accepts.
pub fn fit(entries: &mut [Entry], target: naming::Target, logic: &mut Supervisor) -> Result<(), Failure> {
    let candidate = |entry: &Entry| naming::Candidate {
        tool: ToolRef { server: entry.server.clone(), tool: entry.tool.clone() },
        schema: entry.schema.clone(),
    };
    let candidates: Vec<_> = entries.iter().map(candidate).collect();
    let fitted = logic.fit(&candidates, &audience(target))?.map_err(|error| Failure::Refused(error.say()))?;
    for fitted in fitted {
        let same = |entry: &&mut Entry| entry.server == fitted.tool.server && entry.tool == fitted.tool.tool;
        if let Some(entry) = entries.iter_mut().find(same) {
            entry.name = fitted.name;
            entry.schema = Some(fitted.schema);
        }
    }
    Ok(())
}
