//! Checks everything that a component returns before it is used, because a custom component may return anything.
//!
//! JSON texts go into messages unchanged, so each must be exactly one value of the right kind. A named server must be
//! one that the gate was opened for. Notes are limited to a readable number and size.

use std::collections::HashSet;

use serde::de::IgnoredAny;

use super::super::LogicError;
use super::super::types::{arguments, catalog, content, execution, naming, reading, rules};
use crate::json::{JsonObject, scan};

/// The ids of the servers that a gate was opened for: those of its policy that are also in its selection, if it has
/// one.
#[derive(Debug)]
pub struct AllowedServers(HashSet<String>);

impl AllowedServers {
    /// Returns the servers that these settings let a gate use.
    pub fn of(settings: &execution::Settings) -> Self {
        let policy = &settings.policy;
        let selected = |id: &str| {
            policy.selection.as_ref().is_none_or(|selection| selection.iter().any(|selected| selected.id == id))
        };
        AllowedServers(policy.servers.iter().map(|server| &server.id).filter(|id| selected(id)).cloned().collect())
    }

    /// Reports whether the gate may reach this server.
    pub fn has(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    fn check(&self, id: &str) -> CheckResult {
        match self.has(id) {
            true => Ok(()),
            false => Err(format!("it names the server {:?}, which this gate was not opened for", shorten(id))),
        }
    }
}

/// The outcome of a check; the error says what is wrong.
type CheckResult = Result<(), String>;

/// Checks a directive, and cuts the notes of a result.
pub(super) fn directive(directive: &mut execution::Directive, servers: &AllowedServers) -> CheckResult {
    use execution::Directive::{
        Ask, Circumstances, Condense, Connect, Count, Done, Reauthenticate, Reconnect, Request, Wait,
    };
    match directive {
        Request(request) => {
            servers.check(&request.tool.server)?;
            request.forward.iter_mut().for_each(|forward| notes(&mut forward.trace));
            learned(request.learned.as_ref())?;
            object("arguments", &request.arguments)
        }
        Connect(wanted) if wanted.len() > servers.0.len() => {
            Err("it wants more servers than this gate was opened for".to_owned())
        }
        Connect(wanted) => wanted.iter().try_for_each(|server| servers.check(server)),
        Reconnect(server) | Reauthenticate(server) => servers.check(server),
        Ask(question) => {
            servers.check(&question.tool.server)?;
            object("arguments", &question.arguments)
        }
        Count(rules) if rules.len() > MOST_COUNTED => Err(format!("it counts for more than {MOST_COUNTED} rules")),
        Wait(_) | Condense(_) | Circumstances(_) | Count(_) => Ok(()),
        Done(done) => result(done),
    }
}

fn result(result: &mut execution::ToolResult) -> CheckResult {
    notes(&mut result.trace);
    if result.content.len() > MOST_BLOCKS {
        return Err(format!("its result has more than {MOST_BLOCKS} content blocks"));
    }
    learned(result.learned.as_ref())?;
    result.content.iter().try_for_each(|block| any("content", block))?;
    result.structured.as_deref().map_or(Ok(()), |value| any("structured", value))?;
    result.more.as_deref().map_or(Ok(()), |value| object("more", value))?;
    result.answer.as_deref().map_or(Ok(()), |value| object("answer", value))
}

/// Checks what an agent learned: each agent has room for only so much.
fn learned(learned: Option<&rules::AgentContext>) -> CheckResult {
    let Some(rules::AgentContext { labels, known }) = learned else { return Ok(()) };
    let is_long = labels.len() > MOST_LABELS || labels.iter().any(|label| label.len() > MOST_LABEL_BYTES);
    match is_long || known.len() > MOST_KNOWN {
        true => Err("it teaches more labels or values than there is room for".to_owned()),
        false => Ok(()),
    }
}

/// Cuts notes to a readable number and size.
pub(super) fn notes(notes: &mut Vec<String>) {
    let mut left = MOST_NOTE_BYTES;
    let fits = |note: &&String| match left.checked_sub(note.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let kept = notes.iter().take(MOST_NOTES).take_while(fits).count();
    if kept < notes.len() {
        notes.truncate(kept);
        notes.push(LEFT_OUT.to_owned());
        notes.shrink_to_fit();
    }
}

/// Checks tools in the form that a model sees.
pub(super) fn tools<'a>(tools: impl Iterator<Item = &'a catalog::ExposedTool>) -> Result<(), LogicError> {
    let mut schemas = tools.filter_map(|tool| tool.input_schema.as_deref());
    contract(schemas.try_for_each(|schema| any("input-schema", schema)))
}

/// Checks tools in the form that an audience accepts.
pub(super) fn fitted(tools: &[naming::FittedTool]) -> Result<(), LogicError> {
    contract(tools.iter().try_for_each(|tool| any("schema", &tool.schema)))
}

/// Checks calls that were found in a text.
pub(super) fn calls(calls: &[reading::ReadCall], text: &str) -> Result<(), LogicError> {
    contract(calls.iter().try_for_each(|call| {
        object("arguments", &call.arguments)?;
        let place = usize::try_from(call.start).ok().zip(usize::try_from(call.end).ok());
        match place.and_then(|(start, end)| text.get(start..end)) {
            Some(_) => Ok(()),
            None => Err("a call stands outside of the text".to_owned()),
        }
    }))
}

/// Checks arguments parsed from a text.
pub(super) fn parsed(parsed: &arguments::Parsed) -> Result<(), LogicError> {
    contract(object("arguments", &parsed.arguments))
}

/// Checks the extracted content of a result.
pub(super) fn extracted(extracted: &content::Extracted) -> Result<(), LogicError> {
    let structured = extracted.structured.as_deref().map_or(Ok(()), |value| any("structured", value));
    contract(extracted.blocks.iter().try_for_each(|block| any("blocks", block)).and(structured))
}

/// Checks masked JSON.
pub(super) fn masked(json: &str) -> Result<(), LogicError> {
    contract(any("the masked text", json))
}

fn contract(checked: CheckResult) -> Result<(), LogicError> {
    checked.map_err(|what| LogicError::Contract { what })
}

/// Checks that a text is exactly one JSON object.
fn object(what: &str, text: &str) -> CheckResult {
    // Almost every object has the plain form, which is checked at a gigabyte a second.
    let plain = scan::whole(text, |scanner| scanner.object(|scanner, _| scanner.value().map(drop)));
    match plain.is_some() || JsonObject::read(text).is_some() {
        true => Ok(()),
        false => Err(format!("its {what} is not one JSON object")),
    }
}

/// Checks that a text is exactly one JSON value.
fn any(what: &str, text: &str) -> CheckResult {
    let plain = scan::whole(text, |scanner| scanner.value());
    match plain.is_some() || serde_json::from_str::<IgnoredAny>(text).is_ok() {
        true => Ok(()),
        false => Err(format!("its {what} is not one JSON value")),
    }
}

fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

/// How many notes of a decision are kept; the built-in component writes a dozen.
const MOST_NOTES: usize = 1000;
/// The maximum size of all notes together.
const MOST_NOTE_BYTES: usize = 64 << 10;
/// How many rules a call may be counted for.
const MOST_COUNTED: usize = 1000;
/// How many labels one call may teach.
const MOST_LABELS: usize = 256;
/// The maximum size of a label.
const MOST_LABEL_BYTES: usize = 1024;
/// How many values one call may teach.
const MOST_KNOWN: usize = 2048;
/// How many blocks a result may have: as many values as the built-in component reads.
const MOST_BLOCKS: usize = 250_000;
/// The note that replaces those that are too many.
const LEFT_OUT: &str = "further notes of the component were omitted, because there are too many";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_json_object_passes_and_nothing_else_does() {
        let deep = format!("{}{}", r#"{"a":"#.repeat(100), format_args!("1{}", "}".repeat(100)));
        for text in ["{}", " {\n\"a\" : [1, {\"b\": null}] }\n", r#"{"\u0061":"\ud83d"}"#, &deep] {
            assert_eq!((object("params", text), any("params", text)), (Ok(()), Ok(())), "{text}");
        }
        for text in ["", "{", "{}{}", "{}\n{}", r#"{},"x":{}"#, r#"{"a":"\n"}"#.replace("\\n", "\n").as_str(), "{a:1}"]
        {
            assert!(object("params", text).is_err() && any("params", text).is_err(), "{text}");
        }
        for text in ["1", "[]", "\"x\"", "null"] {
            assert!(object("params", text).is_err() && any("params", text).is_ok(), "{text}");
        }
    }

    #[test]
    fn notes_are_cut_by_number_and_by_size() {
        let mut few = vec!["a".to_owned(), "b".to_owned()];
        notes(&mut few);
        assert_eq!(few, ["a", "b"]);
        for mut many in [vec!["x".to_owned(); 5000], vec!["x".repeat(MOST_NOTE_BYTES / 2 + 1); 3]] {
            let expected = if many.len() == 5000 { MOST_NOTES + 1 } else { 2 };
            notes(&mut many);
            assert_eq!((many.len(), many.last().unwrap().as_str()), (expected, LEFT_OUT));
        }
    }
}
