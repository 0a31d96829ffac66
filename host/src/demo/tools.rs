//! The tools of the demo server.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::era::{DemoParams, invalid_params};
use super::{SERVERS, forecast};
use crate::failure::RpcError;
use crate::json::{JsonObject, to_raw};

/// What a call leads to.
pub(super) enum DemoCallOutcome {
    /// The call is done, with this result.
    Done(JsonObject),
    /// The call is done after this time.
    Sleeping(Duration),
}

/// Returns the result of a tool that says this.
pub(super) fn text_result(text: &str) -> JsonObject {
    tool_result(json!({"type": "text", "text": text}), false)
}

/// Returns the result of a tool that fails with this message.
pub(super) fn error_result(message: &str) -> JsonObject {
    tool_result(json!({"type": "text", "text": message}), true)
}

fn structured_result(text: &str, content: &impl Serialize) -> JsonObject {
    let mut result = text_result(text);
    result.set("structuredContent", content);
    result
}

fn tool_result(content: Value, is_error: bool) -> JsonObject {
    let mut result = JsonObject::default();
    result.set("content", &[content]);
    result.set("isError", &is_error);
    result
}

/// Lists all tools for `tools/list`, in the order of the catalog.
pub(super) fn list() -> Vec<Value> {
    let describe = |tool: &Value| {
        let mut described = json!({
            "name": tool["name"],
            "description": tool["description"],
            "inputSchema": tool["schema"],
            "annotations": tool["annotations"],
        });
        match tool["name"].as_str() {
            Some("add") => described["outputSchema"] = sum_schema(),
            Some("forecast") => described["outputSchema"] = forecast::schema(),
            _ => {}
        }
        described
    };
    TOOLS.iter().map(describe).collect()
}

/// Calls a tool; an unknown tool is a protocol error, and wrong arguments are a tool error that the model can read.
pub(super) fn call(params: &DemoParams) -> Result<DemoCallOutcome, RpcError> {
    let name = params.name.as_deref().ok_or_else(|| invalid_params("tools/call needs a name"))?;
    let Some(tool) = TOOLS.iter().find(|tool| tool["name"] == name) else {
        return Err(invalid_params(format!("no such tool: {name:?}")));
    };
    let arguments = CallArguments(params.arguments.clone().unwrap_or_default());
    let called = arguments.require(&tool["schema"]).and_then(|()| run(name, &arguments));
    Ok(called
        .unwrap_or_else(|why| DemoCallOutcome::Done(error_result(&format!("invalid arguments for {name:?}: {why}")))))
}

fn run(name: &str, arguments: &CallArguments) -> Result<DemoCallOutcome, String> {
    Ok(DemoCallOutcome::Done(match name {
        "echo" => text_result(&arguments.read::<String>("text", "a string")?),
        "add" => add(arguments)?,
        "sleep" => return sleep(arguments.read("seconds", "a number")?).map(DemoCallOutcome::Sleeping),
        "picture" => {
            let png = STANDARD.encode(include_bytes!("picture.png"));
            tool_result(json!({"type": "image", "mimeType": "image/png", "data": png}), false)
        }
        "fail" => error_result(&arguments.read::<String>("message", "a string")?),
        "forecast" => {
            let days = arguments.0.get("days").map_or(Ok(3), |_| arguments.read("days", "a whole number"))?;
            let forecast = forecast::of(arguments.read("city", "a string")?, days)?;
            structured_result(&forecast.to_string(), &forecast)
        }
        // Reached only if the catalog has a tool that is not implemented.
        _ => error_result(&format!("the tool {name:?} is not made yet")),
    }))
}

fn sleep(seconds: f64) -> Result<Duration, String> {
    match seconds {
        0.0..=600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("\"seconds\" must be from 0 to 600, not {seconds}")),
    }
}

/// Adds whole numbers with every digit, if their sum fits into 128 bits, and others as floats.
fn add(arguments: &CallArguments) -> Result<JsonObject, String> {
    // A JSON string keeps its quotes here, so it never parses as a number.
    let whole = |name| arguments.0.get(name)?.get().parse::<i128>().ok();
    let float = |name| arguments.read::<f64>(name, "a number");
    let sum = match whole("a").zip(whole("b")).and_then(|(a, b)| a.checked_add(b)) {
        Some(sum) => to_raw(&sum),
        None => match float("a")? + float("b")? {
            sum if sum.is_finite() => to_raw(&sum),
            _ => return Err("the sum is too large".to_owned()),
        },
    };
    Ok(structured_result(sum.get(), &JsonObject::from_iter([("sum".to_owned(), sum.clone())])))
}

fn sum_schema() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
}

/// The arguments of a call.
struct CallArguments(JsonObject);

impl CallArguments {
    /// Checks for missing required properties, and names all of them.
    fn require(&self, schema: &Value) -> Result<(), String> {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<String> = required
            .filter(|name| self.0.get(name).is_none())
            .map(|name| format!("missing required property {name:?}"))
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
    }

    fn read<T: DeserializeOwned>(&self, name: &str, kind: &str) -> Result<T, String> {
        let value = self.0.get(name).and_then(|value| serde_json::from_str(value.get()).ok());
        value.ok_or_else(|| format!("{name:?} must be {kind}"))
    }
}

static TOOLS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut servers: Value = serde_json::from_str(SERVERS).expect("the demo catalog is JSON");
    serde_json::from_value(servers["demo"]["tools"].take()).expect("the demo catalog has tools")
});
