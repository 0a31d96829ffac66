//! The `_meta` of a session's requests.

use std::fmt::Write as _;

use super::caller::Caller;
use super::era::{Era, MODERN_VERSION};
use super::handler::Handler;

/// What the `_meta` of every request of 2026-07-28 says about this client.
pub(super) struct RequestMeta {
    /// The members without the capabilities, which a caller may replace; without braces.
    identity: String,
    capabilities: String,
}

impl RequestMeta {
    /// Describes this client, which can answer what the handler can.
    pub(super) fn new(handler: &dyn Handler) -> Self {
        let identity =
            format!(r#""{NAMESPACE}/protocolVersion":"{MODERN_VERSION}","{NAMESPACE}/clientInfo":{}"#, client_info());
        RequestMeta { identity, capabilities: handler.topics().capabilities(Era::Modern) }
    }

    /// Returns the members for a request of this caller, without braces.
    pub(super) fn members(&self, caller: &Caller) -> String {
        let RequestMeta { identity, capabilities } = self;
        let capabilities = caller.capabilities.as_deref().unwrap_or(capabilities);
        let mut members = format!(r#"{identity},"{CAPABILITIES}":{capabilities}"#);
        if let Some(level) = caller.log_level {
            let _ = write!(members, r#","{NAMESPACE}/logLevel":"{}""#, level.name());
        }
        members
    }
}

/// Returns the name and version of this client as JSON.
pub(super) fn client_info() -> String {
    format!(r#"{{"name":"toolgate","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// The prefix of the protocol's own members of `_meta`.
const NAMESPACE: &str = "io.modelcontextprotocol";
/// The member of `_meta` with the client's capabilities.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
