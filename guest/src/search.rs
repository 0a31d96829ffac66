//! A search index over the tools of all servers: it finds the tools that suit a question.
//!
//! Words are weighed as BM25F does it: a rare word counts more than a common one, and one in a name more than one in a
//! description. Forms of a word, words with the same meaning and mistyped words are found, too. Several sentences ask for
//! several tools.

mod collect;
mod dictionary;
mod edits;
mod index;
mod logarithm;
mod names;
mod query;
mod rank;
mod stem;
mod text;
mod thesaurus;
mod weights;

use crate::catalog::ExposedTool;
use crate::naming::NamingStyle;
use crate::types::{Tool, ToolRef};
pub use index::{SearchIndex, SearchableTool};
pub use rank::IndexHit;

/// A tool that a query finds.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The tool.
    pub tool: ToolRef,
    /// How well it fits: the best has the highest score.
    pub score: f64,
    /// Why it was found, in a few words.
    pub why: String,
}

/// When tools are found by searching instead of being listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchSettings {
    /// The number of tools above which they are not listed.
    pub above_tools: u32,
    /// The number of tokens that all definitions take together above which they are not listed.
    pub above_tokens: u64,
    /// The tools that are listed anyway: names and globs of the form `server.tool`.
    pub always: Vec<String>,
    /// The naming style of the tools that are found; `None` means that they have their own names.
    pub style: Option<NamingStyle>,
}

/// A tool that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundTool {
    /// The tool as the model sees it.
    pub tool: ExposedTool,
    /// How well it fits: the best of all has the highest score.
    pub score: f64,
    /// Why it was found.
    pub why: String,
}

/// Finds the best tools for each query, the best first.
pub fn find(servers: &[(String, Vec<Tool>)], queries: &[String], limit: usize) -> Vec<Vec<SearchHit>> {
    let tools: Vec<(&str, &Tool)> =
        servers.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server.as_str(), tool))).collect();
    let index = SearchIndex::new(tools.iter().map(|(server, tool)| SearchableTool {
        server,
        name: &tool.name,
        description: tool.description.as_deref(),
        input_schema: tool.input_schema.as_deref(),
    }));
    let told = |hit: IndexHit| {
        let (server, tool) = tools[hit.tool];
        SearchHit { tool: ToolRef::new(server, &*tool.name), score: hit.score, why: hit.why }
    };
    queries.iter().map(|query| index.find(query, limit).into_iter().map(told).collect()).collect()
}

#[cfg(test)]
mod tests;
