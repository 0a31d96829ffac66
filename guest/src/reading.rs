//! Finds the tool calls in the free text of a model, in the forms in which models write them.
//!
//! Nothing is executed and nothing is guessed: an argument that would have to be computed is no argument, and a text with
//! two readings that differ in meaning is an error that shows both.

mod cursor;
mod elements;
mod known;
mod literals;
mod marks;
mod objects;
mod python;
mod react;
mod scan;
mod standing;
mod statements;
mod strings;

use crate::arguments::MAX_TEXT;
use crate::json::{self, Object, Value};
use crate::schema::beginning;
use known::Tools;
use scan::Scan;

/// A tool that calls may mean.
#[derive(Clone, Copy, Debug)]
pub struct KnownTool<'a> {
    /// The name of the tool, as the model knows it.
    pub name: &'a str,
    /// The schema of the tool's arguments: it names positions and decides the types of texts.
    pub input_schema: Option<&'a Value<'a>>,
}

/// A call in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCall {
    /// The name of the tool as written, without `functions.` before it, or that of the only known tool which it can mean.
    pub name: String,
    /// The arguments, as a JSON object.
    pub arguments: String,
    /// How the call is written.
    pub form: CallForm,
    /// How the call stands in the text.
    pub standing: Standing,
    /// The byte of the text at which the call begins.
    pub start: usize,
    /// The byte of the text at which the call ends.
    pub end: usize,
}

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// `Action: f` and `Action Input: …` on lines of their own.
    React,
    /// `f(a=1)`
    Python,
    /// `{"name": "f", "arguments": {…}}`, or another JSON object that names a tool and its arguments.
    Json,
    /// `{"function": {"name": "f", "arguments": "…"}}`, alone or in `tool_calls`.
    OpenAi,
    /// `{"type": "tool_use", "name": "f", "input": {…}}`
    Anthropic,
    /// A call between `<tool_call>` and `</tool_call>`, or in a tag that means the same.
    ToolCallTag,
    /// `<function=f><parameter=a>1</parameter></function>`, or `<function=f>{"a": 1}</function>`
    FunctionTag,
    /// `<invoke name="f"><parameter name="a">1</parameter></invoke>`
    Invoke,
    /// A call after `[TOOL_CALLS]`.
    ToolCallsMark,
    /// A call after `<|tool_call|>`, `<|tool_call_begin|>` or another mark between bars.
    BarMark,
    /// A call after `<|python_tag|>`.
    PythonTag,
    /// A call in a `tool_code` tag or code fence.
    ToolCode,
}

/// How a call stands in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// On lines of its own.
    OwnLine,
    /// In a code fence, on lines of its own.
    Fenced,
    /// In tags, after a mark or under a label, with nothing else on its lines.
    Marked,
    /// In a sentence, or beside other words: the text may only mention it.
    Inline,
    /// In a quotation: between quotation marks or backticks in a sentence, after `>`, or in an element such as
    /// `<blockquote>`.
    Quoted,
}

impl Standing {
    /// Reports whether the call stands for itself, so that the text makes it rather than mentions it.
    pub fn is_for_itself(self) -> bool {
        matches!(self, Standing::OwnLine | Standing::Fenced | Standing::Marked)
    }
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadingError {
    /// The text has more bytes than this.
    TooLarge(u64),
    /// One call has more JSON values than this.
    TooManyValues(u64),
    /// One call is nested deeper than this many levels.
    TooDeep(u64),
    /// A call has two readings that differ in meaning.
    Ambiguous(AmbiguousCall),
    /// A call has an argument without a name, and no schema names its position.
    Unnamed(UnnamedArgument),
    /// The text ends inside the call that begins at this byte.
    Incomplete(usize),
    /// The arguments of the call that begins at this byte are broken JSON.
    Malformed(usize),
    /// The text has so many beginnings of calls without an end, up to this byte, that reading it would take too long.
    Tangled(usize),
}

/// A call with two readings that differ in meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousCall {
    /// The byte at which the call begins.
    pub at: usize,
    /// One reading, as the beginning of its JSON.
    pub one: String,
    /// The other reading, as the beginning of its JSON.
    pub other: String,
}

/// An argument without a name, whose position no schema names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedArgument {
    /// The byte at which the call begins.
    pub at: usize,
    /// The name of the tool.
    pub tool: String,
    /// The position of the argument, counted from one.
    pub position: usize,
}

impl ReadingError {
    /// Returns the error for a call with two readings.
    fn ambiguous(at: usize, one: &Value<'_>, other: &Value<'_>) -> Self {
        let (one, other) = (short(&one.to_json()), short(&other.to_json()));
        ReadingError::Ambiguous(AmbiguousCall { at, one, other })
    }
}

/// Finds the calls in a text, in the order of the text.
///
/// Only calls that stand for themselves are found, or with `loose` also those that the text mentions or quotes. The
/// schema of a known tool gives names to positions. If no tool is known, only what is unmistakably a call counts.
pub fn read_calls(text: &str, tools: &[KnownTool<'_>], loose: bool) -> Result<Vec<ReadCall>, ReadingError> {
    if text.len() > MAX_TEXT {
        return Err(ReadingError::TooLarge(MAX_TEXT as u64));
    }
    let tools = Tools::new(tools);
    let (mut calls, _) = Scan::new(text, &tools, loose).read()?;
    calls.retain(|call| loose || call.standing.is_for_itself());
    Ok(calls)
}

/// Finds the calls in a text, given the names of tools and the texts of their schemas.
pub fn read_calls_of(
    text: &str,
    tools: &[(String, Option<String>)],
    loose: bool,
) -> Result<Vec<ReadCall>, ReadingError> {
    let schemas: Vec<Option<Value<'_>>> =
        tools.iter().map(|(_, schema)| json::parse(schema.as_deref()?).ok()).collect();
    let known: Vec<_> = tools
        .iter()
        .zip(&schemas)
        .map(|((name, _), schema)| KnownTool { name, input_schema: schema.as_ref() })
        .collect();
    read_calls(text, &known, loose)
}

/// Returns the arguments of a text that is nothing but one call of this tool, if they fit its schema.
///
/// The name of the server can stand before the name of the tool.
pub(crate) fn as_own_call(text: &str, tool: &str, schema: Option<&Value<'_>>) -> Option<String> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let known = [KnownTool { name: tool, input_schema: schema }];
    let tools = Tools::new(&known);
    let (calls, _) = Scan::new(text, &tools, true).read().ok().filter(|(_, has_prose)| !has_prose)?;
    let [call] = <[ReadCall; 1]>::try_from(calls).ok()?;
    let is_own = call.name.strip_suffix(tool).is_some_and(|server| {
        server.is_empty() || [".", "__"].iter().any(|joint| server.len() > joint.len() && server.ends_with(joint))
    });
    let Value::Object(arguments) = json::parse(&call.arguments).ok()? else { return None };
    // A tool that takes a `name` and `arguments` can mean the text itself.
    let is_plain = |members: &Object<'_>| !members.is_empty() && tools.fits(0, members);
    let is_input = schema.is_some() && matches!(json::parse(text.trim()), Ok(Value::Object(own)) if is_plain(&own));
    (is_own && !is_input && tools.fits(0, &arguments)).then_some(call.arguments)
}

fn short(text: &str) -> String {
    beginning(text, MAX_SHOWN)
}

/// The maximum number of letters of a reading in an error.
const MAX_SHOWN: usize = 120;

#[cfg(test)]
mod tests;
