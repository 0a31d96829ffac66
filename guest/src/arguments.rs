//! Reads a model's free text as the arguments of a tool: six readings, and the first that succeeds wins.

mod draft;
mod fence;
mod pairs;
pub(crate) mod repair;
mod settle;
mod yaml;

use crate::json::{self, MAX_DEPTH, MAX_VALUES, Object, Value};
use crate::schema::{self, Document, Kinds, Schema, Source, Walk};
use draft::{Draft, Members};
use std::borrow::Cow;
use std::fmt;

/// The reading that succeeded first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The text is only white space: no arguments.
    Empty,
    /// A JSON object.
    Json,
    /// Another JSON value, placed in `input` or in the one property that the schema has for it.
    JsonValue,
    /// JSON that needed repairs.
    JsonRepaired,
    /// A YAML mapping that contains a list or mapping, or a block of text for a property that the schema names.
    Yaml,
    /// Pairs of `key: value` or `key=value`.
    KeyValue,
    /// The text itself, placed in `input` or in the one string property that the schema requires.
    Raw,
}

impl Stage {
    /// Returns the stage's name in the WIT.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Empty => "empty",
            Stage::Json => "json",
            Stage::JsonValue => "json-value",
            Stage::JsonRepaired => "json-repaired",
            Stage::Yaml => "yaml",
            Stage::KeyValue => "key-value",
            Stage::Raw => "raw",
        }
    }
}

/// The kind of a note, in the order in which notes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The text was repaired so that it could be read.
    Repair,
    /// A value was converted to the type that the schema asks for.
    Coercion,
    /// The arguments do not satisfy the schema.
    Problem,
}

/// A remark on how the text was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of the note.
    pub kind: NoteKind,
    /// The note itself, as a short sentence.
    pub text: String,
}

/// The arguments that were read from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// A JSON object.
    pub arguments: String,
    /// The reading that succeeded.
    pub stage: Stage,
    /// Notes on repairs, then coercions, then problems.
    pub notes: Vec<Note>,
}

/// The limit that the text exceeds; a text is never refused for its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More bytes than this.
    TooLarge(u64),
    /// More JSON values than this.
    TooManyValues(u64),
    /// Nested deeper than this many levels.
    TooDeep(u64),
}

impl Refusal {
    /// Returns the refusal for a JSON error, if the error is about a limit.
    fn of(error: &json::Error) -> Option<Refusal> {
        match error {
            json::Error::Syntax(..) => None,
            json::Error::TooManyValues => Some(Refusal::TooManyValues(MAX_VALUES as u64)),
            json::Error::TooDeep => Some(Refusal::TooDeep(MAX_DEPTH as u64)),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooLarge(limit) => {
                write!(f, "arguments larger than {limit} bytes: send less in one call, or refer to the data")
            }
            Refusal::TooManyValues(limit) => {
                write!(f, "arguments with more than {limit} JSON values: split them over several calls")
            }
            Refusal::TooDeep(limit) => write!(f, "arguments nested deeper than {limit} levels: flatten them"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Reads a text as arguments; if the tool has an input schema, the schema decides types.
pub fn parse(text: &str, schema: Option<&Document<'_>>) -> Result<Parsed, Refusal> {
    if text.len() > MAX_TEXT {
        return Err(Refusal::TooLarge(MAX_TEXT as u64));
    }
    let text = text.trim().trim_start_matches('\u{feff}').trim();
    let mut notes = Vec::new();
    let (stage, members) = match json_value(text)? {
        Some(Value::Object(members)) => (Stage::Json, members),
        other => {
            let walk = schema.map(|schema| Walk::new(schema.root()));
            read(text, other, walk.as_ref().map(Walk::top), &mut notes)?
        }
    };
    let mut arguments = Value::Object(members);
    if let Some(schema) = schema.filter(|schema| !schema.is_satisfied_by(&arguments)) {
        let schema = schema.root();
        let source = if matches!(stage, Stage::Yaml | Stage::KeyValue) { Source::Text } else { Source::Json };
        let coercions = schema::coerce(&mut arguments, schema, source);
        notes.extend(coercions.into_iter().map(|text| Note::new(NoteKind::Coercion, text)));
        let problems = schema::check(&arguments, schema);
        notes.extend(problems.into_iter().map(|text| Note::new(NoteKind::Problem, text)));
    }
    // `input` adds a level and opened strings add values, so check the limits again: the server must be able to read
    // this.
    let (values, depth) = schema::measure(&arguments);
    if values > MAX_VALUES {
        return Err(Refusal::TooManyValues(MAX_VALUES as u64));
    }
    if depth > MAX_DEPTH {
        return Err(Refusal::TooDeep(MAX_DEPTH as u64));
    }
    let mut json = String::with_capacity(text.len());
    arguments.write(&mut json);
    Ok(Parsed { arguments: json, stage, notes })
}

impl Note {
    fn new(kind: NoteKind, text: impl Into<String>) -> Self {
        Note { kind, text: text.into() }
    }
}

/// Tries the readings in order; `json` is the text as JSON, if it is JSON.
fn read<'a>(
    text: &'a str,
    json: Option<Value<'a>>,
    schema: Option<Schema<'_>>,
    notes: &mut Vec<Note>,
) -> Result<(Stage, Object<'a>), Refusal> {
    if text.is_empty() {
        return Ok((Stage::Empty, Object::new()));
    }
    if let Some(value) = json {
        return Ok((Stage::JsonValue, placed(value, schema, notes)));
    }
    let text = match repaired(text, schema, notes)? {
        Unfenced::Value(value) => return Ok((Stage::JsonRepaired, placed(value, schema, notes))),
        Unfenced::Text("") => return Ok((Stage::Empty, Object::new())),
        Unfenced::Text(text) => text,
    };
    let yaml = yaml::read(text, schema)?;
    // If the schema wants a string, do not open it: `query: {app="nginx"}` is a query.
    let opened =
        |members: &Members<'_>| schema.is_some_and(|schema| members.iter().any(|member| is_opened(member, schema)));
    let (yaml, doubtful) = match yaml {
        Some(members) if opened(&members) => (None, Some(members)),
        other => (other, None),
    };
    if let Some(members) = yaml {
        return Ok((Stage::Yaml, settled(members, schema, notes)));
    }
    if let Some(pairs) = pairs::read(text, schema)? {
        if pairs.joined {
            notes.push(Note::new(NoteKind::Repair, JOINED));
        }
        return Ok((Stage::KeyValue, settled(pairs.members, schema, notes)));
    }
    if let Some(members) = doubtful {
        return Ok((Stage::Yaml, settled(members, schema, notes)));
    }
    let property = schema.and_then(|schema| schema.sole_property(|kinds| kinds.has(Kinds::STRING)));
    if let Some(name) = property
        && let Some(value) = pairs::sole(text, name)?
    {
        if text.contains([',', '\n']) {
            notes.push(Note::new(NoteKind::Repair, JOINED));
        }
        return Ok((Stage::KeyValue, settled(vec![(name.to_owned().into(), value)], schema, notes)));
    }
    let property = property.map_or(Cow::Borrowed(INPUT), |name| name.to_owned().into());
    Ok((Stage::Raw, [(property, Value::string(text))].into_iter().collect()))
}

/// Reports whether a member is a list or a mapping although the schema wants a string.
fn is_opened((key, value): &(Cow<'_, str>, Draft<'_>), schema: Schema<'_>) -> bool {
    let kind = match value {
        Draft::List(_) => Kinds::ARRAY,
        Draft::Map(_) => Kinds::OBJECT,
        Draft::Word(..) | Draft::Text(_) => return false,
    };
    schema.property(key).map(Schema::kinds).is_some_and(|kinds| kinds.has(Kinds::STRING) && !kinds.has(kind))
}

/// Reads the text as JSON, if it is JSON.
fn json_value(text: &str) -> Result<Option<Value<'_>>, Refusal> {
    if !text.starts_with(|first: char| matches!(first, '{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n')) {
        return Ok(None);
    }
    match json::parse(text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Refusal::of(&error).map_or(Ok(None), Err),
    }
}

/// A text without its code fence: JSON that was read, or other text.
enum Unfenced<'a> {
    Value(Value<'a>),
    Text(&'a str),
}

/// Removes the code fence, if there is one, and repairs the JSON, if it is JSON.
fn repaired<'a>(text: &'a str, schema: Option<Schema<'_>>, notes: &mut Vec<Note>) -> Result<Unfenced<'a>, Refusal> {
    let mut note = |texts: &[&str]| notes.extend(texts.iter().map(|text| Note::new(NoteKind::Repair, *text)));
    let Some(fenced) = fence::find(text) else {
        return Ok(match repair::read(text)? {
            Some((value, repairs)) => {
                note(&repairs);
                Unfenced::Value(value)
            }
            None => Unfenced::Text(text),
        });
    };
    let read = match json_value(fenced.inside)? {
        Some(value) => Some((value, Vec::new())),
        None => repair::read(fenced.inside)?,
    };
    match read {
        // Words around a fence may belong to the text, so drop them only if the schema knows a property of the object.
        Some((value, repairs)) if !fenced.prose || is_known(&value, schema) => {
            note(&[if fenced.prose {
                "removed the code fence and the words around it"
            } else {
                "removed the code fence"
            }]);
            note(&repairs);
            Ok(Unfenced::Value(value))
        }
        None if !fenced.prose => {
            note(&["removed the code fence"]);
            Ok(Unfenced::Text(fenced.inside))
        }
        _ => Ok(Unfenced::Text(text)),
    }
}

/// Reports whether a value is an object with a property that the schema names, or any object if there is no schema.
fn is_known(value: &Value<'_>, schema: Option<Schema<'_>>) -> bool {
    let Value::Object(members) = value else { return false };
    schema.is_none_or(|schema| members.iter().any(|(name, _)| schema.names(name)))
}

/// Makes an object of a value: as `input`, or as the one property that the schema has for it.
fn placed<'a>(value: Value<'a>, schema: Option<Schema<'_>>, notes: &mut Vec<Note>) -> Object<'a> {
    let value = match value {
        Value::Object(members) => return members,
        value => value,
    };
    let property = schema
        .filter(|schema| !schema.names(INPUT))
        .and_then(|schema| schema.sole_property(|kinds| schema::coercible(&value, kinds)));
    if let Some(name) = property {
        notes.push(Note::new(NoteKind::Coercion, format!("took the value as {}", Value::string(name).to_json())));
        return [(name.to_owned().into(), value)].into_iter().collect();
    }
    // Models sometimes quote whole objects. If no property takes a string, this must be one.
    if let (Some(schema), Value::String(text)) = (schema, &value)
        && let Ok(opened @ Value::Object(_)) = json::parse(text)
        && is_known(&opened, Some(schema))
        && let Value::Object(members) = opened.into_owned()
    {
        notes.push(Note::new(NoteKind::Coercion, "opened the object in quotes"));
        return members;
    }
    [(Cow::Borrowed(INPUT), value)].into_iter().collect()
}

/// Decides the type of every unquoted word.
fn settled<'a>(members: Members<'a>, schema: Option<Schema<'_>>, notes: &mut Vec<Note>) -> Object<'a> {
    let written = members.len();
    let Value::Object(members) = Draft::Map(members).settle(schema) else { return Object::new() };
    if members.len() < written {
        notes.push(Note::new(NoteKind::Repair, "some keys were given more than once: the last value of each counts"));
    }
    members
}

/// The note that a value contains separators.
const JOINED: &str = "some commas or newlines were read as part of the value before them";
/// The member for a value that is not an object.
const INPUT: &str = "input";
/// The maximum length of the text in bytes.
pub const MAX_TEXT: usize = 16 << 20;

#[cfg(test)]
mod tests;
