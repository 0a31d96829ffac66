//! How grave a line of a server's log is.

/// How grave a line of a server's log is, the least grave first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For who looks for a fault.
    Debug,
    /// What goes on.
    Info,
    /// What is worth a look.
    Notice,
    /// What may go wrong.
    Warning,
    /// What went wrong.
    Error,
    /// What a part broke by.
    Critical,
    /// What must be mended at once.
    Alert,
    /// What all broke by.
    Emergency,
}

impl LogLevel {
    /// All levels, the least grave first.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    /// The level of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }
}
