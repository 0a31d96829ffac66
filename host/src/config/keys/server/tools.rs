//! What is said of single tools.

use super::super::super::document::Value;
use super::super::super::model::{Annotations, Shape, ToolRules};
use super::super::super::reading::{Given, Misfit, Reading};
use super::super::super::schema;
use super::super::{Form, Key, read};
use super::Draft;

/// What is said of one tool.
pub const TOOL: &[Key<ToolRules>] = &[
    Key::new(
        "annotations",
        Form::Section(|| schema::object(ANNOTATIONS)),
        "{}",
        "What the tool does, in place of what the server says of it.",
        |tool, given, reading| {
            read(ANNOTATIONS, &mut tool.annotations, given, reading);
            Ok(())
        },
    ),
    Key::new("requires", Form::Texts, "[]", "Capabilities that all are needed to use the tool.", |tool, given, _| {
        tool.requires = given.texts()?;
        Ok(())
    }),
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

/// Rules by the names of tools; where other clients have a list, it says which tools exist.
pub fn tools(draft: &mut Draft, given: &Given<'_>, reading: &mut Reading) -> Result<(), Misfit> {
    if !reading.is_strict() && matches!(given.node.value, Value::List(_)) {
        draft.server.allow = Some(given.patterns()?);
        return Ok(());
    }
    if reading.shape == Shape::Codex {
        reading.notice(&given.node.place, "what is said of single tools is left out");
        return Ok(());
    }
    for (name, value) in given.entries()? {
        let mut rules = ToolRules { tool: name.to_owned(), ..ToolRules::default() };
        if !value.node.is_null() {
            read(TOOL, &mut rules, &value, reading);
        }
        draft.server.tools.push(rules);
    }
    Ok(())
}
