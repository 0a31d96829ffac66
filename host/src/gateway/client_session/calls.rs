//! `tools/call`: the gate decides and runs the call, and the result is passed on as the server wrote it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::cancellation::{CancelGuard, CancelHandle};
use super::era::{Era, RequestContext};
use super::labels::{label_error, label_result, unlabel_answers};
use super::progress::ProgressForwarder;
use super::{ClientRequest, ClientSession, Envelope, outcome};
use crate::failure::{Failure, RequestError, RpcError};
use crate::gate::{CallEvent, CallOptions, CallOutcome, GateError};
use crate::gateway::GatewayState;
use crate::gateway::bounds;
use crate::gateway::client::DeferredWork;
use crate::gateway::relay::WorkGuard;
use crate::json;
use crate::logic::types::execution::{Code, ToolCall, ToolResult};
use crate::rpc::code::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::rpc::{self, Request};
use crate::session::{ActiveCallers, LogLevel};

/// A finished call, which is recorded and counted on drop.
struct CompletedCall {
    gateway: Arc<GatewayState>,
    principal: Arc<str>,
    result: Option<ToolResult>,
    latency: Duration,
    _options: CallOptions,
}

impl Drop for CompletedCall {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            self.gateway.remember(&self.principal, result, self.latency);
        }
    }
}

/// Calls a tool. Work that can wait until the client has its answer is put into `deferred`.
pub(super) async fn call(
    client: &ClientSession,
    context: &RequestContext,
    message: &Request,
    envelope: &Envelope,
    deferred: &mut Option<DeferredWork>,
) -> Result<String, RpcError> {
    if let Some(problem) = message.params_problem() {
        return Err(RpcError::new(INVALID_PARAMS, format!("tools/call cannot be read: {problem}")));
    }
    let name = message.param("name").and_then(json::decode_string);
    let name = name.ok_or_else(|| RpcError::new(INVALID_PARAMS, "tools/call cannot be read: it has no name"))?;
    let arguments = message.param("arguments");
    bounds::check_tool_name(&name)?;
    if let (Era::Modern, Some(headers)) = (context.era, &envelope.headers) {
        client.tool_list.check_headers(&name, arguments, &headers.params)?;
    }
    let make = || {
        let name = match client.exposed() {
            Some(server) => format!("{server}.{name}"),
            None => name.clone(),
        };
        ToolCall::new(name, arguments.map_or_else(String::new, arguments_text))
    };
    let mut call = make();
    let _stoppable = CancelGuard::new(client, message.id(), CancelHandle::Call(call.id.clone()));
    let request = ClientRequest::new(client, context, envelope);
    let mut caller = context.caller(&request, message.params());
    request.approval.extract(&client.gateway.sealer, &mut caller.input);
    unlabel_answers(&mut caller.input);
    let options = CallOptions {
        events: Some(events(client, context, &request, envelope)),
        without_logs: context.log_level.is_none(),
        approve: Some(Arc::clone(&request) as _),
        principal: Some(Arc::clone(&client.name)),
        caller,
        ..CallOptions::default()
    };
    let mut called = loop {
        let id = call.id.clone();
        // Boxed: the future around it is moved several times before it runs, and would be ten times as large.
        match Box::pin(client.gate.call(call, &options)).await {
            Ok(called) => break called,
            Err(GateError::Pending) => {}
            Err(error) => return Err(RpcError::new(INTERNAL_ERROR, error.to_string())),
        }
        // A question does not finish the call, so nothing of this round is recorded.
        if let Some(question) = request.approval.question() {
            return Ok(question.clone());
        }
        // The rules changed while the person decided, so the call is decided again.
        client.sync_view();
        call = ToolCall { id, ..make() };
    };
    let told = outcome::is_wanted(message.params()).then(|| outcome::describe(client, &called));
    let answer = call_answer(client, &mut called).map(|answer| label_result(request.server(), answer));
    let answer = request.check_outcome(answer).map(|answer| request.approval.wrap_state(client, answer));
    if let Ok(answer) = &answer {
        client.resource_links.learn(request.server(), answer);
    }
    let CallOutcome { result, latency, .. } = called;
    let (gateway, principal) = (Arc::clone(&client.gateway), Arc::clone(&client.name));
    *deferred = Some(Box::new(CompletedCall { gateway, principal, result: Some(result), latency, _options: options }));
    let answer = match told {
        Some(told) => Ok(outcome::attach(answer, &told)),
        None => answer,
    };
    answer.map(|answer| context.finish_result(answer))
}

/// Returns the arguments as text. Some clients write the object into a string, which may hold anything; the component
/// parses it.
fn arguments_text(arguments: &str) -> String {
    json::decode_string(arguments).unwrap_or_else(|| arguments.to_owned())
}

/// Returns the listener that forwards a call's progress and log messages to the client, as far as it wants them.
fn events(
    client: &ClientSession,
    context: &RequestContext,
    request: &Arc<ClientRequest>,
    envelope: &Envelope,
) -> crate::gate::OnEvent {
    let sink = Arc::clone(&envelope.sink);
    let forwarder = ProgressForwarder::new(client, context, request, envelope);
    let level = context.log_level;
    let (request, me) = (Arc::clone(request), client.me.clone());
    let working: Mutex<Option<WorkGuard>> = Mutex::default();
    Arc::new(move |event| match event {
        CallEvent::Requesting { server, connection } => {
            let now = me.upgrade().map(|client| request.start_work(&client, &server, connection));
            *working.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        CallEvent::Answered => {
            let over = working.lock().unwrap_or_else(PoisonError::into_inner).take();
            over.into_iter().for_each(WorkGuard::end);
        }
        CallEvent::Progress(progress) => {
            if let Some(forwarder) = &forwarder {
                forwarder.forward(&progress);
            }
        }
        CallEvent::Log { level: grave, logger, data, callers, number } => {
            let Some(client) = me.upgrade().filter(|_| passes_level(&grave, level)) else { return };
            // A message that may belong to another principal's call is not forwarded.
            let own = matches!(callers, ActiveCallers::One(principal) if principal == client.name);
            // In a shared session each call has its own stream, so nothing is sent twice.
            if own
                && (client.is_shared() || client.mark_log_sent(number))
                && let Some(line) = log_line(&client, &grave, logger.as_deref(), data)
            {
                sink.send_or_drop(line);
            }
        }
        CallEvent::Abandoned { result, latency } => {
            if let Some(client) = me.upgrade() {
                client.gateway.remember(&client.name, *result, latency);
            }
        }
        _ => {}
    })
}

/// Builds a log notification, cut to the maximum size of a result.
pub(super) fn log_line(
    client: &ClientSession,
    level: &str,
    logger: Option<&str>,
    data: Box<RawValue>,
) -> Option<String> {
    let data = client.gate.cut_value(data).ok()?;
    let level = shorten_label(level);
    let logger = logger.map(shorten_label);
    let logger = logger.map(|logger| format!(r#""logger":{},"#, rpc::quote(logger))).unwrap_or_default();
    let params = format!(r#"{{"level":{},{logger}"data":{data}}}"#, rpc::quote(level));
    Some(rpc::notification("notifications/message", Some(&params)))
}

fn shorten_label(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_LABEL)]
}

/// Reports whether a log message is at or above the level that the client asked for.
pub(super) fn passes_level(level: &str, least: Option<LogLevel>) -> bool {
    // An unknown level may be severe.
    least.is_some_and(|least| LogLevel::of(level).is_none_or(|level| level >= least))
}

/// Takes the result for the client out of the outcome of a call.
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
        (Code::InvalidName | Code::UnknownServer | Code::UnknownTool | Code::NotAllowed, _) => {
            Err(RpcError::new(INVALID_PARAMS, &*result.text))
        }
        _ => Ok(json!({"content": [{"type": "text", "text": result.text}], "isError": true}).to_string()),
    }
}

/// The maximum length of a log level or logger name.
const MOST_LABEL: usize = 1 << 10;
