//! The tools of the demo server.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{self, Params, Refusal};
use super::{SERVERS, forecast, picture};

/// What a call comes to.
pub(super) enum Called {
    /// It is done.
    Done(ToolResult),
    /// It is done after a while.
    Sleeping(Duration),
}

/// The result of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult {
    content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Box<RawValue>>,
    is_error: bool,
}

impl ToolResult {
    pub(super) fn text(text: String) -> ToolResult {
        ToolResult { content: vec![json!({"type": "text", "text": text})], structured_content: None, is_error: false }
    }

    fn structured(text: String, content: &impl Serialize) -> ToolResult {
        ToolResult { structured_content: Some(message::json(content)), ..ToolResult::text(text) }
    }

    pub(super) fn error(text: String) -> ToolResult {
        ToolResult { is_error: true, ..ToolResult::text(text) }
    }
}

/// All tools as `tools/list` shows them, in the catalog's order.
pub(super) fn list() -> Vec<Value> {
    let describe = |tool: &Tool| {
        let mut described = json!({
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.schema,
            "annotations": tool.annotations,
        });
        match tool.name.as_str() {
            "add" => described["outputSchema"] = sum_schema(),
            "forecast" => described["outputSchema"] = forecast::schema(),
            _ => {}
        }
        described
    };
    TOOLS.iter().map(describe).collect()
}

/// Calls a tool. A tool that is not there is the caller's mistake; arguments that do not fit are for the model to read.
pub(super) fn call(params: &Params) -> Result<Called, Refusal> {
    let name = params.name.as_deref().ok_or_else(|| Refusal::params("tools/call needs a name".to_owned()))?;
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return Err(Refusal::params(format!("no such tool: {name:?}")));
    };
    let none = BTreeMap::new();
    let arguments = Arguments(params.arguments.as_ref().unwrap_or(&none));
    let called = arguments.require(&tool.schema).and_then(|()| run(name, &arguments));
    Ok(called.unwrap_or_else(|why| Called::Done(ToolResult::error(format!("invalid arguments for {name:?}: {why}")))))
}

fn run(name: &str, arguments: &Arguments<'_>) -> Result<Called, String> {
    Ok(Called::Done(match name {
        "echo" => ToolResult::text(arguments.read("text", "a string")?),
        "add" => add(arguments.number("a")?, arguments.number("b")?)?,
        "sleep" => return sleep(arguments.read("seconds", "a number")?).map(Called::Sleeping),
        "picture" => ToolResult { content: vec![picture::content()], ..ToolResult::text(String::new()) },
        "fail" => ToolResult::error(arguments.read("message", "a string")?),
        "forecast" => {
            let days = if arguments.0.contains_key("days") { arguments.read("days", "a whole number")? } else { 3 };
            let forecast = forecast::of(arguments.read("city", "a string")?, days)?;
            ToolResult::structured(forecast.to_string(), &forecast)
        }
        // Only a catalog with a tool too many comes here.
        _ => ToolResult::error(format!("the tool {name:?} is not made yet")),
    }))
}

fn sleep(seconds: f64) -> Result<Duration, String> {
    match seconds {
        0.0..=600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("\"seconds\" must be from 0 to 600, not {seconds}")),
    }
}

#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Float(f64),
}

fn add(a: Number, b: Number) -> Result<ToolResult, String> {
    #[derive(Serialize)]
    struct Sum {
        sum: Box<RawValue>,
    }
    let float = |number| match number {
        Number::Whole(whole) => whole as f64,
        Number::Float(float) => float,
    };
    let whole = match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => a.checked_add(b),
        _ => None,
    };
    let sum = match whole {
        Some(whole) => message::json(&whole),
        None if (float(a) + float(b)).is_finite() => message::json(&(float(a) + float(b))),
        None => return Err("the sum is too large".to_owned()),
    };
    Ok(ToolResult::structured(sum.get().to_owned(), &Sum { sum }))
}

fn sum_schema() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
}

/// The arguments of a call.
struct Arguments<'a>(&'a BTreeMap<String, Box<RawValue>>);

impl Arguments<'_> {
    /// Names all required properties that are missing, not only the first.
    fn require(&self, schema: &Value) -> Result<(), String> {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<String> = required
            .filter(|name| !self.0.contains_key(*name))
            .map(|name| format!("missing required property {name:?}"))
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str, kind: &str) -> Result<T, String> {
        let value = self.0.get(name).and_then(|value| serde_json::from_str(value.get()).ok());
        value.ok_or_else(|| format!("{name:?} must be {kind}"))
    }

    fn number(&self, name: &str) -> Result<Number, String> {
        // A JSON string keeps its quotes here, so that it is no number.
        match self.0.get(name).and_then(|value| value.get().parse().ok()) {
            Some(whole) => Ok(Number::Whole(whole)),
            None => self.read(name, "a number").map(Number::Float),
        }
    }
}

#[derive(Deserialize)]
struct Server {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    schema: Value,
    annotations: Value,
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let servers: BTreeMap<String, Server> =
        serde_json::from_str(SERVERS).expect("the demo catalog is JSON of its shape");
    servers.into_values().flat_map(|server| server.tools).collect()
});
