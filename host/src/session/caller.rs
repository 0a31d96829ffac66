//! The caller of a request, if that is not the owner of the session: what a gateway forwards of its clients.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Handler, LogLevel};
use crate::json::JsonObject;
use crate::rpc;

/// The caller of a request; by default the owner of the session.
#[derive(Clone, Default)]
pub struct Caller {
    /// The caller's client capabilities as JSON; `None` means those of the session's handler.
    pub capabilities: Option<Arc<str>>,
    /// Members for the `_meta` of its requests, such as `traceparent`; members that only the session may set are
    /// ignored.
    pub meta: JsonObject,
    /// The lowest level of server log messages that it wants.
    pub log_level: Option<LogLevel>,
    /// Answers the server's questions for this request; `None` means the handler of the session.
    pub handler: Option<Arc<dyn Handler>>,
    /// Whether it handles a result that needs input itself, and repeats the request with the input.
    pub handles_input: bool,
    /// Its response to an earlier result that needed input.
    pub input: InputResponse,
}

/// The input that a server asked for, forwarded byte for byte.
#[derive(Clone, Default)]
pub struct InputResponse {
    /// `inputResponses`.
    pub responses: Option<Box<RawValue>>,
    /// `requestState`.
    pub state: Option<Box<RawValue>>,
}

impl InputResponse {
    /// Reports whether there is no input.
    pub(crate) fn is_empty(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }

    /// Returns the members to add to a request.
    pub(super) fn members(&self) -> Vec<(&'static str, &RawValue)> {
        let responses = self.responses.as_deref().map(|responses| ("inputResponses", responses));
        let state = self.state.as_deref().map(|state| ("requestState", state));
        responses.into_iter().chain(state).collect()
    }
}

impl Caller {
    /// Returns the trace id of the caller's `traceparent`, if it has a valid one.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        let (_, value) = self.meta.iter().find(|(name, _)| *name == "traceparent")?;
        let id = value.get().trim_matches('"').split('-').nth(1)?;
        (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
    }

    /// Appends the caller's members to `_meta`, without braces.
    pub(super) fn write_meta(&self, meta: &mut String) {
        for (name, value) in self.meta.iter().filter(|(name, _)| !is_of_session(name)) {
            if !meta.is_empty() {
                meta.push(',');
            }
            let _ = write!(meta, "{}:{}", rpc::quote(name), value.get());
        }
    }
}

/// Reports whether only the session may set a member of `_meta`.
pub(crate) fn is_of_session(name: &str) -> bool {
    name == "progressToken" || name.starts_with("io.modelcontextprotocol/")
}
