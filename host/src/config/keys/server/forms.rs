//! Parsers of values that clients write in more than one form.

use super::super::super::document::NodeValue;
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::UnexpandedText;
use super::draft::ServerDraft;

/// Reads `command`: a program, a list with its arguments (opencode), or a map (older files of Zed).
pub(super) fn read_command(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    _: &mut ReadContext,
) -> Result<(), FieldError> {
    match &field.node.value {
        NodeValue::List(_) => {
            let mut words = field.unexpanded_texts()?.into_iter();
            draft.server.command = words.next();
            draft.command_args = words.collect();
        }
        NodeValue::Map(_) => {
            for (name, part) in field.entries()? {
                match name {
                    "path" | "command" => draft.server.command = Some(part.unexpanded_text()?),
                    "args" => draft.command_args = part.unexpanded_texts()?,
                    "env" if !part.node.is_null() => {
                        for (name, value) in part.entries()? {
                            draft.server.env.push((name.to_owned(), value.unexpanded_text()?));
                        }
                    }
                    "env" => {}
                    _ => return Err(part.error("expected path, args or env")),
                }
            }
        }
        NodeValue::Scalar(_) => draft.server.command = Some(field.unexpanded_text()?),
    }
    Ok(())
}

/// Reads environment variables from a map or a list of `KEY=value`.
pub(super) fn read_env(
    given: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<Vec<(String, UnexpandedText)>, FieldError> {
    if !matches!(given.node.value, NodeValue::List(_)) {
        return given.unexpanded_map(context);
    }
    let mut variables = Vec::new();
    for item in given.items()? {
        let text = item.text()?;
        let Some((name, value)) = text.split_once('=') else {
            return Err(item.error("expected KEY=value"));
        };
        let field = format!("{}.{name}", given.field);
        variables
            .push((name.to_owned(), UnexpandedText { text: value.to_owned(), place: item.node.place.clone(), field }));
    }
    Ok(variables)
}

/// Turns the name of a variable into a reference such as `${NAME}`.
pub(super) fn variable_reference(field: &ConfigField<'_>) -> Result<UnexpandedText, FieldError> {
    let mut text = field.unexpanded_text()?;
    text.text = format!("${{{}}}", text.text);
    Ok(text)
}
