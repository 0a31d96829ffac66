//! The command `toolgate eval`: reads one JSON object per line, lets the logic decide it, and writes one per line.

mod gate_ops;
mod line_reader;
mod op_result;
mod ops;
mod shapes;

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decide::Decide;
use line_reader::{EvalLine, EvalLineReader};
use op_result::OpError;
pub use shapes::{EvalServer, EvalServers, EvalTool};

/// The operations with an example each, for `--help`.
pub const HELP: &str = r#"Each line is one JSON object with an "op", and gets one line: {"ok": …} or {"error": "…", "code": "…", "trace": […]}.
The schema of a tool is its "schema", "inputSchema" or "input_schema".

  {"op":"normalize","name":"a__b"}
  {"op":"split","name":"a.b"}
  {"op":"arguments","text":"n: 1","schema":{"type":"object"}}
  {"op":"filter","allow":["get_*"],"deny":[],"tools":["get_pods","delete_pod"]}
  {"op":"classify","failure":{"kind":"http","status":429},"phase":"not-sent","attempt":1}
  {"op":"extract","result":{"content":[{"type":"text","text":"hello"}]}}
  {"op":"mask","groups":["basic"],"text":"password: hunter2hunter2"}
  {"op":"truncate","text":"a long text","max_bytes":6,"why":"too long"}
  {"op":"fit","target":"openai","tools":[{"server":"a","tool":"b"}]}
  {"op":"read-calls","text":"get_weather(city='Paris')"}
  {"op":"search","tools":[{"server":"a","name":"get_weather"}],"queries":["forecast"],"limit":3}
  {"op":"backoff","attempt":3}
  {"op":"resolve","servers":{"a":{"tools":["x"]}},"call":{"name":"a__x","arguments":"n: 1"}}
  {"op":"execute","servers":{"a":{"tools":["x"]}},"call":{"name":"a.x"},"events":[{"answered":{"content":[]}}]}
  {"op":"lifecycle","events":[{"at_ms":0,"event":"wanted"},{"at_ms":40,"event":"connected"}]}
  {"op":"instructions","servers":{"a":{"instructions":"Be kind."}},"failed":{"b":"refused"}}"#;

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 64 << 20;

/// Answers every line until the input ends.
pub fn run(logic: &mut impl Decide, input: impl Read, mut output: impl Write) -> Result<(), EvalError> {
    let mut reader = EvalLineReader::new(input, MAX_LINE);
    while let Some(line) = reader.next().map_err(EvalError::Input)? {
        let answer = match line {
            EvalLine::Text(line) => answer(logic, line),
            EvalLine::TooLong => {
                let error = format!("the line is longer than {MAX_LINE} bytes");
                EvalReply::Error(OpError::invalid_line(error)).to_json()
            }
            EvalLine::NotUtf8 => EvalReply::Error(OpError::invalid_line("the line is not UTF-8".to_owned())).to_json(),
        };
        output.write_all(answer.as_bytes()).and_then(|()| output.write_all(b"\n")).map_err(EvalError::Output)?;
        // Flush only if no further line is buffered: interactive callers get each answer at once, and bulk input stays
        // fast.
        if !reader.has_buffered_line() {
            output.flush().map_err(EvalError::Output)?;
        }
    }
    output.flush().map_err(EvalError::Output)
}

/// The reason why no more lines are answered.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The input cannot be read.
    #[error("cannot read the input")]
    Input(#[source] std::io::Error),
    /// The output cannot be written.
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
}

/// Answers one line with one line.
pub fn answer(logic: &mut impl Decide, line: &str) -> String {
    match op_of(line).map_err(OpError::invalid_line).and_then(|op| ops::run(logic, op.as_deref(), line)) {
        Ok(ok) => EvalReply::Ok { ok: &ok }.to_json(),
        Err(error) => EvalReply::Error(error).to_json(),
    }
}

/// The answer to one line.
#[derive(Serialize)]
#[serde(untagged)]
enum EvalReply<'a> {
    Ok { ok: &'a RawValue },
    Error(OpError),
}

impl EvalReply<'_> {
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("raw JSON and texts are always JSON")
    }
}

fn op_of(line: &str) -> Result<Option<String>, String> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct OpField {
        op: Option<String>,
    }
    if !line.trim_start().starts_with('{') {
        return Err("not a JSON object: a line begins with `{`".to_owned());
    }
    let OpField { op } = serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    Ok(op)
}
