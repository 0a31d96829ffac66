//! Asks a person at the terminal for the arguments that a call does not have, by the schema of its tool.

use crate::json::{JsonObject, string_value, to_raw};
use crate::logic::types::execution::{Code, ToolResult};
use serde_json::Value;
use serde_json::value::RawValue;

use super::WrittenCall;
use crate::cli::context::CliContext;
use crate::cli::error::CliError;
use crate::cli::route::new_call;
use crate::cli::style;
use crate::cli::terminal::TerminalPrompter;

/// Returns the call with the arguments that a person adds: required ones first. A call that leads to no tool is
/// returned as it is, because making it says why.
pub(super) async fn complete(context: &CliContext, call: WrittenCall) -> Result<WrittenCall, CliError> {
    if !TerminalPrompter::is_interactive() {
        return Err(CliError::usage(
            "-i asks for arguments on a terminal, and there is none; write them after the name",
        ));
    }
    let planned = context.gate.plan(new_call(&call.name, call.arguments.clone())).await?;
    let tool = match planned {
        Ok(plan) => plan.tool,
        // Arguments that are missing may be the reason.
        Err(ToolResult { code: Code::InvalidArguments, tool: Some(tool), .. }) => tool,
        Err(_) => return Ok(call),
    };
    let tools = context.gate.tools(&context.gate.style())?;
    let schema = tools.into_iter().find(|exposed| exposed.tool == tool).and_then(|exposed| exposed.input_schema);
    let given = context.gate.arguments(&call.arguments, schema.as_deref())?;
    let schema = schema.as_deref().and_then(JsonObject::read).unwrap_or_default();
    let mut arguments = JsonObject::read(&given).unwrap_or_default();
    for property in Property::all(&schema) {
        if arguments.get(&property.name).is_none()
            && let Some(value) = property.ask()?
        {
            arguments.set(&property.name, &value);
        }
    }
    Ok(WrittenCall { name: call.name, arguments: arguments.to_text() })
}

/// An argument as the schema describes it.
struct Property {
    name: String,
    is_required: bool,
    kind: Option<String>,
    description: String,
    default: Option<Value>,
    choices: Vec<Value>,
}

impl Property {
    /// Returns the properties of a schema, the required ones first.
    fn all(schema: &JsonObject) -> Vec<Property> {
        let required = value(schema, "required");
        let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|one| one == name));
        let properties = schema.get("properties").map(RawValue::get).and_then(JsonObject::read).unwrap_or_default();
        let mut all: Vec<Property> =
            properties.iter().map(|(name, described)| Property::new(name, is_required(name), described)).collect();
        all.sort_by_key(|property| !property.is_required);
        all
    }

    fn new(name: &str, is_required: bool, described: &RawValue) -> Self {
        let described = JsonObject::read(described.get()).unwrap_or_default();
        let description = described.get("description").and_then(string_value).unwrap_or_default();
        let first = description.trim().lines().next().unwrap_or_default().to_owned();
        Property {
            name: name.to_owned(),
            is_required,
            kind: value(&described, "type").as_str().map(str::to_owned),
            description: first,
            default: described.get("default").and_then(|value| serde_json::from_str(value.get()).ok()),
            choices: value(&described, "enum").as_array().cloned().unwrap_or_default(),
        }
    }

    /// Asks until the answer fits; `None` leaves the argument out.
    fn ask(&self) -> Result<Option<Value>, CliError> {
        let question = style::clean(&self.question()).replace('\n', " ");
        loop {
            let gone = || CliError::Usage(format!("no answer for {:?}, so nothing was called", self.name));
            let answer = TerminalPrompter::line(&question).ok_or_else(gone)?;
            match (answer.trim(), self.is_required) {
                ("", false) => return Ok(None),
                ("", true) => style::write_note("this one is required; \"\" is the empty text"),
                (answer, _) => match self.read(answer) {
                    Ok(value) => return Ok(Some(value)),
                    Err(expected) => style::write_note(&expected),
                },
            }
        }
    }

    fn question(&self) -> String {
        let mut about = vec![self.kind.clone().unwrap_or_else(|| "any value".to_owned())];
        if !self.choices.is_empty() {
            about = vec![format!("one of {}", self.choices.iter().map(shown).collect::<Vec<_>>().join(", "))];
        }
        about.extend(self.default.as_ref().map(|default| format!("default {}", shown(default))));
        about.push(if self.is_required { "required" } else { "Enter leaves it out" }.to_owned());
        let description =
            if self.description.is_empty() { String::new() } else { format!(" – {}", self.description) };
        format!("{}{description} ({}): ", self.name, about.join(", "))
    }

    /// Reads an answer, or says what is expected.
    fn read(&self, answer: &str) -> Result<Value, String> {
        if !self.choices.is_empty() {
            let chosen = self.choices.iter().find(|choice| shown(choice) == answer);
            return chosen.cloned().ok_or_else(|| "choose one of the values in brackets".to_owned());
        }
        let json = || serde_json::from_str::<Value>(answer).ok();
        let fitting = |fits: fn(&Value) -> bool, expected: &str| json().filter(fits).ok_or_else(|| expected.to_owned());
        match self.kind.as_deref() {
            Some("string") if answer == "\"\"" => Ok(Value::from("")),
            Some("string") => Ok(Value::from(answer)),
            Some("integer") => fitting(|value| value.is_i64() || value.is_u64(), "write a whole number"),
            Some("number") => fitting(Value::is_number, "write a number"),
            Some("boolean") => match answer.to_ascii_lowercase().as_str() {
                "true" | "yes" | "y" => Ok(Value::Bool(true)),
                "false" | "no" | "n" => Ok(Value::Bool(false)),
                _ => Err("write yes or no".to_owned()),
            },
            Some("array") => fitting(Value::is_array, "write a list in JSON, such as [\"a\", \"b\"]"),
            Some("object") => fitting(Value::is_object, "write an object in JSON, such as {\"a\": 1}"),
            Some("null") => fitting(Value::is_null, "write null"),
            _ => Ok(json().unwrap_or_else(|| Value::from(answer))),
        }
    }
}

fn value(object: &JsonObject, name: &str) -> Value {
    object.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// Returns a value as a person would type it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| to_raw(value).get().to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_by_their_type_and_required_ones_come_first() {
        let schema = JsonObject::read(
            r#"{"required": ["n"], "properties": {"a": {"type": "array"}, "n": {"type": "integer"},
                "e": {"enum": ["x", 2]}, "b": {"type": "boolean"}, "s": {"type": "string"}, "z": {}}}"#,
        );
        let all = Property::all(&schema.unwrap());
        assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<String>(), "naebsz");
        let rows = [
            ("n", "3", Some(json!(3))),
            ("n", "3.5", None),
            ("a", "[1]", Some(json!([1]))),
            ("a", "1", None),
            ("e", "x", Some(json!("x"))),
            ("e", "2", Some(json!(2))),
            ("e", "y", None),
            ("b", "Yes", Some(json!(true))),
            ("b", "maybe", None),
            ("s", "3", Some(json!("3"))),
            ("s", "\"\"", Some(json!(""))),
            ("z", "3", Some(json!(3))),
            ("z", "word", Some(json!("word"))),
        ];
        for (name, answer, expected) in rows {
            let property = all.iter().find(|one| one.name == name).unwrap();
            assert_eq!(property.read(answer).ok(), expected, "{name} {answer}");
        }
    }
}
