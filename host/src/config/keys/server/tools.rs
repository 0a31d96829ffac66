//! The keys of a server's `tools`, and the parsers of `allow` and `tools`.

use super::super::super::document::{MapEntry, NodeValue};
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::{Annotations, FileShape, ToolConfig};
use super::super::super::section::{ConfigKey, KeyForm, SectionForm, is_ignorable, read_keys};
use super::draft::ServerDraft;

type ToolKey = ConfigKey<ToolConfig>;

/// The keys of one tool.
pub(crate) const TOOL: &[ToolKey] = &[
    ToolKey::rule("annotations", KeyForm::section(&SectionForm(ANNOTATIONS, |tool| &mut tool.annotations)))
        .about("What the tool does; these override the server's annotations.")
        .default("{}"),
    ToolKey::rule("requires", KeyForm::Texts(|tool, texts| tool.requires = texts))
        .about("Capabilities that a principal needs, all of them, to use the tool.")
        .default("[]"),
    ToolKey::new("note", KeyForm::Text(|tool, text| tool.note = Some(text)))
        .about("A note on the tool, for the instructions that the model gets."),
];

type AnnotationKey = ConfigKey<Annotations>;

/// The keys of `annotations`.
pub(crate) const ANNOTATIONS: &[AnnotationKey] = &[
    AnnotationKey::new("read_only", KeyForm::Flag(|annotations, flag| annotations.read_only = Some(flag)))
        .about("The tool changes nothing.")
        .aliased(&["readOnlyHint"]),
    AnnotationKey::new("destructive", KeyForm::Flag(|annotations, flag| annotations.destructive = Some(flag)))
        .about("The tool may delete or overwrite.")
        .aliased(&["destructiveHint"]),
    AnnotationKey::new("idempotent", KeyForm::Flag(|annotations, flag| annotations.idempotent = Some(flag)))
        .about("Calling the tool twice has the same effect as calling it once.")
        .aliased(&["idempotentHint"]),
    AnnotationKey::new("open_world", KeyForm::Flag(|annotations, flag| annotations.open_world = Some(flag)))
        .about("The tool reaches an open set of things, such as the web.")
        .aliased(&["openWorldHint"]),
];

/// Reads the list of allowed tools; an empty list allows none.
pub(super) fn read_allow(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    _: &mut ReadContext,
) -> Result<(), FieldError> {
    set_allow(draft, field, field.allowed_patterns()?)
}

/// Reads the list of allowed tools as ai-agent writes it, where `any` means all tools.
pub(super) fn read_ai_agent_allow(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    _: &mut ReadContext,
) -> Result<(), FieldError> {
    let all = |tool: String| if tool.trim().eq_ignore_ascii_case("any") { "*".to_owned() } else { tool };
    set_allow(draft, field, field.patterns()?.into_iter().map(all).collect())
}

fn set_allow(draft: &mut ServerDraft, field: &ConfigField<'_>, tools: Vec<String>) -> Result<(), FieldError> {
    match draft.server.allow.replace(tools) {
        Some(_) => Err(field.error("another key also lists the allowed tools; keep one of them")),
        None => Ok(()),
    }
}

/// Reads the rules of single tools; in files of other clients, a list names the allowed tools.
pub(super) fn read_tools(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<(), FieldError> {
    if !context.strict && matches!(field.node.value, NodeValue::List(_)) {
        return read_allow(draft, field, context);
    }
    for (name, value) in field.entries()? {
        let mut rules = ToolConfig { tool: name.to_owned(), ..ToolConfig::default() };
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
