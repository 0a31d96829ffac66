//! What the demo server answers to everything but `initialize` and `tools/call`.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::era::{Era, Keep, supported};
use super::message::{Answer, Params, Refusal};
use super::tools;

/// What the server can do.
pub(super) static CAPABILITIES: LazyLock<Value> =
    LazyLock::new(|| json!({"tools": {}, "resources": {}, "prompts": {}}));

/// What a model should know of the server.
pub(super) const INSTRUCTIONS: &str = "A server for trying things. Nothing it does has an effect, and its weather is \
                                       invented: the same for the same city, whatever the day.";

/// Answers a request.
pub(super) fn answer(method: &str, params: &Params, era: Era) -> Answer {
    let list = |body: Value| match &params.cursor {
        Some(cursor) => Err(Refusal::params(format!("unknown cursor {cursor:?}: each list has one page"))),
        None => Ok(era.dress(body, Keep::Public)),
    };
    match (method, era) {
        ("ping", Era::Handshake) => Ok(era.dress(json!({}), Keep::No)),
        ("server/discover", Era::Stateless) => Ok(era.dress(discovery(), Keep::Public)),
        ("tools/list", _) => list(json!({"tools": tools::list()})),
        ("resources/list", _) => list(json!({"resources": [readme()]})),
        ("resources/templates/list", _) => list(json!({"resourceTemplates": [square()]})),
        ("resources/read", _) => Ok(era.dress(json!({"contents": [read(params, era)?]}), Keep::Public)),
        ("prompts/list", _) => list(json!({"prompts": [greet()]})),
        ("prompts/get", _) => Ok(era.dress(greeting(params)?, Keep::No)),
        _ => Err(Refusal::method(method)),
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

fn read(params: &Params, era: Era) -> Result<Value, Refusal> {
    let uri = params.uri.as_deref().ok_or_else(|| Refusal::params("resources/read needs a uri".to_owned()))?;
    if uri == README_URI {
        return Ok(json!({"uri": uri, "mimeType": "text/markdown", "text": README}));
    }
    let number = uri.strip_prefix(SQUARE_URI).and_then(|number| number.parse::<i64>().ok());
    let Some(number) = number.map(i128::from) else {
        // 2026-07-28 has no code of its own for this.
        let code = if era == Era::Stateless { -32602 } else { -32002 };
        return Err(Refusal::with_data(code, format!("no such resource: {uri}"), json!({"uri": uri})));
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

fn greeting(params: &Params) -> Result<Value, Refusal> {
    match params.name.as_deref() {
        Some("greet") => {}
        Some(other) => return Err(Refusal::params(format!("no such prompt: {other:?}; there is \"greet\""))),
        None => return Err(Refusal::params("prompts/get needs a name".to_owned())),
    }
    let name = params.arguments.as_ref().and_then(|arguments| arguments.get("name"));
    let name: String = name
        .and_then(|name| serde_json::from_str(name.get()).ok())
        .ok_or_else(|| Refusal::params("prompt \"greet\": the argument \"name\" is missing or no string".to_owned()))?;
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
