//! Tools in the API for operators: the list, the search, and the tokens that the definitions take.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::Gateway;
use super::super::client::Principal;
use super::{ApiResponse, failed};
use crate::gate::Gate;
use crate::json::{JsonObject, to_raw};
use crate::logic::types::catalog::ExposedTool;
use crate::logic::types::naming::NamingStyle;
use crate::logic::types::search::FoundTool;
use crate::registry::Link;

impl Gateway {
    /// Lists the tools that the principal may use; servers that never listed any are connected, within a time limit.
    /// Admins also get the names of all principals, and can list what another one may use: that connects nothing.
    pub async fn tools(&self, principal: &Principal, other: Option<&str>) -> Result<ApiResponse, ApiResponse> {
        let gate = self.gate_for(principal, other)?;
        let unlisted = if other.is_none() { list_missing(&gate).await } else { Vec::new() };
        let tools = self.exposed_tools(&gate)?;
        let shown = tools.iter().map(|tool| {
            let mut out = self.named(tool);
            let definition = gate.definition(&tool.tool).and_then(|raw| JsonObject::read(raw.get()));
            let mut definition = definition.unwrap_or_default();
            // A server must not choose the name or the owner of its tool.
            definition.retain(|name| !matches!(name, "name" | "server" | "tool"));
            if let Some(description) = &tool.description {
                definition.set("description", description);
            }
            out.extend(&definition);
            (tool.tool.server.clone(), out)
        });
        let mut shown: Vec<_> = shown.collect();
        gate.mask_descriptions(&mut shown).map_err(failed)?;
        let mut out = JsonObject::default();
        out.set("tools", &shown.iter().map(|(_, tool)| tool).collect::<Vec<_>>());
        let unlisted = unlisted.iter().map(|(server, why)| json!({"server": server, "reason": self.redact(why)}));
        out.set("failed", &unlisted.collect::<Vec<_>>());
        if principal.admin {
            out.set("principals", &self.principals());
        }
        Ok(self.redacted(&out.to_text()))
    }

    /// Finds tools that the principal may use, the best first, and says why each was found. Servers that never listed
    /// any are connected, within a time limit.
    pub async fn search_tools(
        &self,
        principal: &Principal,
        other: Option<&str>,
        query: &str,
        most: usize,
    ) -> Result<ApiResponse, ApiResponse> {
        let gate = self.gate_for(principal, other)?;
        if other.is_none() {
            list_missing(&gate).await;
        }
        let tools = self.exposed_tools(&gate)?;
        let listed: HashMap<_, _> = tools.iter().map(|tool| ((&*tool.tool.server, &*tool.tool.tool), tool)).collect();
        let mut shown = Vec::new();
        for FoundTool { tool: ExposedTool { tool, .. }, score, why } in gate.find_tools(query, most).map_err(failed)? {
            // Under the name that the list has.
            let Some(listed) = listed.get(&(&*tool.server, &*tool.tool)) else { continue };
            let mut out = self.named(listed);
            if let Some(description) = &listed.description {
                out.set("description", description);
            }
            out.set("score", &score);
            // It may repeat words of a description.
            out.set("why", &gate.mask_text(&tool.server, &why).map_err(failed)?);
            shown.push((tool.server, out));
        }
        gate.mask_descriptions(&mut shown).map_err(failed)?;
        let mut out = JsonObject::default();
        out.set("tools", &shown.iter().map(|(_, tool)| tool).collect::<Vec<_>>());
        Ok(self.redacted(&out.to_text()))
    }

    /// Reports about how many tokens the definitions of the tools take that the principal may use, and how many clients
    /// would be shown with search. Only admins see what filters leave out.
    pub async fn tool_costs(&self, principal: &Principal) -> Result<ApiResponse, ApiResponse> {
        let gate = self.operator_gate(principal).map_err(failed)?;
        list_missing(&gate).await;
        gate.take_known();
        let style = self.state.expose.is_none().then(|| self.client_style(&gate));
        let mut costs = gate.tool_costs(style.as_ref()).map_err(failed)?;
        costs.filters = costs.filters.filter(|_| principal.admin);
        Ok(self.redacted(to_raw(&costs).get()))
    }

    /// Returns the tools that a gate may use, of all servers that have listed any, as clients see them.
    fn exposed_tools(&self, gate: &Gate) -> Result<Vec<ExposedTool>, ApiResponse> {
        gate.take_known();
        gate.tools(&self.client_style(gate)).map_err(failed)
    }

    fn client_style(&self, gate: &Gate) -> NamingStyle {
        self.state.active().options.names.clone().unwrap_or_else(|| gate.style())
    }

    /// Returns the name by which clients call a tool.
    fn shown_name<'t>(&self, tool: &'t ExposedTool) -> &'t str {
        if self.state.expose.is_some() { &tool.tool.tool } else { &tool.name }
    }

    /// Returns the names of a tool: its own, that of its server, and the one by which clients call it.
    fn named(&self, tool: &ExposedTool) -> JsonObject {
        let mut out = JsonObject::default();
        out.set("name", self.shown_name(tool));
        out.set("server", &tool.tool.server);
        out.set("tool", &tool.tool.tool);
        out
    }
}

fn has_listed(link: &Arc<Link>) -> bool {
    link.known_tools().is_some()
}

/// Connects all servers if one of them never listed its tools, and returns those that still have not, and why.
async fn list_missing(gate: &Gate) -> Vec<(String, String)> {
    if gate.links().iter().all(has_listed) {
        return Vec::new();
    }
    match tokio::time::timeout(CONNECT, gate.refresh()).await {
        Ok(refreshed) => refreshed.failed.iter().map(|(server, why)| (server.clone(), why.to_string())).collect(),
        Err(_) => {
            let late = gate.links().into_iter().filter(|link| !has_listed(link));
            let why = |link: &Link| match link.status().last_error {
                Some(error) => error.text,
                None => format!("no list of tools within {CONNECT:?}"),
            };
            late.map(|link| (link.id().to_owned(), why(&link))).collect()
        }
    }
}

/// How long listing tools waits for servers.
const CONNECT: Duration = Duration::from_secs(10);
