//! The keys of an input.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::ConfigInput;
use super::super::section::{ConfigKey, KeyForm, read_keys, schema};

type Key = ConfigKey<ConfigInput>;

/// The keys of an input.
pub(crate) const INPUT: &[Key] = &[
    Key::new("id", KeyForm::Text(|input, text| input.id = text)).about("The name that `${input:ID}` uses."),
    Key::new("description", KeyForm::Text(|input, text| input.description = Some(text))).about("The question."),
    Key::new("password", KeyForm::Flag(|input, flag| input.password = flag))
        .about("Hide the answer while it is typed.")
        .default("false"),
    Key::new("default", KeyForm::Text(|input, text| input.default = Some(text))).about("The answer if none is given."),
    Key::new(
        "options",
        KeyForm::Custom(schema::texts, |input, field, _| {
            // VS Code also writes an option as a map with a label and a value.
            field.texts_or_maps("value").map(|options| input.options = options)
        }),
    )
    .about("The allowed answers; empty allows any.")
    .default("[]"),
    // VS Code's `promptString` and `pickString`; `options` already tells them apart.
    Key::hidden(
        "type",
        KeyForm::Custom(schema::text, |_, field, context| {
            if field.text()? == "command" {
                context.add_notice(
                    &field.node.place,
                    "an input of type \"command\" only works in the editor; toolgate asks a person instead",
                );
            }
            Ok(())
        }),
    ),
    Key::hidden("command", KeyForm::Custom(schema::text, |_, _, _| Ok(()))),
    Key::hidden("args", KeyForm::Custom(schema::text, |_, _, _| Ok(()))),
];

/// Reads the `inputs` of toolgate's own files and of VS Code's.
pub(crate) fn read_inputs(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<ConfigInput>, FieldError> {
    let mut inputs: Vec<ConfigInput> = Vec::new();
    for item in field.items()? {
        let mut input = ConfigInput::default();
        read_keys(INPUT, &mut input, &item, context);
        if input.id.is_empty() {
            return Err(item.error("an `id` is missing"));
        }
        if inputs.iter().any(|earlier| earlier.id == input.id) {
            return Err(item.error(format!("the id {:?} is given twice", input.id)));
        }
        inputs.push(input);
    }
    Ok(inputs)
}
