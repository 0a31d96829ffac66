//! Tells in the trace of a call that structured content does not satisfy the schema that its tool declares.
//!
//! The result stays: a server that breaks its own promise may still have done what it was asked to.

use super::{CallOutcome, Gate};
use crate::decide::Decide as _;
use crate::json;
use crate::logic::types::arguments::NoteKind;

/// Returns the note about the structured content of a finished call, if something is wrong with it.
pub(super) fn note(gate: &Gate, called: &CallOutcome) -> Option<String> {
    let tool = called.result.tool.as_ref()?;
    let definition = gate.backend().definition(tool)?;
    let definition = definition.get();
    if !OUTPUT_SCHEMA.is_in(definition) {
        return None;
    }
    // What masks have changed may break a schema that the server kept.
    if gate.masks(&tool.server) && !called.result.clean {
        return None;
    }
    let schema = member(definition, "outputSchema")?.to_owned();
    let structured = match (&called.result.structured, &called.answer, &called.result.answer) {
        (Some(structured), _, _) => structured.as_str(),
        (None, Some(reply), _) => member(reply.json(), "structuredContent")?,
        (None, None, Some(answer)) => member(answer, "structuredContent")?,
        (None, None, None) => return None,
    };
    // The component reads nothing else as it is.
    if structured.len() > MAX_CHECKED || !structured.starts_with('{') || !schema.starts_with('{') {
        return None;
    }
    let ask = gate.backend().pool.ask(structured.len(), |logic| logic.parse_arguments(structured, Some(&schema)));
    // A value that would have to be converted is of the wrong type.
    let problem = ask.ok()?.ok()?.notes.into_iter().find(|note| note.kind != NoteKind::Repair)?;
    let problem = gate.mask_text(&tool.server, &problem.text).ok()?;
    Some(format!("structured content does not satisfy the outputSchema of its tool: {problem}"))
}

/// Returns the value of a member of a JSON object.
fn member<'t>(object: &'t str, name: &'static str) -> Option<&'t str> {
    let [place] = json::find_members(object, [name]).ok()?;
    place.map(|place| &object[place])
}

static OUTPUT_SCHEMA: json::MemberFinder = json::MemberFinder::new("\"outputSchema\"");
/// Larger structured content is not checked.
const MAX_CHECKED: usize = 1 << 20;
