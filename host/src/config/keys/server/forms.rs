//! Values that people write in more than one form.

use super::super::super::document::NodeValue;
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::UnexpandedText;
use super::ServerDraft;

/// A program; a list has its arguments too (opencode), and so has a map (older files of Zed).
pub fn read_command(draft: &mut ServerDraft, given: &ConfigField<'_>) -> Result<(), FieldError> {
    match &given.node.value {
        NodeValue::List(_) => {
            let mut words =
                given.items()?.iter().map(ConfigField::unexpanded_text).collect::<Result<Vec<_>, _>>()?.into_iter();
            draft.server.command = words.next();
            draft.command_args = words.collect();
        }
        NodeValue::Map(_) => {
            for (name, part) in given.entries()? {
                match name {
                    "path" | "command" => draft.server.command = Some(part.unexpanded_text()?),
                    "args" => {
                        draft.command_args =
                            part.items()?.iter().map(ConfigField::unexpanded_text).collect::<Result<_, _>>()?
                    }
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
        NodeValue::Scalar(_) => draft.server.command = Some(given.unexpanded_text()?),
    }
    Ok(())
}

/// Variables, as a map or as a list of `KEY=value`.
pub fn read_env(
    given: &ConfigField<'_>,
    reading: &mut ReadContext,
) -> Result<Vec<(String, UnexpandedText)>, FieldError> {
    if !matches!(given.node.value, NodeValue::List(_)) {
        return given.unexpanded_map(reading);
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

/// The name of a variable in place of a value.
pub fn variable_reference(given: &ConfigField<'_>) -> Result<UnexpandedText, FieldError> {
    let mut located = given.unexpanded_text()?;
    located.text = format!("${{{}}}", located.text);
    Ok(located)
}
