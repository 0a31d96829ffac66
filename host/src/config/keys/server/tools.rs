//! What is said of single tools.

use super::super::super::document::{Entry, Value};
use super::super::super::model::{Annotations, Shape, ToolRules};
use super::super::super::reading::{Given, Misfit, Reading};
use super::super::super::schema;
use super::super::{Form, Key, is_idle, read};
use super::Draft;

/// What is said of one tool.
pub const TOOL: &[Key<ToolRules>] = &[
    Key::rule(Key::new(
        "annotations",
        Form::Section(|| schema::object(ANNOTATIONS)),
        "{}",
        "What the tool does, in place of what the server says of it.",
        |tool, given, reading| {
            read(ANNOTATIONS, &mut tool.annotations, given, reading);
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "requires",
        Form::Texts,
        "[]",
        "Capabilities that all are needed to use the tool.",
        |tool, given, _| {
            tool.requires = given.texts()?;
            Ok(())
        },
    )),
    Key::new("note", Form::Text, "", "Text for the model beside the tool's description.", |tool, given, _| {
        tool.note = Some(given.text()?);
        Ok(())
    }),
];

/// What a tool does.
pub const ANNOTATIONS: &[Key<Annotations>] = &[
    Key::or(
        &["readOnlyHint"],
        Key::new("read_only", Form::Flag, "", "It changes nothing.", |annotations, given, _| {
            annotations.read_only = Some(given.flag()?);
            Ok(())
        }),
    ),
    Key::or(
        &["destructiveHint"],
        Key::new("destructive", Form::Flag, "", "It may delete or overwrite.", |annotations, given, _| {
            annotations.destructive = Some(given.flag()?);
            Ok(())
        }),
    ),
    Key::or(
        &["idempotentHint"],
        Key::new("idempotent", Form::Flag, "", "Calling it twice is calling it once.", |annotations, given, _| {
            annotations.idempotent = Some(given.flag()?);
            Ok(())
        }),
    ),
    Key::or(
        &["openWorldHint"],
        Key::new("open_world", Form::Flag, "", "It reaches beyond a closed world.", |annotations, given, _| {
            annotations.open_world = Some(given.flag()?);
            Ok(())
        }),
    ),
];

/// Which tools exist. An empty list is none of them.
pub fn allow(draft: &mut Draft, given: &Given<'_>) -> Result<(), Misfit> {
    let tools = given.patterns()?;
    refuse_any(given, &tools)?;
    exist(draft, given, tools)
}

/// The same in the words of ai-agent, to which `any` is all tools.
pub fn allow_of_ai_agent(draft: &mut Draft, given: &Given<'_>) -> Result<(), Misfit> {
    let all = |tool: String| if tool.trim().eq_ignore_ascii_case("any") { "*".to_owned() } else { tool };
    let tools = given.patterns()?.into_iter().map(all).collect();
    exist(draft, given, tools)
}

/// Refuses the word `any` in a list of what is permitted: to some it is all tools, to us the name of one.
pub fn refuse_any(given: &Given<'_>, tools: &[String]) -> Result<(), Misfit> {
    match tools.iter().any(|tool| tool.trim().eq_ignore_ascii_case("any")) {
        true => Err(given.misfit("\"any\" is not known here; write \"*\" to mean all tools")),
        false => Ok(()),
    }
}

fn exist(draft: &mut Draft, given: &Given<'_>, tools: Vec<String>) -> Result<(), Misfit> {
    match draft.server.allow.replace(tools) {
        Some(_) => Err(given.misfit("another key says too which tools exist; keep one of them")),
        None => Ok(()),
    }
}

/// Rules by the names of tools; where other clients have a list, it says which tools exist.
pub fn tools(draft: &mut Draft, given: &Given<'_>, reading: &mut Reading) -> Result<(), Misfit> {
    if !reading.is_strict() && matches!(given.node.value, Value::List(_)) {
        return allow(draft, given);
    }
    for (name, value) in given.entries()? {
        let mut rules = ToolRules { tool: name.to_owned(), ..ToolRules::default() };
        // Codex says there when it asks its user itself.
        let of_codex = |entry: &Entry| reading.shape == Shape::Codex && is_idle(&entry.key);
        match value.node.entries() {
            Some(entries) if !entries.is_empty() && entries.iter().all(of_codex) => {
                reading.notice(&value.node.place, format!("what is said of the tool {name:?} is left out"));
                continue;
            }
            _ if value.node.is_null() => {}
            _ => reading.strictly(|reading| read(TOOL, &mut rules, &value, reading)),
        }
        draft.server.tools.push(rules);
    }
    Ok(())
}
