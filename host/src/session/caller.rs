//! For whom a request is made, where that is not the owner of the session: what a gateway passes on of its clients.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Handler, LogLevel};
use crate::json::JsonObject;
use crate::rpc;

/// For whom a request is made. The default is the owner of the session.
#[derive(Clone, Default)]
pub struct Caller {
    /// What it can be asked, as the protocol writes the capabilities of a client; none means what the session's handler can.
    pub capabilities: Option<Arc<str>>,
    /// Members for the `_meta` of its requests, such as `traceparent`; what is the session's own to say is left out.
    pub meta: JsonObject,
    /// The least grave lines of the server's log that it wants.
    pub log_level: Option<LogLevel>,
    /// Who answers what the server asks for this request; none means the handler of the session.
    pub handler: Option<Arc<dyn Handler>>,
    /// It gets a result that wants input as it is, and asks again with the input.
    pub handles_input: bool,
    /// What it gives in answer to an earlier result that wanted input.
    pub input: InputResponse,
}

/// The input that a server wanted, on its way to it, byte for byte.
#[derive(Clone, Default)]
pub struct InputResponse {
    /// `inputResponses`.
    pub responses: Option<Box<RawValue>>,
    /// `requestState`.
    pub state: Option<Box<RawValue>>,
}

impl InputResponse {
    /// The members that a request gets.
    pub(super) fn members(&self) -> Vec<(&'static str, &RawValue)> {
        let responses = self.responses.as_deref().map(|responses| ("inputResponses", responses));
        let state = self.state.as_deref().map(|state| ("requestState", state));
        responses.into_iter().chain(state).collect()
    }
}

impl Caller {
    /// Writes what the caller adds to `_meta` after what is there, as members without braces.
    pub(super) fn write_meta(&self, meta: &mut String) {
        for (name, value) in self.meta.iter().filter(|(name, _)| !is_of_session(name)) {
            if !meta.is_empty() {
                meta.push(',');
            }
            let _ = write!(meta, "{}:{}", rpc::quote(name), value.get());
        }
    }
}

/// Whether only the session can know what a member of `_meta` must say.
pub(crate) fn is_of_session(name: &str) -> bool {
    name == "progressToken" || name.starts_with("io.modelcontextprotocol/")
}
