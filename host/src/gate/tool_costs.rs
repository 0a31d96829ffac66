//! What the definitions of a gate's tools cost: the tokens that they take before a model has said a word.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Gate, GateError, GateView, Listing};
use crate::config::model::ListMode;
use crate::decide::Decide;
use crate::logic::Supervisor;
use crate::logic::types::catalog::ExposedTool;
use crate::logic::types::naming::NamingStyle;
use crate::registry::GateBackend;

/// About how many tokens the definitions of tools take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCosts {
    /// All that the gate may use.
    #[serde(flatten)]
    pub all: ListCost,
    /// Each server, the most expensive first.
    pub servers: Vec<ServerCost>,
    /// What filters leave out, for those who may know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<ListCost>,
    /// What is listed if all else is found by searching.
    pub search: ListCost,
}

/// A number of tools, and about how many tokens their definitions take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListCost {
    /// The number of tools.
    pub tools: usize,
    /// Their tokens.
    pub tokens: usize,
}

/// What the tools of one server cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCost {
    /// The server.
    pub server: String,
    /// The tokens of all its tools.
    pub tokens: usize,
    /// Its tools, the most expensive first.
    pub tools: Vec<ToolCost>,
}

/// What one tool costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCost {
    /// The name by which it is called.
    pub name: String,
    /// Its tokens.
    pub tokens: usize,
}

impl Gate {
    /// Returns what the definitions of the gate's tools cost in this style; without one, tools have their own names.
    pub fn tool_costs(&self, style: Option<&NamingStyle>) -> Result<ToolCosts, GateError> {
        let named = style.cloned().unwrap_or_else(|| self.style());
        let cost = |tool: ExposedTool| {
            let name = if style.is_some() { tool.name } else { tool.tool.tool };
            let tokens = tokens([Some(&*name), tool.description.as_deref(), tool.input_schema.as_deref()]);
            (tool.tool.server, ToolCost { name, tokens })
        };
        let listed = self.tools(&named)?;
        let filters = self.cost_of_filtered(&listed);
        let mut servers: Vec<ServerCost> = Vec::new();
        for (server, tool) in listed.into_iter().map(cost) {
            if servers.last().is_none_or(|last| last.server != server) {
                servers.push(ServerCost { server, tokens: 0, tools: Vec::new() });
            }
            let last = servers.last_mut().expect("it was just added");
            last.tokens += tool.tokens;
            last.tools.push(tool);
        }
        servers.sort_by(|one, other| (Reverse(one.tokens), &one.server).cmp(&(Reverse(other.tokens), &other.server)));
        for ServerCost { tools, .. } in &mut servers {
            tools.sort_by(|one, other| (Reverse(one.tokens), &one.name).cmp(&(Reverse(other.tokens), &other.name)));
        }
        let all = servers.iter().flat_map(|server| &server.tools).map(|tool| tool.tokens).collect();
        let listing = Some(Listing { mode: ListMode::Search, style: style.cloned() });
        let searching = self.other_backend(&GateView { listing, ..(*self.view()).clone() })?;
        let seen = self.has_rules().then(|| self.circumstances("", None, false));
        let ask = |logic: &mut Supervisor, id| logic.tools(id, &named, seen.as_ref());
        let shown = searching.pool.ask_gate(&searching.gate_offers, 0, ask)?;
        let search = shown.into_iter().map(cost).map(|(_, tool)| tool.tokens).collect();
        Ok(ToolCosts { all, servers, filters: Some(filters), search })
    }

    /// Returns what the tools would cost that servers list and the gate may not use.
    fn cost_of_filtered(&self, usable: &[ExposedTool]) -> ListCost {
        let usable: HashSet<_> = usable.iter().map(|tool| (&*tool.tool.server, &*tool.tool.tool)).collect();
        let links = self.registry().links();
        let enabled = links.iter().filter(|link| link.server().enabled && !link.is_disabled());
        let mut cost = ListCost::default();
        for (server, known) in enabled.filter_map(|link| Some((link.id(), self.link(link.id())?.known_tools()?))) {
            for tool in known.offered.iter().filter(|tool| !usable.contains(&(server, &*tool.name))) {
                cost.tools += 1;
                cost.tokens += tokens([Some(&*tool.name), tool.description.as_deref(), tool.input_schema.as_deref()]);
            }
        }
        cost
    }

    /// Returns a backend for another view, with the tools that this gate knows.
    fn other_backend(&self, view: &GateView) -> Result<Arc<GateBackend>, GateError> {
        let backend = self.registry().open_backend(view)?;
        for link in self.links() {
            match link.known_tools() {
                _ if link.is_disabled() => backend.withdraw(link.id())?,
                Some(tools) => drop(backend.offer(link.id(), &tools, true)?),
                None => {}
            }
        }
        Ok(backend)
    }
}

/// Adds the tokens of tools.
impl FromIterator<usize> for ListCost {
    fn from_iter<I: IntoIterator<Item = usize>>(tokens: I) -> Self {
        let add = |cost: ListCost, tokens| ListCost { tools: cost.tools + 1, tokens: cost.tokens + tokens };
        tokens.into_iter().fold(ListCost::default(), add)
    }
}

/// Returns about how many tokens the parts of a definition take, by the estimate of the component.
fn tokens(parts: [Option<&str>; 3]) -> usize {
    parts.into_iter().flatten().map(str::len).sum::<usize>().div_ceil(BYTES_PER_TOKEN)
}

const BYTES_PER_TOKEN: usize = 4;
