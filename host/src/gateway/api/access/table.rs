//! A matrix in which rights that are alike are kept once: 5,000 tools of 50 principals have few different ones.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Value, json};

use super::super::super::bounds::cut;
use crate::access::{AccessRight, AccessTool, AccessVerdict};
use crate::gate::GateView;
use crate::logic::types::ToolRef;

/// The rights of principals to tools.
pub(in super::super) struct AccessTable {
    tools: Vec<ToolRef>,
    principals: Vec<String>,
    /// The different rights.
    cells: Vec<Cell>,
    places: HashMap<Cell, u32>,
    /// The cells of each tool, one for each principal.
    columns: Vec<Vec<u32>>,
    /// Views of principals, and the places of these.
    known: Vec<(GateView, usize)>,
    is_admin: bool,
}

/// A right, in words that fit other tools too.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Cell {
    verdict: AccessVerdict,
    rule: String,
    trace: Vec<String>,
}

impl AccessTable {
    /// Creates the table of these tools, for an admin or for somebody who sees its own rights.
    pub(super) fn new(tools: &[AccessTool], is_admin: bool) -> Self {
        let columns = vec![Vec::new(); tools.len()];
        let (principals, cells, places, known) = Default::default();
        let tools = tools.iter().map(|item| item.tool.clone()).collect();
        AccessTable { tools, principals, cells, places, columns, known, is_admin }
    }

    /// Adds a principal that has the rights of one that was added before; returns whether there is one.
    pub(super) fn add_like(&mut self, principal: &str, view: &GateView) -> bool {
        let view = view.anonymous();
        let Some((_, place)) = self.known.iter().find(|(known, _)| *known == view) else { return false };
        self.principals.push(principal.to_owned());
        for column in &mut self.columns {
            column.push(column[*place]);
        }
        true
    }

    /// Adds a principal with its rights to the tools.
    pub(super) fn add(&mut self, principal: &str, view: &GateView, rights: Vec<AccessRight>) {
        self.known.push((view.anonymous(), self.principals.len()));
        self.principals.push(principal.to_owned());
        for ((column, right), tool) in self.columns.iter_mut().zip(rights).zip(&self.tools) {
            let cell = Cell::new(right, tool, self.is_admin, self.cells.len() < MOST_STORIES);
            let place = match self.places.entry(cell) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let place = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
                    self.cells.push(new.key().clone());
                    *new.insert(place)
                }
            };
            column.push(place);
        }
    }

    /// Describes the table: each tool names its group, the list of the cells of all principals that it shares with other
    /// tools.
    pub(super) fn to_json(&self) -> Value {
        let cells = self
            .cells
            .iter()
            .map(|Cell { verdict, rule, trace }| json!({"verdict": verdict.name(), "rule": rule, "trace": trace}));
        let (mut groups, mut places) = (Vec::new(), HashMap::new());
        let denied = |cell: &u32| self.cells[*cell as usize].verdict == AccessVerdict::Deny;
        let tools = self.tools.iter().zip(&self.columns);
        // Tools that nobody else may use are no business of somebody who may not.
        let tools = tools.filter(|(_, column)| self.is_admin || !column.iter().all(denied));
        let tools: Vec<_> = tools
            .map(|(tool, column)| {
                let group = *places.entry(column).or_insert_with(|| {
                    groups.push(column);
                    groups.len() - 1
                });
                json!({"server": tool.server, "tool": tool.tool, "group": group})
            })
            .collect();
        json!({
            "principals": self.principals, "tools": tools, "groups": groups, "cells": cells.collect::<Vec<_>>(),
        })
    }
}

impl Cell {
    /// Words a right for all tools like this one.
    fn new(right: AccessRight, tool: &ToolRef, is_admin: bool, has_story: bool) -> Self {
        let AccessRight { verdict, mut rule, mut trace, .. } = right;
        // Somebody else's tools and servers are not named to it, and such a tool is not listed.
        if verdict == AccessVerdict::Deny && !is_admin {
            return Cell { verdict, rule: String::new(), trace: Vec::new() };
        }
        if verdict == AccessVerdict::Depends && !is_admin {
            // The condition of a rule may name other principals.
            "depends on the arguments, or on what happened before".clone_into(&mut rule);
        }
        if trace.len() == 1 || !has_story {
            trace.clear();
        }
        for text in trace.iter_mut().chain([&mut rule]) {
            // The others do not name the tool.
            if text.starts_with("denied: ") {
                let (server, tool) = (&tool.server, &tool.tool);
                *text = text.replace(&format!("tool {tool:?}"), "this tool");
                *text = text.replace(&format!("tool:{server}/{tool}\""), &format!("tool:{server}/…\""));
            }
            cut(text, MOST_TEXT);
        }
        Cell { verdict, rule, trace }
    }
}

/// The number of different rights beyond which only the rule that decided is told.
const MOST_STORIES: usize = 5000;
/// The most bytes to keep of a text.
const MOST_TEXT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(server: &str, tool: &str) -> AccessTool {
        let tool = ToolRef { server: server.to_owned(), tool: tool.to_owned() };
        AccessTool { tool, name: String::new(), destructive: false, read_only: false, needs: Vec::new() }
    }

    fn right(verdict: AccessVerdict, rule: &str) -> AccessRight {
        let (rule, trace) = (rule.to_owned(), vec![rule.to_owned()]);
        AccessRight { name: None, verdict, conditions: Vec::new(), rule, trace }
    }

    #[test]
    fn rights_that_differ_only_in_the_name_of_the_tool_are_one_and_tools_with_the_same_rights_are_one_group() {
        let tools = [tool("a", "x"), tool("a", "y\u{202e}"), tool("b", "z")];
        let unselected = |tool: &str| right(AccessVerdict::Deny, &format!("denied: tool {tool:?} is not selected"));
        let ungranted =
            |tool: &str| right(AccessVerdict::Deny, &format!("denied: no capability such as \"tool:{tool}\""));
        let mut table = AccessTable::new(&tools, true);
        table.add("ann", &GateView::default(), vec![unselected("x"), unselected("y\u{202e}"), ungranted("b/z")]);
        assert!(table.add_like("bob", &GateView::default()));
        let json = table.to_json();
        assert_eq!(json["principals"], json!(["ann", "bob"]));
        assert_eq!(json["groups"], json!([[0, 0], [1, 1]]));
        let groups: Vec<_> = json["tools"].as_array().unwrap().iter().map(|tool| tool["group"].clone()).collect();
        assert_eq!(groups, [0, 0, 1]);
        assert_eq!(json["cells"][0]["rule"], "denied: this tool is not selected");
        assert_eq!(json["cells"][1]["rule"], "denied: no capability such as \"tool:b/…\"");
    }

    #[test]
    fn somebody_who_is_no_admin_learns_nothing_of_what_it_may_not_use() {
        let tools = [tool("a", "x"), tool("secret", "y")];
        let mut table = AccessTable::new(&tools, false);
        let depends = right(AccessVerdict::Depends, "depends: principal.name == \"bob\" → deny");
        let denied = right(AccessVerdict::Deny, "denied: server \"secret\" is not selected");
        table.add("ann", &GateView::default(), vec![depends, denied]);
        let text = table.to_json().to_string();
        assert!(text.contains("\"x\"") && !text.contains("secret") && !text.contains("bob"), "{text}");
    }
}
