//! Reads a model's free text as the arguments of a tool: six readings, and the first that succeeds wins.

mod begun;
mod draft;
mod fence;
mod pairs;
pub(crate) mod repair;
mod settle;
mod yaml;

use crate::json::{self, MAX_DEPTH, MAX_VALUES, Object, Repeated, Value};
use crate::schema::{self, Document, Kinds, Schema, Source, Walk};
use begun::Beginning;
use draft::{Draft, Members};
use repair::Repaired;
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

/// What makes it uncertain which arguments a text means.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// A key that an object of the text has more than once.
    pub repeated: Option<Repeated>,
    /// The text begins as a JSON object and does not go on as one, so it was read as a plain text.
    pub is_broken: bool,
}

/// The notes on a text, and the doubts, as they are found.
#[derive(Default)]
struct Remarks {
    notes: Vec<Note>,
    doubts: Doubts,
}

impl Remarks {
    fn note(&mut self, kind: NoteKind, text: impl Into<String>) {
        self.notes.push(Note { kind, text: text.into() });
    }

    /// Notes a key that was given more than once.
    fn repeated(&mut self, repeated: Option<Repeated>) {
        if repeated.is_some() {
            self.note(NoteKind::Repair, REPEATED);
            self.doubts.repeated = repeated;
        }
    }

    /// Notes the repairs of a text, and returns its value.
    fn repaired<'a>(&mut self, repaired: Repaired<'a>) -> Value<'a> {
        for note in repaired.notes {
            self.note(NoteKind::Repair, note);
        }
        self.repeated(repaired.repeated);
        repaired.value
    }
}

/// Reads a text as arguments; if the tool has an input schema, the schema decides types.
pub fn parse(text: &str, schema: Option<&Document<'_>>) -> Result<Parsed, Refusal> {
    parse_noting(text, schema).map(|(parsed, _)| parsed)
}

/// Reads a text as arguments, and says what makes it uncertain which are meant.
pub(crate) fn parse_noting(text: &str, schema: Option<&Document<'_>>) -> Result<(Parsed, Doubts), Refusal> {
    if text.len() > MAX_TEXT {
        return Err(Refusal::TooLarge(MAX_TEXT as u64));
    }
    let text = text.trim().trim_start_matches('\u{feff}').trim();
    let mut remarks = Remarks::default();
    let (stage, members) = match json_value(text, &mut remarks)? {
        Some(Value::Object(members)) => (Stage::Json, members),
        other => {
            let walk = schema.map(|schema| Walk::new(schema.root()));
            read(text, other, walk.as_ref().map(Walk::top), &mut remarks)?
        }
    };
    let Remarks { mut notes, doubts } = remarks;
    let mut arguments = Value::Object(members);
    if let Some(schema) = schema.filter(|schema| !schema.is_satisfied_by(&arguments)) {
        let schema = schema.root();
        let source = if matches!(stage, Stage::Yaml | Stage::KeyValue) { Source::Text } else { Source::Json };
        let coercions = schema::coerce(&mut arguments, schema, source);
        notes.extend(coercions.into_iter().map(|text| Note { kind: NoteKind::Coercion, text }));
        let problems = schema::check(&arguments, schema);
        notes.extend(problems.into_iter().map(|text| Note { kind: NoteKind::Problem, text }));
    }
    // Problems come last; one may have been noted before the coercions.
    notes.sort_by_key(|note| note.kind as u8);
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
    Ok((Parsed { arguments: json, stage, notes }, doubts))
}

/// Tries the readings in order; `json` is the text as JSON, if it is JSON.
fn read<'a>(
    text: &'a str,
    json: Option<Value<'a>>,
    schema: Option<Schema<'_>>,
    remarks: &mut Remarks,
) -> Result<(Stage, Object<'a>), Refusal> {
    if text.is_empty() {
        return Ok((Stage::Empty, Object::new()));
    }
    if let Some(value) = json {
        return Ok((Stage::JsonValue, placed(value, schema, remarks)));
    }
    let text = match repaired(text, schema, remarks)? {
        Unfenced::Value(value) => return Ok((Stage::JsonRepaired, placed(value, schema, remarks))),
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
        return Ok((Stage::Yaml, settled(members, schema, remarks)));
    }
    if let Some(pairs) = pairs::read(text, schema)? {
        if pairs.joined {
            remarks.note(NoteKind::Repair, JOINED);
        }
        return Ok((Stage::KeyValue, settled(pairs.members, schema, remarks)));
    }
    if let Some(members) = doubtful {
        return Ok((Stage::Yaml, settled(members, schema, remarks)));
    }
    match begun::read(text, schema)? {
        Some(Beginning::Object(read)) => {
            remarks.note(NoteKind::Repair, "removed the words after the object");
            let value = remarks.repaired(read);
            return Ok((Stage::JsonRepaired, placed(value, schema, remarks)));
        }
        Some(Beginning::Problem(problem)) => {
            remarks.note(NoteKind::Problem, problem);
            remarks.doubts.is_broken = true;
        }
        None => {}
    }
    let property = schema.and_then(|schema| schema.sole_property(|kinds| kinds.has(Kinds::STRING)));
    if let Some(name) = property
        && let Some(value) = pairs::sole(text, name)?
    {
        if text.contains([',', '\n']) {
            remarks.note(NoteKind::Repair, JOINED);
        }
        return Ok((Stage::KeyValue, settled(vec![(name.to_owned().into(), value)], schema, remarks)));
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
fn json_value<'a>(text: &'a str, remarks: &mut Remarks) -> Result<Option<Value<'a>>, Refusal> {
    if !text.starts_with(|first: char| matches!(first, '{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n')) {
        return Ok(None);
    }
    match json::parse_noting(text) {
        Ok((value, repeated)) => {
            remarks.repeated(repeated);
            Ok(Some(value))
        }
        Err(error) => Refusal::of(&error).map_or(Ok(None), Err),
    }
}

/// A text without its code fence: JSON that was read, or other text.
enum Unfenced<'a> {
    Value(Value<'a>),
    Text(&'a str),
}

/// Removes the code fence, if there is one, and repairs the JSON, if it is JSON.
fn repaired<'a>(text: &'a str, schema: Option<Schema<'_>>, remarks: &mut Remarks) -> Result<Unfenced<'a>, Refusal> {
    let Some(fenced) = fence::find(text) else {
        return Ok(match repair::read(text)? {
            Some(read) => Unfenced::Value(remarks.repaired(read)),
            None => Unfenced::Text(text),
        });
    };
    let mut inner = Remarks::default();
    let read = match json_value(fenced.inside, &mut inner)? {
        Some(value) => Some(value),
        None => repair::read(fenced.inside)?.map(|read| inner.repaired(read)),
    };
    match read {
        // Words around a fence may belong to the text, so drop them only if the schema knows a property of the object.
        Some(value) if !fenced.prose || is_known(&value, schema) => {
            let around = if fenced.prose { " and the words around it" } else { "" };
            remarks.note(NoteKind::Repair, format!("removed the code fence{around}"));
            remarks.notes.append(&mut inner.notes);
            remarks.doubts = inner.doubts;
            Ok(Unfenced::Value(value))
        }
        None if !fenced.prose => {
            remarks.note(NoteKind::Repair, "removed the code fence");
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
fn placed<'a>(value: Value<'a>, schema: Option<Schema<'_>>, remarks: &mut Remarks) -> Object<'a> {
    let value = match value {
        Value::Object(members) => return members,
        value => value,
    };
    let property = schema
        .filter(|schema| !schema.names(INPUT))
        .and_then(|schema| schema.sole_property(|kinds| schema::coercible(&value, kinds)));
    if let Some(name) = property {
        remarks.note(NoteKind::Coercion, format!("took the value as {}", Value::string(name).to_json()));
        return [(name.to_owned().into(), value)].into_iter().collect();
    }
    // Models sometimes quote whole objects. If no property takes a string, this must be one.
    if let (Some(schema), Value::String(text)) = (schema, &value)
        && let Ok((opened @ Value::Object(_), repeated)) = json::parse_noting(text)
        && is_known(&opened, Some(schema))
        && let Value::Object(members) = opened.into_owned()
    {
        remarks.note(NoteKind::Coercion, "opened the object in quotes");
        remarks.repeated(repeated);
        return members;
    }
    [(Cow::Borrowed(INPUT), value)].into_iter().collect()
}

/// Decides the type of every unquoted word.
fn settled<'a>(members: Members<'a>, schema: Option<Schema<'_>>, remarks: &mut Remarks) -> Object<'a> {
    let written = members.len();
    let Value::Object(members) = Draft::Map(members).settle(schema) else { return Object::new() };
    if members.len() < written {
        remarks.note(NoteKind::Repair, REPEATED);
    }
    members
}

/// The note that an object has a key more than once.
const REPEATED: &str = "some keys were given more than once: the last value of each counts";
/// The note that a value contains separators.
const JOINED: &str = "some commas or newlines were read as part of the value before them";
/// The member for a value that is not an object.
const INPUT: &str = "input";
/// The maximum length of the text in bytes.
pub const MAX_TEXT: usize = 16 << 20;

#[cfg(test)]
mod tests;
