//! `tools/call`: the gate decides and runs the call, and the result is passed on as the server wrote it.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::cancellation::{CancelGuard, CancelHandle};
use super::client_request::ClientRequest;
use super::era::finish_result;
use super::labels::{label_error, label_result, unlabel_answers};
use super::logs::{log_line, passes_level};
use super::relay::{self, WorkGuard};
use super::request_context::RequestContext;
use super::server_request::progress_listener;
use super::{ClientSession, outcome};
use crate::failure::{Failure, RequestError, RpcError};
use crate::gate::{CallEvent, CallOptions, CallOutcome, GateError, OnEvent};
use crate::gateway::bounds;
use crate::gateway::peer_seal::UnsentMessage;
use crate::json::{self, JsonObject, to_raw};
use crate::lock::lock;
use crate::logic::types::execution::{Code, ToolCall, ToolResult};
use crate::rpc::code::{INTERNAL_ERROR, INVALID_PARAMS, OTHER_REPLICA};
use crate::session::{ActiveCallers, Era};
use crate::words::NamedCase;

/// Calls a tool.
pub(super) async fn call(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let RequestContext { client, request: message, envelope, .. } = *context;
    let wrong = |problem: &str| RpcError::new(INVALID_PARAMS, format!("tools/call cannot be read: {problem}"));
    let name = message.param("name").and_then(json::decode_string).ok_or_else(|| wrong("it has no name"))?;
    let arguments = message.param("arguments");
    bounds::check_tool_name(&name)?;
    if let (Era::Modern, Some(headers)) = (context.era, &envelope.headers) {
        client.sent.tools.check_headers(&name, arguments, &headers.params)?;
    }
    let name = if client.is_own_tool(&name).await { name } else { client.gateway.full_name(name) };
    let make = || ToolCall::new(name.clone(), arguments.map_or_else(String::new, arguments_text));
    let mut call = make();
    let _cancellable = CancelGuard::new(context, CancelHandle::Call(call.id.clone()));
    let request = ClientRequest::new(context);
    let mut caller = context.caller(&request);
    if let Some(state) = &caller.input.state
        && client.gateway.sealer.is_of_another_replica(state.get())
    {
        return Err(RpcError::new(OTHER_REPLICA, UnsentMessage::NoKeys.of_answer()));
    }
    request.approval.extract(&client.gateway.sealer, &mut caller.input);
    unlabel_answers(&mut caller.input);
    let options = CallOptions {
        events: Some(events(context, &request)),
        without_logs: context.passed_log_level().is_none(),
        approve: Some(Arc::clone(&request) as _),
        principal: Some(Arc::clone(&client.name)),
        client: client.gate.has_rules().then(|| context.client_name()).flatten(),
        caller,
        ..CallOptions::default()
    };
    let mut called = loop {
        request.use_current_rules(client);
        let id = call.id.clone();
        // Boxed: the future around it is moved several times before it runs, and would be ten times as large.
        match Box::pin(client.gate.call(call, &options)).await {
            Ok(called) => break called,
            Err(GateError::Pending) => {}
            Err(error) => return Err(RpcError::new(INTERNAL_ERROR, error.to_string())),
        }
        // A question does not finish the call, so nothing of this round is recorded.
        if let Some(question) = request.approval.input_request.get() {
            return Ok(question.clone());
        }
        // The rules changed while the person decided: the call is decided again if its caller still has access.
        client.update_view().map_err(|why| RpcError::new(INTERNAL_ERROR, why.to_string()))?;
        call = ToolCall { id, ..make() };
    };
    let outcome = outcome::is_wanted(message.params()).then(|| outcome::describe(client, &called));
    let answer = call_answer(client, &mut called).map(|answer| label_result(request.server(), answer));
    let answer = request.check_outcome(answer);
    let answer = answer.map(|answer| request.approval.wrap_state(&client.gateway.sealer, answer));
    if let Ok(answer) = &answer {
        client.sent.links.learn(request.server(), answer);
    }
    client.gateway.remember(&client.name, called.result, called.latency);
    let answer = match outcome {
        Some(outcome) => Ok(outcome::attach(answer, &outcome)),
        None => answer,
    };
    answer.map(|answer| finish_result(context.era, answer))
}

/// Returns the arguments as text. Some clients write the object into a string, which may hold anything; the component
/// parses it.
fn arguments_text(arguments: &str) -> String {
    json::decode_string(arguments).unwrap_or_else(|| arguments.to_owned())
}

/// Returns the listener that forwards a call's progress and log messages to the client, as far as it wants them.
fn events(context: &RequestContext<'_>, request: &Arc<ClientRequest>) -> OnEvent {
    let progress_listener = progress_listener(context, request);
    let level = context.passed_log_level();
    let request = Arc::clone(request);
    let working: Mutex<Option<WorkGuard>> = Mutex::default();
    Arc::new(move |event| match event {
        CallEvent::Requesting { server, connection } => {
            *lock(&working) =
                request.client.upgrade().map(|client| relay::start_work(&client, &request, &server, connection));
        }
        CallEvent::Answered => {
            let over = lock(&working).take();
            over.into_iter().for_each(WorkGuard::end);
        }
        CallEvent::Progress(progress) => {
            if let Some(listener) = &progress_listener {
                listener(progress);
            }
        }
        CallEvent::Log { level: grave, logger, data, callers, number } => {
            let Some(client) = request.client.upgrade().filter(|_| passes_level(&grave, level)) else { return };
            // A message that may belong to another principal's call is not forwarded.
            let own = matches!(callers, ActiveCallers::One(principal) if principal == client.name);
            // In a shared session each call has its own stream, so nothing is sent twice.
            if own
                && (client.is_shared() || client.sent.logs.mark(number))
                && let Some(line) = log_line(&client, &grave, logger.as_deref(), data)
            {
                request.sink.send_or_drop(line);
            }
        }
        CallEvent::Abandoned { result, latency } => {
            if let Some(client) = request.client.upgrade() {
                client.gateway.remember(&client.name, *result, latency);
            }
        }
        _ => {}
    })
}

/// Takes the result for the client out of the outcome of a call. Only a name that means no tool, and a server's own
/// error, are errors: a model reads results, and most frameworks keep errors from it.
fn call_answer(client: &ClientSession, called: &mut CallOutcome) -> Result<String, RpcError> {
    let CallOutcome { result, failure, answer, .. } = called;
    if let Some(answer) = answer.take() {
        return Ok(answer.into_json());
    }
    if let Some(answer) = result.answer.take() {
        return Ok(answer);
    }
    match (result.code, failure.take()) {
        // The server's own error goes to the client, including its code.
        (Code::RpcError, Some(RequestError { failure: Failure::Rpc(error), .. })) => {
            let server = result.tool.as_ref().map_or("", |tool| &tool.server);
            Err(label_error(server, client.gate.mask_error(server, error)))
        }
        (Code::InvalidName | Code::UnknownServer | Code::UnknownTool, _) if result.tool.is_none() => {
            let data = Some(to_raw(&json!({"code": result.code.name()})));
            Err(RpcError { data, ..RpcError::new(INVALID_PARAMS, &*result.text) })
        }
        _ => Ok(failed_result(result).to_text()),
    }
}

/// Returns the result of a call that no server has answered: the text, and what a program learns about a refusal.
fn failed_result(result: &ToolResult) -> JsonObject {
    let mut failed = JsonObject::default();
    failed.set("content", &json!([{"type": "text", "text": result.text}]));
    failed.set("isError", &true);
    let more = result.more.as_deref().and_then(JsonObject::read).unwrap_or_default();
    if let Some(meta) = more.get("_meta") {
        failed.set("_meta", meta);
    }
    failed
}
