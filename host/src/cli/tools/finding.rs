//! Which of the listed tools a search finds.

use std::collections::BTreeMap;

use crate::cli::error::CliError;
use crate::decide::Decide;
use crate::logic::Supervisor;
use crate::logic::types::{Annotations, Tool, catalog::Offered};

use super::entry::ToolEntry;

/// Returns the tools that fit a query, the best first.
pub(super) fn find(entries: Vec<ToolEntry>, query: &str, logic: &mut Supervisor) -> Result<Vec<ToolEntry>, CliError> {
    let mut servers: BTreeMap<String, Vec<Tool>> = BTreeMap::new();
    for ToolEntry { server, tool, description, schema, .. } in &entries {
        servers.entry(server.clone()).or_default().push(Tool {
            name: tool.clone(),
            description: description.clone(),
            input_schema: schema.clone(),
            annotations: Annotations { read_only: None, destructive: None, idempotent: None, open_world: None },
        });
    }
    let offered: Vec<_> = servers.into_iter().map(|(server, tools)| Offered { server, tools }).collect();
    let mut by_tool: BTreeMap<_, _> =
        entries.into_iter().map(|entry| ((entry.server.clone(), entry.tool.clone()), entry)).collect();
    let hits = logic.search(&offered, &[query.to_owned()], MOST)?.into_iter().flatten();
    Ok(hits
        .filter_map(|hit| {
            let entry = by_tool.remove(&(hit.tool.server.clone(), hit.tool.tool.clone()))?;
            Some(ToolEntry { found: Some(hit), ..entry })
        })
        .collect())
}

/// The most tools that are shown.
const MOST: u32 = 10;
