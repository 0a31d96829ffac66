//! Logs the messages to and from a server at level `trace`, without secrets.

use std::sync::Arc;

use tracing::{Level, Span, enabled, trace};

/// Applies masks to the text of a message; returns `None` if the text cannot be masked and must not be shown.
pub type MaskMessage = Arc<dyn Fn(String) -> Option<String> + Send + Sync>;

/// Logs the messages of one connection.
#[derive(Clone)]
pub(super) struct MessageLog {
    /// The span in which the connection was opened: it names the server, which the span of a call does not.
    span: Span,
    mask: Option<MaskMessage>,
}

impl MessageLog {
    /// Creates the log of a connection that is being opened.
    pub(super) fn new(mask: Option<MaskMessage>) -> Self {
        MessageLog { span: Span::current(), mask }
    }

    /// Logs a message to the server; `redact` removes the secrets of the configuration.
    pub(super) fn sent(&self, text: &str, redact: impl FnOnce(&str) -> String) {
        if enabled!(Level::TRACE) {
            trace!(parent: &self.span, direction = "sent", bytes = text.len(), "{}", self.shown(redact(text)));
        }
    }

    /// Logs a message from the server; `redact` removes the secrets of the configuration.
    pub(super) fn received(&self, text: &str, redact: impl FnOnce(&str) -> String) {
        if enabled!(Level::TRACE) {
            trace!(parent: &self.span, direction = "received", bytes = text.len(), "{}", self.shown(redact(text)));
        }
    }

    /// Masks a text, and cuts it only then: half a secret is not recognized.
    fn shown(&self, text: String) -> String {
        let masked = match &self.mask {
            Some(mask) => mask(text),
            None => Some(text),
        };
        let Some(mut text) = masked else { return "a message that cannot be masked".to_owned() };
        if text.len() > MOST_SHOWN {
            text.truncate(text.floor_char_boundary(MOST_SHOWN));
            text.push('…');
        }
        text
    }
}

/// The maximum size of a logged message in bytes.
const MOST_SHOWN: usize = 4096;
