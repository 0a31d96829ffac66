//! Failures of the host in the component's types.

use crate::failure::{Failure, RequestError};
use crate::logic::LogicError;
use crate::logic::types::{Phase, execution};

/// Converts a failure to an event of a call.
pub(super) fn event(failed: &RequestError) -> execution::Event {
    let phase = if failed.sent { Phase::Sent } else { Phase::NotSent };
    execution::Event::Failed(execution::Failed { failure: (&failed.failure).into(), phase })
}

/// Converts an error of the component to a failure of the server.
pub(super) fn internal(error: &LogicError) -> RequestError {
    RequestError::unsent(Failure::Protocol(format!("the component rejected the server's tools: {error}")))
}
