//! The names and schemas under which tools are shown, and the way back from a name to its tool.

use std::rc::Rc;

use super::Entry;
use crate::naming::{self, Audience, NamingStyle, Target};
use crate::types::{Annotations, ToolRef};

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedTool {
    /// The name to show and to call.
    pub name: String,
    /// The tool it means.
    pub tool: ToolRef,
    /// What the tool does.
    pub description: Option<String>,
    /// The schema of its arguments, lowered where the style is fitted.
    pub input_schema: Option<String>,
    /// What is said of it, the configuration's overrides included.
    pub annotations: Annotations,
}

type Tool<'a> = (&'a Rc<str>, &'a Rc<Entry>);

/// A table from exposed names to tools, sorted by name.
#[derive(Debug)]
pub struct Exposure(Vec<(String, Rc<str>, Rc<Entry>)>);

impl Exposure {
    /// The table for these tools.
    pub fn new<'a>(style: &NamingStyle, tools: impl Iterator<Item = Tool<'a>>) -> Self {
        let tools: Vec<_> = tools.collect();
        let named = names(style, &tools).into_iter().zip(tools);
        let mut table: Vec<_> =
            named.map(|(name, (server, tool))| (name, Rc::clone(server), Rc::clone(tool))).collect();
        table.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Exposure(table)
    }

    /// The tool of this very name.
    pub fn find(&self, name: &str) -> Option<(Rc<str>, Rc<Entry>)> {
        let at = self.0.binary_search_by(|(exposed, ..)| exposed.as_str().cmp(name)).ok()?;
        let (_, server, tool) = &self.0[at];
        Some((Rc::clone(server), Rc::clone(tool)))
    }
}

/// A name for each tool, no two alike.
pub fn names(style: &NamingStyle, tools: &[Tool<'_>]) -> Vec<String> {
    let fitted = |target, prefix: &str| {
        let pairs: Vec<(&str, &str)> = tools.iter().map(|(server, tool)| (&***server, &*tool.tool.name)).collect();
        let audience = Audience { target, prefix: prefix.to_owned() };
        // A prefix that leaves no room cannot be honoured; names without it are the best there is.
        let unprefixed = || naming::names(&pairs, &Audience { prefix: String::new(), ..audience.clone() });
        naming::names(&pairs, &audience).or_else(|_| unprefixed()).unwrap_or_default()
    };
    match style {
        // No server id holds a dot, so these are unique as they are.
        NamingStyle::Dot => tools.iter().map(|(server, tool)| format!("{server}.{}", tool.tool.name)).collect(),
        NamingStyle::DoubleUnderscore => fitted(Target::Mcp, ""),
        NamingStyle::McpPrefix => fitted(Target::Mcp, "mcp__").into_iter().map(|name| format!("mcp__{name}")).collect(),
        NamingStyle::Fitted(Audience { target, prefix }) => fitted(*target, prefix),
    }
}

/// The schema to show: lowered for an audience, else as the server wrote it.
pub fn schema(style: &NamingStyle, entry: &Entry) -> Option<String> {
    let schema = entry.tool.input_schema.as_deref();
    match style {
        // A schema that is no JSON is shown as no schema: the tool stays usable.
        NamingStyle::Fitted(Audience { target, .. }) => {
            naming::lower(schema, *target).or_else(|_| naming::lower(None, *target)).ok()
        }
        _ => schema.map(str::to_owned),
    }
}
