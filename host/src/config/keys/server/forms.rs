//! Values that people write in more than one form.

use super::super::super::document::Value;
use super::super::super::model::Located;
use super::super::super::reading::{Given, Misfit, Reading};
use super::Draft;

/// A program; a list has its arguments too (opencode), and so has a map (older files of Zed).
pub fn command(draft: &mut Draft, given: &Given<'_>) -> Result<(), Misfit> {
    match &given.node.value {
        Value::List(_) => {
            let mut words = given.items()?.iter().map(Given::located).collect::<Result<Vec<_>, _>>()?.into_iter();
            draft.server.command = words.next();
            draft.command_args = words.collect();
        }
        Value::Map(_) => {
            for (name, part) in given.entries()? {
                match name {
                    "path" | "command" => draft.server.command = Some(part.located()?),
                    "args" => {
                        draft.command_args = part.items()?.iter().map(Given::located).collect::<Result<_, _>>()?
                    }
                    "env" if !part.node.is_null() => {
                        for (name, value) in part.entries()? {
                            draft.server.env.push((name.to_owned(), value.located()?));
                        }
                    }
                    "env" => {}
                    _ => return Err(part.misfit("expected path, args or env")),
                }
            }
        }
        Value::Scalar(_) => draft.server.command = Some(given.located()?),
    }
    Ok(())
}

/// Variables, as a map or as a list of `KEY=value`.
pub fn env(given: &Given<'_>, reading: &mut Reading) -> Result<Vec<(String, Located)>, Misfit> {
    if !matches!(given.node.value, Value::List(_)) {
        return given.located_map(reading);
    }
    let mut variables = Vec::new();
    for item in given.items()? {
        let text = item.text()?;
        let Some((name, value)) = text.split_once('=') else {
            return Err(item.misfit("expected KEY=value"));
        };
        let field = format!("{}.{name}", given.field);
        variables.push((name.to_owned(), Located { text: value.to_owned(), place: item.node.place.clone(), field }));
    }
    Ok(variables)
}

/// The name of a variable in place of a value.
pub fn variable(given: &Given<'_>) -> Result<Located, Misfit> {
    let mut located = given.located()?;
    located.text = format!("${{{}}}", located.text);
    Ok(located)
}
