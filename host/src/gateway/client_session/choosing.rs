//! Limits a session to what its client chose.

use std::sync::Arc;

use super::request_context::RequestContext;
use super::{ClientSession, notifications};
use crate::failure::RpcError;
use crate::gate::GateError;
use crate::gateway::choice::{Choice, parse_header, parse_meta};
use crate::gateway::session_terms::SessionTerms;
use crate::lock::lock;
use crate::rpc::code::INVALID_PARAMS;
use crate::session::LEGACY_VERSIONS;

/// Applies the choice that comes with a client's first request, if there is one.
pub(super) fn apply(context: &RequestContext<'_>) -> Result<(), RpcError> {
    let client = context.client;
    if client.is_shared() {
        // The session was opened for the choice in the header.
        return Ok(());
    }
    let header = context.envelope.headers.as_ref().and_then(|headers| headers.selection.as_deref());
    let choice = match (&context.choice, header) {
        (Some(meta), _) => parse_meta(meta),
        (None, Some(header)) => parse_header(header),
        (None, None) => return Ok(()),
    };
    let invalid = |text: String| RpcError::new(INVALID_PARAMS, text);
    let choice = choice.map_err(invalid)?;
    client.choose(choice).map_err(|error| invalid(error.to_string()))
}

impl ClientSession {
    /// Goes on with a session that was initialized before.
    pub(in crate::gateway) fn resume(self: &Arc<Self>, terms: &SessionTerms) -> Result<(), GateError> {
        {
            let mut negotiated = lock(&self.negotiated);
            negotiated.version = LEGACY_VERSIONS.into_iter().find(|version| *version == terms.version);
            negotiated.capabilities = Some(terms.capabilities.to_json().into());
            negotiated.client_name = terms.client_name.clone();
            negotiated.choice = terms.choice.clone();
        }
        notifications::start_notifier(self);
        self.update_view()
    }

    /// Limits the session to a choice. A server that its principal may not use is refused like one that does not exist.
    pub(in crate::gateway) fn choose(&self, choice: Choice) -> Result<(), GateError> {
        let links = self.gate.links();
        let usable = |id: &str| links.iter().any(|link| link.id() == id) && self.gate.selects(id);
        if let Some(unknown) = choice.iter().find(|selected| !usable(&selected.id)) {
            return Err(GateError::Settings(format!("server {:?} is not available", unknown.id)));
        }
        lock(&self.negotiated).choice = Some(choice);
        self.sent.tools.forget();
        self.update_view()
    }
}
