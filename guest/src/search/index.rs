//! What an index keeps: the words, the tools that have each of them, and the names of the tools.

use super::collect;
use super::dictionary::Dictionary;
use super::thesaurus::Thesaurus;
use super::weights;

/// The maximum number of tools in an index: a posting has 24 bits for its tool.
const MAX_TOOLS: usize = 1 << 24;

/// A tool that can be found.
#[derive(Clone, Copy, Debug)]
pub struct SearchableTool<'a> {
    /// The server that has the tool.
    pub server: &'a str,
    /// The name of the tool at its server.
    pub name: &'a str,
    /// What the tool does, as its server says.
    pub description: Option<&'a str>,
    /// The JSON Schema of the tool's arguments.
    pub input_schema: Option<&'a str>,
}

/// An index over tools.
pub struct SearchIndex {
    pub(super) dictionary: Dictionary,
    pub(super) terms: Vec<Term>,
    pub(super) postings: Vec<Posting>,
    /// The tools by name and server.
    pub(super) tools: Vec<Tool>,
    /// The servers and names of all tools, one behind the other.
    pub(super) names: String,
    pub(super) thesaurus: Thesaurus,
}

impl SearchIndex {
    /// Builds the index of some tools.
    pub fn new<'a>(tools: impl Iterator<Item = SearchableTool<'a>>) -> Self {
        let tools: Vec<SearchableTool<'a>> = tools.take(MAX_TOOLS).collect();
        collect::index(&tools)
    }

    /// Returns the tools that have a term, in order.
    pub(super) fn postings(&self, term: u32) -> &[Posting] {
        let at = term as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.terms[before].end);
        &self.postings[start as usize..self.terms[at].end as usize]
    }

    /// Returns the server and the name of a tool.
    pub(super) fn names(&self, tool: usize) -> (&str, &str) {
        let start = tool.checked_sub(1).map_or(0, |before| self.tools[before].end);
        let Tool { middle, end, .. } = self.tools[tool];
        (&self.names[start as usize..middle as usize], &self.names[middle as usize..end as usize])
    }
}

impl std::fmt::Debug for SearchIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchIndex").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

/// A tool of an index.
pub(super) struct Tool {
    /// Where it was among the tools that the index was made from.
    pub(super) position: u32,
    /// How rare the words of its name are, all together.
    pub(super) name_weight: f32,
    /// Where its server's name ends, and its own begins.
    pub(super) middle: u32,
    /// Where its name ends.
    pub(super) end: u32,
    /// A hash of the letters of its name, and one of those with its server's name before.
    pub(super) letters: [u32; 2],
}

/// A word in all its forms.
pub(super) struct Term {
    /// Where its postings end; they begin where those of the term before end.
    pub(super) end: u32,
    /// How rare it is.
    pub(super) idf: f32,
}

/// A tool that has a term, with the fields that have it, and how much it counts there.
#[derive(Clone, Copy, Default)]
pub(super) struct Posting {
    tool_and_fields: u32,
    weight: f32,
}

impl Posting {
    pub(super) fn new(tool: usize, fields: u8, weight: f32) -> Self {
        Posting { tool_and_fields: (tool as u32) << 8 | u32::from(fields), weight }
    }

    pub(super) fn tool(self) -> usize {
        (self.tool_and_fields >> 8) as usize
    }

    /// Reports whether a field has the term.
    pub(super) fn is_in(self, field: Field) -> bool {
        self.tool_and_fields as u8 & field.bit() != 0
    }

    pub(super) fn weight(self) -> f32 {
        self.weight
    }
}

/// Where a word is, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Name,
    /// The whole name, as one word.
    Whole,
    Server,
    Description,
    Parameter,
}

impl Field {
    pub(super) const ALL: [Field; 5] = [Field::Name, Field::Whole, Field::Server, Field::Description, Field::Parameter];
    pub(super) const COUNT: usize = Self::ALL.len();

    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns how much a word counts in this field.
    pub(super) fn weight(self) -> f32 {
        match self {
            Field::Name | Field::Whole => weights::NAME,
            Field::Server | Field::Description => 1.0,
            Field::Parameter => weights::PARAMETER,
        }
    }
}
