//! How texts and traces name what a call is about.

use super::{ResolvedTool, State};
use crate::arguments::Stage;
use crate::execution::Event;

/// A tool as texts name it.
pub fn describe_tool(meant: &ResolvedTool) -> String {
    format!("tool {:?} of server {:?}", meant.entry.tool.name, meant.server)
}

/// The note of the stage that read the arguments.
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
    /// What was to happen next.
    pub fn awaits(&self) -> &'static str {
        match self {
            State::Connecting(_) => "servers were to be connected",
            State::Asking => "a person was to be asked",
            State::Requesting => "an answer was awaited",
            State::Waiting(_) => "a wait was under way",
            State::Reconnecting => "a new session was to be opened",
            State::Reauthenticating => "an authorization was to be got",
            State::Condensing(_) => "a long text was to be condensed",
            State::Done(_) => "the call was over",
        }
    }
}

/// What the host reported.
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
