//! The names and schemas under which tools are shown, and the lookup from a name to its tool.

use std::rc::Rc;

use super::{Describe, Entry};
use crate::naming::{self, Audience, NamingStyle, Target};
use crate::types::{Annotations, ToolRef};

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedTool {
    /// The name that the model sees and calls.
    pub name: String,
    /// The tool that the name means.
    pub tool: ToolRef,
    /// The description of the tool.
    pub description: Option<String>,
    /// The schema of its arguments, adapted to the provider if the naming style is `fitted`.
    pub input_schema: Option<String>,
    /// The tool's annotations, with overrides from the configuration.
    pub annotations: Annotations,
}

/// A tool under the name that a model sees.
#[derive(Debug)]
pub(crate) struct NamedTool {
    /// The name that the model sees and calls.
    pub name: String,
    /// The id of the server.
    pub server: Rc<str>,
    /// The tool.
    pub entry: Rc<Entry>,
}

impl NamedTool {
    /// Returns the tool as the model sees it.
    pub(crate) fn expose(&self, style: &NamingStyle, describe: &Describe<'_>) -> ExposedTool {
        let (description, annotations) = describe(&self.server, &self.entry.tool);
        ExposedTool {
            name: self.name.clone(),
            tool: ToolRef::new(&*self.server, &*self.entry.tool.name),
            description,
            input_schema: schema(style, &self.entry),
            annotations,
        }
    }
}

type Tool<'a> = (&'a Rc<str>, &'a Rc<Entry>);

/// A table from exposed names to tools, sorted by name.
#[derive(Debug)]
pub(super) struct Exposure(Vec<(String, Rc<str>, Rc<Entry>)>);

impl Exposure {
    /// Builds the table for these tools.
    pub(super) fn new<'a>(style: &NamingStyle, tools: impl Iterator<Item = Tool<'a>>) -> Self {
        let tools: Vec<_> = tools.collect();
        let named = names(style, &tools).into_iter().zip(tools);
        let mut table: Vec<_> =
            named.map(|(name, (server, tool))| (name, Rc::clone(server), Rc::clone(tool))).collect();
        table.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Exposure(table)
    }

    /// Finds the tool with exactly this name.
    pub(super) fn find(&self, name: &str) -> Option<(Rc<str>, Rc<Entry>)> {
        let at = self.0.binary_search_by(|(exposed, ..)| exposed.as_str().cmp(name)).ok()?;
        let (_, server, tool) = &self.0[at];
        Some((Rc::clone(server), Rc::clone(tool)))
    }
}

/// Returns a unique name for each tool.
pub(super) fn names(style: &NamingStyle, tools: &[Tool<'_>]) -> Vec<String> {
    let joined = |separator, target, prefix: &str| {
        let pairs: Vec<(&str, &str)> = tools.iter().map(|(server, tool)| (&***server, &*tool.tool.name)).collect();
        let audience = Audience { target, prefix: prefix.to_owned() };
        // If the prefix leaves no room for a name, leave it out: that is the best that can be done.
        let unprefixed =
            || naming::joined_names(&pairs, separator, &Audience { prefix: String::new(), ..audience.clone() });
        naming::joined_names(&pairs, separator, &audience).or_else(|_| unprefixed()).unwrap_or_default()
    };
    match style {
        // Server ids contain no dots, so these names are unique.
        NamingStyle::Dot => tools.iter().map(|(server, tool)| format!("{server}.{}", tool.tool.name)).collect(),
        NamingStyle::DoubleUnderscore => joined("__", Target::Mcp, ""),
        NamingStyle::McpPrefix => prefixed("mcp__", joined("__", Target::Mcp, "mcp__")),
        NamingStyle::McpUnderscore => prefixed("mcp_", joined("_", Target::Mcp, "mcp_")),
        NamingStyle::Fitted(Audience { target, prefix }) => joined("__", *target, prefix),
    }
}

fn prefixed(prefix: &str, names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| format!("{prefix}{name}")).collect()
}

/// Returns the schema to show: adapted to an audience, or as the server wrote it.
pub(super) fn schema(style: &NamingStyle, entry: &Entry) -> Option<String> {
    let schema = entry.tool.input_schema.as_deref();
    match style {
        // If the schema is not JSON, show an empty one, so that the tool stays usable.
        NamingStyle::Fitted(Audience { target, .. }) => {
            naming::lower(schema, *target).or_else(|_| naming::lower(None, *target)).ok()
        }
        _ => schema.map(str::to_owned),
    }
}
