//! Who answers what the suite's servers ask: a person who agrees with all that is proposed, a model, and a folder.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use toolgate::failure::RpcError;
use toolgate::session::{Handler, Question, Topic, Topics};
use toolgate::transport::BoxFuture;

/// Says yes to everything.
pub struct Agreeable;

impl Handler for Agreeable {
    fn topics(&self) -> Topics {
        Topics { roots: true, sampling: true, elicitation: true, url_elicitation: false }
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let params: Value = serde_json::from_str(question.params.get()).unwrap_or_default();
        let answer = match question.topic {
            Topic::Roots => json!({"roots": [{"uri": "file:///srv", "name": "srv"}]}),
            Topic::Sampling => json!({
                "role": "assistant",
                "content": {"type": "text", "text": "Paris"},
                "model": "a model",
                "stopReason": "endTurn",
            }),
            Topic::Elicitation => json!({"action": "accept", "content": filled(&params["requestedSchema"])}),
        };
        let answer = to_raw_value(&answer).map_err(|error| RpcError::new(-32603, error.to_string()));
        Box::pin(std::future::ready(answer))
    }
}

/// A form with its defaults filled in, and something that fits where there is none.
fn filled(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    properties.into_iter().map(|(name, property)| (name, value(&property))).collect()
}

fn value(property: &Value) -> Value {
    if let Some(default) = property.get("default") {
        return default.clone();
    }
    match property["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        _ => property["enum"].get(0).cloned().unwrap_or_else(|| json!("yes")),
    }
}
