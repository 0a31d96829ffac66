//! The tools of the demo server.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{self, DemoError, DemoParams};
use super::{SERVERS, forecast, picture};

/// What a call leads to.
pub(super) enum DemoCallOutcome {
    /// The call is done.
    Done(DemoToolResult),
    /// The call is done after this time.
    Sleeping(Duration),
}

/// The result of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DemoToolResult {
    content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Box<RawValue>>,
    is_error: bool,
}

impl DemoToolResult {
    pub(super) fn text(text: String) -> DemoToolResult {
        DemoToolResult {
            content: vec![json!({"type": "text", "text": text})],
            structured_content: None,
            is_error: false,
        }
    }

    fn structured(text: String, content: &impl Serialize) -> DemoToolResult {
        DemoToolResult { structured_content: Some(message::json(content)), ..DemoToolResult::text(text) }
    }

    pub(super) fn error(text: String) -> DemoToolResult {
        DemoToolResult { is_error: true, ..DemoToolResult::text(text) }
    }
}

/// Lists all tools for `tools/list`, in the order of the catalog.
pub(super) fn list() -> Vec<Value> {
    let describe = |tool: &CatalogTool| {
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

/// Calls a tool; an unknown tool is a protocol error, and wrong arguments are a tool error that the model can read.
pub(super) fn call(params: &DemoParams) -> Result<DemoCallOutcome, DemoError> {
    let name = params.name.as_deref().ok_or_else(|| DemoError::invalid_params("tools/call needs a name".to_owned()))?;
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return Err(DemoError::invalid_params(format!("no such tool: {name:?}")));
    };
    let none = BTreeMap::new();
    let arguments = CallArguments(params.arguments.as_ref().unwrap_or(&none));
    let called = arguments.require(&tool.schema).and_then(|()| run(name, &arguments));
    Ok(called.unwrap_or_else(|why| {
        DemoCallOutcome::Done(DemoToolResult::error(format!("invalid arguments for {name:?}: {why}")))
    }))
}

fn run(name: &str, arguments: &CallArguments<'_>) -> Result<DemoCallOutcome, String> {
    Ok(DemoCallOutcome::Done(match name {
        "echo" => DemoToolResult::text(arguments.read("text", "a string")?),
        "add" => add(arguments.number("a")?, arguments.number("b")?)?,
        "sleep" => return sleep(arguments.read("seconds", "a number")?).map(DemoCallOutcome::Sleeping),
        "picture" => DemoToolResult { content: vec![picture::content()], ..DemoToolResult::text(String::new()) },
        "fail" => DemoToolResult::error(arguments.read("message", "a string")?),
        "forecast" => {
            let days = if arguments.0.contains_key("days") { arguments.read("days", "a whole number")? } else { 3 };
            let forecast = forecast::of(arguments.read("city", "a string")?, days)?;
            DemoToolResult::structured(forecast.to_string(), &forecast)
        }
        // Reached only if the catalog has a tool that is not implemented.
        _ => DemoToolResult::error(format!("the tool {name:?} is not made yet")),
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

fn add(a: Number, b: Number) -> Result<DemoToolResult, String> {
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
    Ok(DemoToolResult::structured(sum.get().to_owned(), &Sum { sum }))
}

fn sum_schema() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
}

/// The arguments of a call.
struct CallArguments<'a>(&'a BTreeMap<String, Box<RawValue>>);

impl CallArguments<'_> {
    /// Checks for missing required properties, and names all of them.
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
        // A JSON string keeps its quotes here, so it never parses as a number.
        match self.0.get(name).and_then(|value| value.get().parse().ok()) {
            Some(whole) => Ok(Number::Whole(whole)),
            None => self.read(name, "a number").map(Number::Float),
        }
    }
}

#[derive(Deserialize)]
struct CatalogServer {
    tools: Vec<CatalogTool>,
}

#[derive(Deserialize)]
struct CatalogTool {
    name: String,
    description: String,
    schema: Value,
    annotations: Value,
}

static TOOLS: LazyLock<Vec<CatalogTool>> = LazyLock::new(|| {
    let servers: BTreeMap<String, CatalogServer> =
        serde_json::from_str(SERVERS).expect("the demo catalog is JSON of its shape");
    servers.into_values().flat_map(|server| server.tools).collect()
});
