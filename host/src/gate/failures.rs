//! Failures of the host in the component's types.

use crate::failure::{Failure, RequestError};
use crate::logic::LogicError;
use crate::logic::types::execution;

/// Converts a failure to an event of a call.
pub(super) fn event(failed: &RequestError) -> execution::Event {
    execution::Event::Failed(execution::Failed { failure: (&failed.failure).into(), phase: failed.phase() })
}

/// Converts an error of the component to a failure of the server.
pub(super) fn internal(error: &LogicError) -> RequestError {
    RequestError::unsent(Failure::Protocol(format!("the component rejected the server's tools: {error}")))
}
