//! The providers and clients that names and schemas are adapted to, and what they accept in a name.

/// The provider or client that reads the names and schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Any MCP client.
    Mcp,
    /// Anthropic's API.
    Anthropic,
    /// OpenAI's API, and clients with the same limits.
    Openai,
    /// Gemini's API.
    Gemini,
    /// Cursor.
    Cursor,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 5] = [Target::Mcp, Target::Anthropic, Target::Openai, Target::Gemini, Target::Cursor];

    /// Returns the maximum length of a name, in characters.
    pub(super) fn limit(self) -> usize {
        match self {
            Target::Mcp | Target::Anthropic => 128,
            Target::Openai | Target::Gemini => 64,
            Target::Cursor => 60,
        }
    }

    /// Reports whether a name may contain this character.
    pub(super) fn accepts(self, letter: char) -> bool {
        letter.is_ascii_alphanumeric()
            || match letter {
                '_' => true,
                '-' => self != Target::Cursor,
                '.' => matches!(self, Target::Mcp | Target::Gemini),
                _ => false,
            }
    }
}
