//! Failures and notes of the host in the component's types, and as text.

use crate::failure::{Failure, RequestError};
use crate::logic::LogicError;
use crate::logic::types::{Phase, catalog, execution};
use crate::words::ErrorText;

/// Converts a failure to an event of a call.
pub fn event(failed: &RequestError) -> execution::Event {
    let phase = if failed.sent { Phase::Sent } else { Phase::NotSent };
    execution::Event::Failed(execution::Failed { failure: (&failed.failure).into(), phase })
}

/// Converts an error of the component to a failure of the server.
pub fn internal(error: &LogicError) -> RequestError {
    RequestError::unsent(Failure::Protocol(format!("the component rejected the server's tools: {error}")))
}

/// Describes a note on a list of tools.
pub fn note(note: &execution::OfferNote) -> String {
    match note {
        execution::OfferNote::Changed(changed) => change(&changed.tool, changed.change),
        execution::OfferNote::Duplicate(tool) => format!("tool {tool:?} is listed twice; the first one counts"),
        execution::OfferNote::Unusable(tool) => {
            format!("skipped a tool whose name is empty or longer than 512 bytes: {:?}", shortened(tool))
        }
        execution::OfferNote::AmbiguousGrant(grant) => grant.error_text(),
        execution::OfferNote::UnknownServer(server) => format!("no server {server:?} is configured"),
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(60).collect()
}

/// Describes a change of a tool.
pub fn change(tool: &str, change: catalog::Change) -> String {
    let how = match change {
        catalog::Change::Added => "is new",
        catalog::Change::Removed => "is gone",
        catalog::Change::Description => "has another description",
        catalog::Change::Schema => "has another schema",
        catalog::Change::Annotations => "has other annotations",
    };
    format!("tool {tool:?} {how}")
}
