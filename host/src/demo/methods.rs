//! The demo server's answers to everything but `initialize` and `tools/call`.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::era::{CacheHint, DemoEra, supported};
use super::message::{DemoError, DemoParams, DemoResult};
use super::tools;

/// The server's capabilities.
pub(super) static CAPABILITIES: LazyLock<Value> =
    LazyLock::new(|| json!({"tools": {}, "resources": {}, "prompts": {}}));

/// The server's instructions for a model.
pub(super) const INSTRUCTIONS: &str = "A server for trying things. Nothing it does has an effect, and its weather is \
                                       invented: the same for the same city, whatever the day.";

/// Answers a request.
pub(super) fn answer(method: &str, params: &DemoParams, era: DemoEra) -> DemoResult {
    let list = |body: Value| match &params.cursor {
        Some(cursor) => Err(DemoError::invalid_params(format!("unknown cursor {cursor:?}: each list has one page"))),
        None => Ok(era.wrap_result(body, CacheHint::Public)),
    };
    match (method, era) {
        ("ping", DemoEra::Handshake) => Ok(era.wrap_result(json!({}), CacheHint::Never)),
        ("server/discover", DemoEra::Stateless) => Ok(era.wrap_result(discovery(), CacheHint::Public)),
        ("tools/list", _) => list(json!({"tools": tools::list()})),
        ("resources/list", _) => list(json!({"resources": [readme()]})),
        ("resources/templates/list", _) => list(json!({"resourceTemplates": [square()]})),
        ("resources/read", _) => Ok(era.wrap_result(json!({"contents": [read(params, era)?]}), CacheHint::Public)),
        ("prompts/list", _) => list(json!({"prompts": [greet()]})),
        ("prompts/get", _) => Ok(era.wrap_result(greeting(params)?, CacheHint::Never)),
        _ => Err(DemoError::method_not_found(method)),
    }
}

fn discovery() -> Value {
    json!({"supportedVersions": supported(), "capabilities": &*CAPABILITIES, "instructions": INSTRUCTIONS})
}

fn readme() -> Value {
    json!({
        "uri": README_URI,
        "name": "readme",
        "description": "What the demo server offers.",
        "mimeType": "text/markdown",
    })
}

fn square() -> Value {
    json!({
        "uriTemplate": format!("{SQUARE_URI}{{number}}"),
        "name": "square",
        "description": "The square of a whole number.",
        "mimeType": "text/plain",
    })
}

fn read(params: &DemoParams, era: DemoEra) -> Result<Value, DemoError> {
    let uri =
        params.uri.as_deref().ok_or_else(|| DemoError::invalid_params("resources/read needs a uri".to_owned()))?;
    if uri == README_URI {
        return Ok(json!({"uri": uri, "mimeType": "text/markdown", "text": README}));
    }
    let number = uri.strip_prefix(SQUARE_URI).and_then(|number| number.parse::<i64>().ok());
    let Some(number) = number.map(i128::from) else {
        // 2026-07-28 has no error code of its own for this.
        let code = if era == DemoEra::Stateless { -32602 } else { -32002 };
        return Err(DemoError::with_data(code, format!("no such resource: {uri}"), json!({"uri": uri})));
    };
    Ok(json!({"uri": uri, "mimeType": "text/plain", "text": (number * number).to_string()}))
}

fn greet() -> Value {
    json!({
        "name": "greet",
        "description": "Asks for a greeting.",
        "arguments": [{"name": "name", "description": "Who is greeted", "required": true}],
    })
}

fn greeting(params: &DemoParams) -> Result<Value, DemoError> {
    match params.name.as_deref() {
        Some("greet") => {}
        Some(other) => return Err(DemoError::invalid_params(format!("no such prompt: {other:?}; there is \"greet\""))),
        None => return Err(DemoError::invalid_params("prompts/get needs a name".to_owned())),
    }
    let name = params.arguments.as_ref().and_then(|arguments| arguments.get("name"));
    let name: String = name.and_then(|name| serde_json::from_str(name.get()).ok()).ok_or_else(|| {
        DemoError::invalid_params("prompt \"greet\": the argument \"name\" is missing or no string".to_owned())
    })?;
    let text = format!("Greet {name} in one friendly sentence.");
    let content = json!({"type": "text", "text": text});
    Ok(json!({"description": "Asks for a greeting.", "messages": [{"role": "user", "content": content}]}))
}

const README_URI: &str = "demo://readme";
const SQUARE_URI: &str = "demo://square/";

const README: &str = "\
# The demo server of toolgate

A real MCP server inside the program, for trying things without any other.

| tool | what it does |
|---|---|
| `echo {text}` | says back what it is told |
| `add {a, b}` | adds two numbers, with every digit |
| `sleep {seconds}` | waits, and reports its progress |
| `picture` | draws a small picture |
| `fail {message}` | fails with the message |
| `forecast {city, days}` | tells an invented weather, the same for the same city |

There is also the prompt `greet {name}`, this page, and a page for each whole number: `demo://square/12`.
";
