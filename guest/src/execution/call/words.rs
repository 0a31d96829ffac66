//! The words that texts and traces use for the parts of a call.

use super::{ResolvedTool, State};
use crate::execution::Event;

/// Names a tool, for texts.
pub(super) fn describe_tool(meant: &ResolvedTool) -> String {
    format!("tool {:?} of server {:?}", meant.entry.tool.name, meant.server)
}

/// Says that a server asks for a longer wait than the call has left.
pub(super) fn describe_long_wait(server: &str, asked_ms: u64) -> String {
    let asked = match asked_ms {
        ..=YEAR_MS => format!("{} s", asked_ms.div_ceil(1_000)),
        _ => "more than a year".to_owned(),
    };
    format!("server {server:?} asks to wait {asked} before the next request, longer than the call may still take")
}

impl State {
    /// Describes what the call was waiting for.
    pub(super) fn awaits(&self) -> &'static str {
        match self {
            State::Connecting(_) => "connecting servers",
            State::Finding(_) | State::FindingAllowed(_) => "finding tools",
            State::Judging(..) => "waiting for the circumstances of the call",
            State::Counting(..) => "waiting until the call is counted",
            State::Asking => "waiting for approval",
            State::Requesting => "waiting for a response",
            State::Waiting(..) => "waiting to retry",
            State::Reconnecting => "opening a new session",
            State::Reauthenticating => "getting a new authorization",
            State::Condensing(_) => "waiting for a long text to be saved or summarized",
            State::Done(_) => "the call was done",
        }
    }
}

/// Names the event that the host reported.
pub(super) fn name_of(event: &Event) -> &'static str {
    match event {
        Event::Connected => "connected",
        Event::Answered(_) => "answered",
        Event::Forwarded(_) => "forwarded",
        Event::Failed(_) => "failed",
        Event::Reconnected => "reconnected",
        Event::Authenticated => "authenticated",
        Event::Waited => "waited",
        Event::Circumstances(_) => "circumstances",
        Event::Counted(_) => "counted",
        Event::Approved(_) => "approved",
        Event::Unasked => "unasked",
        Event::Condensed(_) => "condensed",
        Event::Cancelled => "cancelled",
    }
}

/// A longer wait is not told in seconds, because a server that never wants another request names any number.
const YEAR_MS: u64 = 365 * 24 * 3_600_000;
