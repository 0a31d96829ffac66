//! What the host says happened, in the words of the component.

use crate::failure::{Failed, Failure};
use crate::logic::LogicError;
use crate::logic::types::{self, Phase, catalog, execution};
use crate::words::Say;

/// A failure as an event of a call.
pub fn event(failed: &Failed) -> execution::Event {
    let phase = if failed.sent { Phase::Sent } else { Phase::NotSent };
    execution::Event::Failed(execution::Failed { failure: failure(&failed.failure), phase })
}

fn failure(failure: &Failure) -> types::Failure {
    match failure {
        Failure::Cancelled => types::Failure::Cancelled,
        Failure::Timeout { .. } => types::Failure::Timeout,
        Failure::Connect(why) => types::Failure::Connect(why.clone()),
        Failure::NotReady { method, after, .. } => {
            types::Failure::Connect(format!("no answer to {method} within {after:?}"))
        }
        Failure::Closed => types::Failure::Closed,
        Failure::Exited(exit) => types::Failure::Exited(exit.code),
        Failure::Http(error) => types::Failure::Http(types::HttpFailure {
            status: error.status,
            session: error.session,
            challenge: error.challenge.is_some(),
            retry_after_ms: error.retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        }),
        Failure::Rpc(error) => {
            types::Failure::Rpc(types::RpcFailure { code: error.code, message: error.message.clone() })
        }
        Failure::Protocol(how) => types::Failure::Protocol(how.clone()),
    }
}

/// A fault of the component, where a failure of a server is expected.
pub fn internal(error: &LogicError) -> Failed {
    Failed::unsent(Failure::Protocol(format!("the component could not take the server's tools: {error}")))
}

/// A note on an offer, in words.
pub fn note(note: &execution::OfferNote) -> String {
    match note {
        execution::OfferNote::Changed(change) => {
            let how = match change.change {
                catalog::Change::Added => "is new",
                catalog::Change::Removed => "is gone",
                catalog::Change::Description => "has another description",
                catalog::Change::Schema => "has another schema",
                catalog::Change::Annotations => "says something else of itself",
            };
            format!("tool {:?} {how}", change.tool)
        }
        execution::OfferNote::Duplicate(tool) => format!("tool {tool:?} is listed twice; the first one counts"),
        execution::OfferNote::Unusable(tool) => {
            format!("left out a tool whose name is empty or longer than 512 bytes: {:?}", shortened(tool))
        }
        execution::OfferNote::AmbiguousGrant(grant) => grant.say(),
        execution::OfferNote::UnknownServer(server) => format!("no server {server:?} is configured"),
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(60).collect()
}
