//! The built-in demo server: a real MCP server of both eras, for trying things out.
//!
//! It is synchronous and needs nothing but an input and an output:
//!
//! ```
//! let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
//! toolgate::demo::serve(&ping[..], std::io::stdout())?; // {"jsonrpc":"2.0","id":1,"result":{}}
//! # Ok::<(), std::io::Error>(())
//! ```

mod era;
mod forecast;
mod in_process;
mod message;
mod methods;
mod output;
mod picture;
mod server;
mod sleeps;
mod tools;

pub use in_process::InProcessDemo;
pub use server::serve;

/// The demo server and its tools, in the `servers` shape of `eval`.
pub const SERVERS: &str = r#"{
  "demo": {
    "tools": [
      {
        "name": "echo",
        "description": "Says back what it is told.",
        "schema": {
          "type": "object",
          "properties": {"text": {"type": "string", "description": "What to say back"}},
          "required": ["text"]
        },
        "annotations": {"readOnlyHint": true}
      },
      {
        "name": "add",
        "description": "Adds two numbers.",
        "schema": {
          "type": "object",
          "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
          "required": ["a", "b"]
        },
        "annotations": {"readOnlyHint": true}
      },
      {
        "name": "sleep",
        "description": "Waits, and reports its progress.",
        "schema": {
          "type": "object",
          "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 600}},
          "required": ["seconds"]
        },
        "annotations": {"readOnlyHint": true}
      },
      {
        "name": "picture",
        "description": "Draws a small picture.",
        "schema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": true}
      },
      {
        "name": "fail",
        "description": "Fails with the message it is given.",
        "schema": {
          "type": "object",
          "properties": {"message": {"type": "string"}},
          "required": ["message"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false}
      },
      {
        "name": "forecast",
        "description": "Tells the weather of the coming days.",
        "schema": {
          "type": "object",
          "properties": {
            "city": {"type": "string", "description": "The name of the city"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14, "description": "How many days"}
          },
          "required": ["city"]
        },
        "annotations": {"readOnlyHint": true}
      }
    ]
  }
}"#;

#[cfg(test)]
mod tests;
