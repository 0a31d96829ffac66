//! The keys of a server's `tools`, and the parsers of `allow` and `tools`.

use super::super::super::document::{MapEntry, NodeValue};
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::{AnnotationOverrides, FileShape, ToolRules};
use super::super::super::schema;
use super::super::{ConfigKey, KeyForm, is_ignorable, read_keys};
use super::ServerDraft;

/// The keys of one tool.
pub const TOOL: &[ConfigKey<ToolRules>] = &[
    ConfigKey::as_rule(ConfigKey::new(
        "annotations",
        KeyForm::Section(|| schema::object(ANNOTATIONS)),
        "{}",
        "What the tool does; these override the server's annotations.",
        |tool, field, context| {
            read_keys(ANNOTATIONS, &mut tool.annotations, field, context);
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "requires",
        KeyForm::Texts,
        "[]",
        "Capabilities that a principal needs, all of them, to use the tool.",
        |tool, field, _| {
            tool.requires = field.texts()?;
            Ok(())
        },
    )),
    ConfigKey::new("note", KeyForm::Text, "", "Text to add to the tool's description.", |tool, field, _| {
        tool.note = Some(field.text()?);
        Ok(())
    }),
];

/// The keys of `annotations`.
pub const ANNOTATIONS: &[ConfigKey<AnnotationOverrides>] = &[
    ConfigKey::aliased(
        &["readOnlyHint"],
        ConfigKey::new("read_only", KeyForm::Flag, "", "The tool changes nothing.", |annotations, field, _| {
            annotations.read_only = Some(field.flag()?);
            Ok(())
        }),
    ),
    ConfigKey::aliased(
        &["destructiveHint"],
        ConfigKey::new(
            "destructive",
            KeyForm::Flag,
            "",
            "The tool may delete or overwrite.",
            |annotations, field, _| {
                annotations.destructive = Some(field.flag()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::aliased(
        &["idempotentHint"],
        ConfigKey::new(
            "idempotent",
            KeyForm::Flag,
            "",
            "Calling the tool twice has the same effect as calling it once.",
            |annotations, field, _| {
                annotations.idempotent = Some(field.flag()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::aliased(
        &["openWorldHint"],
        ConfigKey::new(
            "open_world",
            KeyForm::Flag,
            "",
            "The tool reaches an open set of things, such as the web.",
            |annotations, field, _| {
                annotations.open_world = Some(field.flag()?);
                Ok(())
            },
        ),
    ),
];

/// Reads the list of allowed tools; an empty list allows none.
pub fn read_allow(draft: &mut ServerDraft, field: &ConfigField<'_>) -> Result<(), FieldError> {
    let tools = field.patterns()?;
    refuse_any(field, &tools)?;
    set_allow(draft, field, tools)
}

/// Reads the list of allowed tools as ai-agent writes it, where `any` means all tools.
pub fn read_ai_agent_allow(draft: &mut ServerDraft, field: &ConfigField<'_>) -> Result<(), FieldError> {
    let all = |tool: String| if tool.trim().eq_ignore_ascii_case("any") { "*".to_owned() } else { tool };
    let tools = field.patterns()?.into_iter().map(all).collect();
    set_allow(draft, field, tools)
}

/// Refuses the word `any` in a list of allowed tools: some clients mean all tools by it, but here it would name one.
pub fn refuse_any(field: &ConfigField<'_>, tools: &[String]) -> Result<(), FieldError> {
    match tools.iter().any(|tool| tool.trim().eq_ignore_ascii_case("any")) {
        true => Err(field.error("\"any\" is not known here; write \"*\" to mean all tools")),
        false => Ok(()),
    }
}

fn set_allow(draft: &mut ServerDraft, field: &ConfigField<'_>, tools: Vec<String>) -> Result<(), FieldError> {
    match draft.server.allow.replace(tools) {
        Some(_) => Err(field.error("another key also lists the allowed tools; keep one of them")),
        None => Ok(()),
    }
}

/// Reads the rules of single tools; in files of other clients, a list names the allowed tools.
pub fn read_tools(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<(), FieldError> {
    if !context.is_strict() && matches!(field.node.value, NodeValue::List(_)) {
        return read_allow(draft, field);
    }
    for (name, value) in field.entries()? {
        let mut rules = ToolRules { tool: name.to_owned(), ..ToolRules::default() };
        // In Codex, these keys say when Codex itself asks its user.
        let of_codex = |entry: &MapEntry| context.shape == FileShape::Codex && is_ignorable(&entry.key);
        match value.node.entries() {
            Some(entries) if !entries.is_empty() && entries.iter().all(of_codex) => {
                context.add_notice(
                    &value.node.place,
                    format!("the settings of tool {name:?} are ignored: they are for Codex itself"),
                );
                continue;
            }
            _ if value.node.is_null() => {}
            _ => context.read_strictly(|context| read_keys(TOOL, &mut rules, &value, context)),
        }
        draft.server.tools.push(rules);
    }
    Ok(())
}
