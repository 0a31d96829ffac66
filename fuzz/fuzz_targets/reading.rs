//! Whatever a model writes, the calls in it stand in the text in order, each with an object of arguments.
//!
//! The input is a line with the names of known tools, and the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_guest::json::{self, Value};
use toolgate_guest::reading::{KnownTool, read_calls};

const SCHEMA: &str =
    r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}"#;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let (names, text) = text.split_once('\n').unwrap_or(("f", text));
    let schema = json::parse(SCHEMA).expect("the schema is JSON");
    let tools: Vec<KnownTool> = names.split(' ').map(|name| KnownTool { name, input_schema: Some(&schema) }).collect();
    for (tools, loose) in [(&[][..], false), (&tools, false), (&[][..], true), (&tools, true)] {
        let Ok(calls) = read_calls(text, tools, loose) else { continue };
        let mut end = 0;
        for call in calls {
            assert!(end <= call.start && call.start < call.end && text.get(call.start..call.end).is_some(), "{call:?}");
            assert!(matches!(json::parse(&call.arguments), Ok(Value::Object(_))), "{call:?}");
            end = call.end;
        }
    }
});
