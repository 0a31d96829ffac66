//! The lists of the conformance server (tools, prompts, resources and templates), and the content of its resources.

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde_json::{Value, json};

use crate::everything::typed;

/// Returns the tools; the description of one says how often they have changed.
pub fn tools(edition: u64) -> Vec<Tool> {
    let plain =
        PLAIN_TOOLS.into_iter().map(|(name, description)| (name, description.to_owned(), object(json!({}), &[])));
    let trigger = (
        "test_trigger_tool_change",
        format!("Changes the tools; this is edition {edition} of them"),
        object(json!({}), &[]),
    );
    let text = |about: &str| json!({"type": "string", "description": about});
    let rest = [
        trigger,
        (
            "test_sampling",
            "Asks the client's model".to_owned(),
            object(json!({"prompt": text("what to ask it")}), &["prompt"]),
        ),
        (
            "test_elicitation",
            "Asks the client's user for a name and an address".to_owned(),
            object(json!({"message": text("what to say to the user")}), &["message"]),
        ),
        (
            "test_parameter_header",
            "Returns a parameter that the headers of the request show".to_owned(),
            object(json!({"region": {"type": "string", "x-mcp-header": "Region"}}), &["region"]),
        ),
        ("json_schema_2020_12_tool", "Has a schema with much of JSON Schema 2020-12".to_owned(), wide_schema()),
    ];
    let all = plain.chain(rest);
    all.map(|(name, description, schema)| {
        typed(json!({"name": name, "description": description, "inputSchema": schema}))
    })
    .collect()
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn wide_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// Returns the prompts.
pub fn prompts() -> Vec<Prompt> {
    let argument = |name: &str| json!({"name": name, "description": "goes into the prompt", "required": true});
    typed(json!([
        {"name": "test_simple_prompt", "description": "One message"},
        {
            "name": "test_prompt_with_arguments",
            "description": "A message with two arguments in it",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A message with a resource in it",
            "arguments": [argument("resourceUri")],
        },
        {"name": "test_prompt_with_image", "description": "A message with a picture in it"},
        {"name": "test_input_required_result_prompt", "description": "A message with what a user says in it"},
    ]))
}

/// Returns the resources.
pub fn resources() -> Vec<Resource> {
    typed(json!([
        {"uri": "test://static-text", "name": "text", "description": "A text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "binary", "description": "A picture", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "watched", "description": "Can be watched", "mimeType": "text/plain"},
    ]))
}

/// Returns the resource templates.
pub fn templates() -> Vec<ResourceTemplate> {
    typed(json!([{
        "uriTemplate": "test://template/{id}/data",
        "name": "data",
        "description": "The data of an id",
        "mimeType": "application/json",
    }]))
}

/// Returns the content of a resource, if it exists.
pub fn content(uri: &str) -> Option<Value> {
    let text = match uri {
        "test://static-text" => "This is the content of the static text resource.".to_owned(),
        "test://watched-resource" => "This content can be watched.".to_owned(),
        "test://static-binary" => return Some(json!({"uri": uri, "mimeType": "image/png", "blob": PIXEL})),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
            return Some(json!({"uri": uri, "mimeType": "application/json", "text": text}));
        }
    };
    Some(json!({"uri": uri, "mimeType": "text/plain", "text": text}))
}

/// Builds a user message.
pub fn says(text: &str) -> Value {
    json!({"role": "user", "content": {"type": "text", "text": text}})
}

/// Builds a content block with an image.
pub fn image() -> Value {
    json!({"type": "image", "data": PIXEL, "mimeType": "image/png"})
}

/// Builds a content block with audio.
pub fn audio() -> Value {
    json!({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"})
}

/// The tools without parameters, in the order of the list.
const PLAIN_TOOLS: [(&str, &str); 23] = [
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns a picture"),
    ("test_audio_content", "Returns a sound"),
    ("test_embedded_resource", "Returns a resource"),
    ("test_multiple_content_types", "Returns a text, a picture and a resource"),
    ("test_tool_with_logging", "Logs three lines while it works"),
    ("test_logging_tool", "Logs a line"),
    ("test_error_handling", "Always fails"),
    ("test_tool_with_progress", "Tells how far it has come"),
    ("test_reconnection", "Takes a while, and says something meanwhile"),
    ("test_elicitation_sep1034_defaults", "Asks for values that have defaults"),
    ("test_elicitation_sep1330_enums", "Asks for choices of every kind"),
    ("test_missing_capability", "Works only for clients that have a model"),
    ("test_streaming_elicitation", "Asks a question on the stream of its answer"),
    ("test_trigger_prompt_change", "Says that the prompts have changed"),
    ("test_input_required_result_elicitation", "Wants a name"),
    ("test_input_required_result_sampling", "Wants an answer of a model"),
    ("test_input_required_result_list_roots", "Wants the roots"),
    ("test_input_required_result_request_state", "Wants a confirmation, and knows the state of the request"),
    ("test_input_required_result_multiple_inputs", "Wants three things at once"),
    ("test_input_required_result_multi_round", "Wants two things, one after the other"),
    ("test_input_required_result_tampered_state", "Wants a confirmation, and knows a forged state"),
    ("test_input_required_result_capabilities", "Wants only what the client can give"),
];

/// One red pixel, as a PNG.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// Silence, as a WAV.
const SILENCE: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
