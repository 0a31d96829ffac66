//! What the definitions of tools cost, for people and programs.

use crate::cli::error::CliError;
use crate::cli::printer::Printer;
use crate::cli::table;
use crate::gate::{ListCost, ServerCost, ToolCosts};

/// Prints what the tools cost: each tool, each server, and all together.
pub(super) fn print(printer: &Printer, costs: &ToolCosts, json: bool) -> Result<(), CliError> {
    if json {
        return printer.print_json(costs);
    }
    let rows = costs.servers.iter().flat_map(|ServerCost { server, tokens, tools }| {
        let head = [tokens.to_string(), server.clone(), format!("all {}", tools.len())];
        let tools = tools.iter().map(|tool| [tool.tokens.to_string(), server.clone(), tool.name.clone()]);
        std::iter::once(head).chain(tools)
    });
    printer.print_colored(&table::draw_figures(&["TOKENS", "SERVER", "TOOL"], rows))?;
    printer.print(&in_words(costs))
}

/// Says what all tools cost together, and what filters and search save.
fn in_words(ToolCosts { all, filters, search, .. }: &ToolCosts) -> String {
    let ListCost { tools, tokens } = all;
    let mut text = format!("\nAll {tools} tools take about {tokens} tokens, at four bytes a token.\n");
    match filters {
        Some(ListCost { tools: 0, .. }) => text += "Filters leave out no tool.\n",
        Some(ListCost { tools, tokens }) => {
            text += &format!("Filters leave out {tools} tools and save about {tokens} tokens.\n");
        }
        None => {}
    }
    let ListCost { tools: shown, tokens: left } = search;
    text += &match tokens.checked_sub(*left) {
        Some(saved) if saved > 0 => {
            format!("With search, {shown} tools are listed: about {left} tokens, which saves about {saved}.\n")
        }
        _ => "Search would save nothing.\n".to_owned(),
    };
    text
}
