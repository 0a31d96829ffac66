//! The tools that need input from their client.

use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorData};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::everything::{Shared, complete, typed};
use crate::input::{self, elicitation, form, roots, sampling};
use crate::tools::said;

/// Calls a tool that needs input.
pub async fn call(
    shared: &Shared,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)?.as_str()).unwrap_or("");
    let step = shared.step(request.request_state.as_deref())?;
    let confirm = || vec![("confirm", form("Please confirm", "ok", "boolean"))];
    // The questions of the tool, the state that goes with them, and the beginning of its result.
    let (questions, state, prefix) = match &*request.name {
        "test_sampling" => {
            needs(context, "sampling")?;
            (vec![("answer", sampling(argument("prompt"), 100))], None, "LLM response")
        }
        "test_elicitation" => {
            needs(context, "elicitation")?;
            (vec![("user", elicitation(argument("message"), user_schema()))], None, "User response")
        }
        "test_elicitation_sep1034_defaults" => {
            let question = elicitation("Please look through these values", defaults_schema());
            (vec![("values", question)], None, "Elicitation completed")
        }
        "test_elicitation_sep1330_enums" => {
            (vec![("choices", elicitation("Please choose", choices_schema()))], None, "Elicitation completed")
        }
        "test_streaming_elicitation" => (confirm(), None, "Confirmed"),
        "test_input_required_result_elicitation" => {
            (vec![("user_name", form("What is your name?", "name", "string"))], None, "Hello")
        }
        "test_input_required_result_sampling" => {
            (vec![("capital_question", sampling("What is the capital of France?", 100))], None, "The model says")
        }
        "test_input_required_result_list_roots" => (vec![("client_roots", roots())], None, "The roots are"),
        "test_input_required_result_request_state" => (confirm(), Some("confirm"), "state-ok"),
        "test_input_required_result_tampered_state" => (confirm(), Some("tampered"), "The state is whole"),
        "test_input_required_result_multiple_inputs" => {
            let questions = vec![
                ("user_name", form("What is your name?", "name", "string")),
                ("greeting", sampling("Generate a greeting", 50)),
                ("client_roots", roots()),
            ];
            (questions, Some("multiple"), "All is there")
        }
        "test_input_required_result_multi_round" => {
            let first = vec![("step1", form("Step 1: What is your name?", "name", "string"))];
            let second = vec![("step2", form("Step 2: What is your favorite color?", "color", "string"))];
            let answered = |key: &str| request.input_responses.as_ref().is_some_and(|all| all.contains_key(key));
            match step {
                Some("second") => (second, Some("second"), "Both steps are done"),
                Some("first") if answered("step1") => (second, Some("second"), "Both steps are done"),
                _ => (first, Some("first"), "The first step is done"),
            }
        }
        "test_input_required_result_capabilities" => {
            let all = [
                ("elicitation", "user_name", form("What is your name?", "name", "string")),
                ("sampling", "greeting", sampling("Generate a greeting", 50)),
                ("roots", "client_roots", roots()),
            ];
            let possible = all.into_iter().filter(|(needed, ..)| input::can(context, needed));
            (possible.map(|(_, key, question)| (key, question)).collect(), None, "All is there that can be")
        }
        other => return Err(ErrorData::invalid_params(format!("no tool {other:?}"), None)),
    };
    // A client without a state has not been asked yet, so its answers do not count.
    let given = request.input_responses.as_ref().filter(|_| state.is_none() || step.is_some());
    let state = state.map(|step| shared.keep(step));
    Ok(match input::ask(context, given, &questions, state).await? {
        Ok(answers) => {
            let text = format!("{prefix}: {}", serde_json::to_string(&answers).expect("answers are JSON"));
            CallToolResponse::Complete(complete(json!({"content": [said(&text)]})))
        }
        Err(wants) => wants.into(),
    })
}

fn needs(context: &RequestContext<RoleServer>, what: &str) -> Result<(), ErrorData> {
    match input::can(context, what) {
        true => Ok(()),
        false => Err(ErrorData::missing_required_client_capability(typed(json!({what: {}})))),
    }
}

fn user_schema() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let properties = json!({"username": text("User's response"), "email": text("User's email address")});
    json!({"type": "object", "properties": properties, "required": ["username", "email"]})
}

fn defaults_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
    })
}

fn choices_schema() -> Value {
    let titled = |word: &str| {
        let choice = |value: &str, place: &str| json!({"const": value, "title": format!("{place} {word}")});
        json!([choice("value1", "First"), choice("value2", "Second"), choice("value3", "Third")])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
    })
}
