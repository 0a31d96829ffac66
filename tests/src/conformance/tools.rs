//! The tools of the conformance server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorData, ProgressNotificationParam, ServerNotification};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::everything::{Change, Shared, complete, typed};
use crate::{input, offers, rounds};

/// Calls a tool.
pub async fn call(
    shared: &Shared,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)?.as_str()).unwrap_or("");
    let resource = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    let content = match &*request.name {
        "test_simple_text" => json!([said("This is a simple text response for testing.")]),
        "test_image_content" => json!([offers::image()]),
        "test_audio_content" => json!([offers::audio()]),
        "test_embedded_resource" => {
            json!([resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")])
        }
        "test_multiple_content_types" => json!([
            said("Multiple content types test:"),
            offers::image(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => {
            let content = json!([said("This tool intentionally returns an error for testing")]);
            return Ok(CallToolResponse::Complete(complete(json!({"content": content, "isError": true}))));
        }
        "test_tool_with_logging" => {
            for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                log(context, line).await?;
                tokio::time::sleep(PAUSE).await;
            }
            json!([said("Three lines were logged.")])
        }
        "test_logging_tool" => {
            log(context, "Something happened").await?;
            json!([said("A line was logged, if anybody wants to know.")])
        }
        "test_tool_with_progress" | "test_reconnection" => {
            for progress in [0.0, 50.0, 100.0] {
                tell_progress(context, progress).await?;
                tokio::time::sleep(PAUSE).await;
            }
            json!([said("All is done.")])
        }
        "test_missing_capability" => {
            if !input::can(context, "sampling") {
                return Err(ErrorData::missing_required_client_capability(typed(json!({"sampling": {}}))));
            }
            json!([said("The client has a model.")])
        }
        "test_trigger_tool_change" => {
            shared.edition.fetch_add(1, Ordering::Relaxed);
            tell_change(shared, context, Change::Tools).await?;
            json!([said("The tools have changed.")])
        }
        "test_trigger_prompt_change" => {
            tell_change(shared, context, Change::Prompts).await?;
            json!([said("The prompts have changed.")])
        }
        "test_parameter_header" => json!([said(&format!("The region is {}.", argument("region")))]),
        "json_schema_2020_12_tool" => json!([said("The arguments have been taken.")]),
        _ => return rounds::call(shared, request, context).await,
    };
    Ok(CallToolResponse::Complete(complete(json!({"content": content}))))
}

/// Builds a content block with a text.
pub fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Logs a line if the client wants logs; since 2026-07-28 it says so with each request.
async fn log(context: &RequestContext<RoleServer>, line: &str) -> Result<(), ErrorData> {
    if input::is_stateless(context) && context.meta.log_level().is_none() {
        return Ok(());
    }
    let params = json!({"level": "info", "logger": "everything", "data": line});
    tell(context, typed(json!({"method": "notifications/message", "params": params}))).await
}

async fn tell_progress(context: &RequestContext<RoleServer>, progress: f64) -> Result<(), ErrorData> {
    let Some(token) = context.meta.get_progress_token() else { return Ok(()) };
    let told = context.peer.notify_progress(ProgressNotificationParam::new(token, progress).with_total(100.0)).await;
    told.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

async fn tell_change(shared: &Shared, context: &RequestContext<RoleServer>, change: Change) -> Result<(), ErrorData> {
    // There may be no listeners.
    let _ = shared.changes.send(change);
    if input::is_stateless(context) {
        return Ok(());
    }
    let method = match change {
        Change::Tools => "notifications/tools/list_changed",
        Change::Prompts => "notifications/prompts/list_changed",
    };
    tell(context, typed(json!({"method": method}))).await
}

async fn tell(context: &RequestContext<RoleServer>, notification: ServerNotification) -> Result<(), ErrorData> {
    let told = context.peer.send_notification(notification).await;
    told.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Long enough for a client to see one message after the other.
const PAUSE: Duration = Duration::from_millis(50);
