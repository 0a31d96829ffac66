//! The two eras of MCP and their versions.

/// The two eras of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25 and before: `initialize`, then a session.
    Legacy,
    /// 2026-07-28: every request is self-contained.
    Modern,
}

impl Era {
    /// Returns the name of the era, for people.
    pub fn name(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// The era to use with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Probes for the era that the server uses.
    #[default]
    Auto,
    /// The initialize era, before 2026-07-28.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl From<Era> for Protocol {
    fn from(era: Era) -> Self {
        match era {
            Era::Legacy => Protocol::Legacy,
            Era::Modern => Protocol::Modern,
        }
    }
}

/// The version of the modern era.
pub const MODERN_VERSION: &str = "2026-07-28";
/// The versions of the legacy era, the latest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
