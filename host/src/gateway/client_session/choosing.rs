//! Limits a session to what its client chose.

use super::ClientSession;
use super::request_context::RequestContext;
use crate::failure::RpcError;
use crate::gate::{GateError, GateView};
use crate::gateway::GatewayState;
use crate::gateway::choice::{Choice, parse_header, parse_meta};
use crate::lock::lock;
use crate::rpc::code::INVALID_PARAMS;

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
    /// Limits the session to a choice.
    fn choose(&self, choice: Choice) -> Result<(), GateError> {
        let view = self.gateway.view(&self.name)?;
        self.gateway.check_choice(&view, &choice)?;
        lock(&self.negotiated).choice = Some(choice.clone());
        self.gate.set_view(GateView { choice: Some(choice), ..view });
        Ok(())
    }
}

impl GatewayState {
    /// Refuses a choice of a server that is not among those that the principal may use.
    pub(super) fn check_choice(&self, view: &GateView, choice: &Choice) -> Result<(), GateError> {
        let config = self.registry.config();
        let usable = |id: &str| {
            let selected = view.selection.as_ref().is_none_or(|list| list.iter().any(|selected| selected.id == id));
            selected && config.servers.iter().any(|server| server.id == id && server.enabled)
        };
        match choice.iter().find(|selected| !usable(&selected.id)) {
            Some(unknown) => Err(GateError::Settings(format!("server {:?} is not available", unknown.id))),
            None => Ok(()),
        }
    }
}
