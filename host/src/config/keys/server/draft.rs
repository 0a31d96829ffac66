//! A server entry while it is read.

use super::super::super::model::{FilePosition, LifecycleRules, ServerConfig, UnexpandedText};

/// A server entry as written, before the transport is known.
pub(crate) struct ServerDraft {
    /// The server so far.
    pub server: ServerConfig,
    /// The `type` as written, and its position.
    pub kind: Option<(String, FilePosition)>,
    /// The value of `httpUrl`, Gemini CLI's address for Streamable HTTP.
    pub http_url: Option<UnexpandedText>,
    /// The arguments after the program, if `command` is a list.
    pub command_args: Vec<UnexpandedText>,
    /// Whether `timeouts.total` is given.
    pub total_given: bool,
}

impl AsMut<LifecycleRules> for ServerDraft {
    fn as_mut(&mut self) -> &mut LifecycleRules {
        &mut self.server.lifecycle
    }
}
