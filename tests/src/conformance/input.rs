//! Asks the client for input on behalf of a tool or a prompt: by a request during the call, or, since 2026-07-28, by a
//! result that requires input.

use std::collections::BTreeMap;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, InputRequests, InputRequiredResult, InputResponses, ServerRequest};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::everything::typed;

/// Returns the answers to the questions, by key, or the result that asks for the missing ones.
pub async fn ask(
    context: &RequestContext<RoleServer>,
    given: Option<&InputResponses>,
    questions: &[(&str, Value)],
    state: Option<String>,
) -> Result<Result<BTreeMap<String, Value>, InputRequiredResult>, ErrorData> {
    let mut answers = BTreeMap::new();
    if !is_stateless(context) {
        for (key, question) in questions {
            let request: ServerRequest = typed(question.clone());
            let answered = context.peer.send_request(request).await;
            let answer = answered.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            answers.insert((*key).to_owned(), serde_json::to_value(answer).expect("a result is JSON"));
        }
        return Ok(Ok(answers));
    }
    for (key, _) in questions {
        // An answer that is not an object is requested again.
        if let Some(answer) = given.and_then(|given| given.get(*key)).filter(|answer| answer.is_object()) {
            answers.insert((*key).to_owned(), answer.clone());
        }
    }
    if answers.len() == questions.len() {
        return Ok(Ok(answers));
    }
    let wanted: InputRequests =
        questions.iter().map(|(key, asked)| ((*key).to_owned(), typed(asked.clone()))).collect();
    Ok(Err(InputRequiredResult::new(Some(wanted), state)))
}

/// Reports whether the client speaks 2026-07-28, in which a server cannot send requests during a call.
pub fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.meta.protocol_version().is_some()
}

/// Reports whether the client declares this capability.
pub fn can(context: &RequestContext<RoleServer>, what: &str) -> bool {
    let capabilities = serde_json::to_value(context.client_capabilities()).expect("capabilities are JSON");
    capabilities.get(what).is_some_and(|capability| !capability.is_null())
}

/// Builds a question for one value.
pub fn form(message: &str, name: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
    elicitation(message, schema)
}

/// Builds a question with a schema.
pub fn elicitation(message: &str, schema: Value) -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

/// Builds a question for a model.
pub fn sampling(text: &str, max_tokens: u32) -> Value {
    let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
    json!({"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}})
}

/// Builds the question for the roots.
pub fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}
