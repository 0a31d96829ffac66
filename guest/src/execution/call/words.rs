//! The words that texts and traces use for the parts of a call.

use super::{ResolvedTool, State};
use crate::arguments::Stage;
use crate::execution::Event;

/// Names a tool, for texts.
pub fn describe_tool(meant: &ResolvedTool) -> String {
    format!("tool {:?} of server {:?}", meant.entry.tool.name, meant.server)
}

/// Returns the note for the reading that succeeded.
pub fn stage_note(stage: Stage) -> &'static str {
    match stage {
        Stage::Empty => "arguments: read as empty",
        Stage::Json => "arguments: read as json",
        Stage::JsonValue => "arguments: read as json-value",
        Stage::JsonRepaired => "arguments: read as json-repaired",
        Stage::Yaml => "arguments: read as yaml",
        Stage::KeyValue => "arguments: read as key-value",
        Stage::Raw => "arguments: read as raw",
    }
}

impl State {
    /// Describes what the call was waiting for.
    pub fn awaits(&self) -> &'static str {
        match self {
            State::Connecting(_) => "connecting servers",
            State::Asking => "waiting for approval",
            State::Requesting => "waiting for a response",
            State::Waiting(_) => "waiting to retry",
            State::Reconnecting => "opening a new session",
            State::Reauthenticating => "getting a new authorization",
            State::Condensing(_) => "waiting for a long text to be saved or summarized",
            State::Done(_) => "the call was done",
        }
    }
}

/// Names the event that the host reported.
pub fn name_of(event: &Event) -> &'static str {
    match event {
        Event::Connected => "connected",
        Event::Answered(_) => "answered",
        Event::Forwarded(_) => "forwarded",
        Event::Failed(_) => "failed",
        Event::Reconnected => "reconnected",
        Event::Authenticated => "authenticated",
        Event::Waited => "waited",
        Event::Approved(_) => "approved",
        Event::Unasked => "unasked",
        Event::Condensed(_) => "condensed",
        Event::Cancelled => "cancelled",
    }
}

#[cfg(test)]
mod tests {
    use super::{Stage, stage_note};

    #[test]
    fn the_note_of_a_stage_has_its_name() {
        use Stage::*;
        for stage in [Empty, Json, JsonValue, JsonRepaired, Yaml, KeyValue, Raw] {
            assert_eq!(stage_note(stage), format!("arguments: read as {}", stage.name()));
        }
    }
}
