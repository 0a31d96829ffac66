//! Calls of tools: the gate decides and carries them out, and the answer passes as its server wrote it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::era::Context;
use super::{Front, INTERNAL_ERROR, INVALID_PARAMS, outcome};
use crate::failure::{Failed, Failure, RpcError};
use crate::gate::{CallEvent, CallOptions, Called};
use crate::gateway::client::Incoming;
use crate::gateway::relay::Working;
use crate::logic::types::execution::{Code, ToolCall};
use crate::session::message;

#[derive(Deserialize)]
struct Params<'a> {
    name: String,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// Calls a tool.
pub(super) async fn call(
    front: &Front,
    context: &Context,
    id: &RawValue,
    params: &str,
    incoming: &Incoming,
) -> Result<String, RpcError> {
    let Params { name, arguments } = serde_json::from_str(params)
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("tools/call cannot be read: {error}")))?;
    let name = match front.exposed() {
        Some(server) => format!("{server}.{name}"),
        None => name,
    };
    let call = ToolCall {
        id: format!("{:016x}", fastrand::u64(..)),
        name,
        arguments: arguments.map_or_else(String::new, written),
    };
    let _running = Running::new(front, id, &call.id);
    let options = CallOptions { events: Some(events(front, context, incoming)), ..CallOptions::default() };
    let called = front.gate.call(call, &options).await;
    let called = called.map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))?;
    front.inside.remember(&front.principal, &called);
    if outcome::is_wanted(params) {
        let outcome = outcome::of(front, &called);
        return Ok(context.dress(outcome::add(result(called), &outcome)));
    }
    result(called).map(|result| context.dress(result))
}

/// The arguments as text. Some clients write the object into a string, and a person may write anything there: that is
/// for the component to read.
fn written(arguments: &RawValue) -> String {
    let text = arguments.get();
    let string = text.starts_with('"').then(|| serde_json::from_str(text).ok()).flatten();
    string.unwrap_or_else(|| text.to_owned())
}

/// A call under way, known by the client's id of the request.
struct Running<'a> {
    front: &'a Front,
    id: &'a str,
}

impl<'a> Running<'a> {
    fn new(front: &'a Front, id: &'a RawValue, call: &str) -> Self {
        front.running().insert(id.get().to_owned(), call.to_owned());
        Running { front, id: id.get() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.front.running().remove(self.id);
    }
}

/// Tells the client what happens to its call, as far as it wants to know.
fn events(front: &Front, context: &Context, incoming: &Incoming) -> crate::gate::OnEvent {
    let outlet = Arc::clone(&incoming.outlet);
    let token = context.progress.clone();
    let level = front.session().log_level.clone();
    let (relay, me) = (Arc::clone(&front.inside.relay), front.me.clone());
    let working: Mutex<Option<Working>> = Mutex::default();
    Arc::new(move |event| match event {
        CallEvent::Requesting { server } => {
            *working.lock().unwrap_or_else(PoisonError::into_inner) = Some(relay.enter(&server, &me));
        }
        CallEvent::Progress(progress) => {
            let Some(token) = &token else { return };
            let mut params = json!({"progress": progress.progress});
            if let Some(total) = progress.total {
                params["total"] = total.into();
            }
            if let Some(text) = progress.message {
                params["message"] = text.into();
            }
            let params = params.to_string();
            // The token goes back as it came.
            let params = format!(r#"{{"progressToken":{token},{}"#, &params[1..]);
            outlet.send(message::notification("notifications/progress", Some(&params)));
        }
        CallEvent::Log { level: grave, logger, data } if is_wanted(&grave, level.as_deref()) => {
            let logger = logger.map(|logger| format!(r#""logger":{},"#, message::quote(&logger))).unwrap_or_default();
            let params = format!(r#"{{"level":{},{logger}"data":{data}}}"#, message::quote(&grave));
            outlet.send(message::notification("notifications/message", Some(&params)));
        }
        _ => {}
    })
}

/// Whether a line of this level is grave enough for a client that wants those of at least that level.
fn is_wanted(level: &str, least: Option<&str>) -> bool {
    let place = |level: &str| LEVELS.iter().position(|known| *known == level);
    least.is_some_and(|least| place(level) >= place(least))
}

/// The result as the client gets it.
fn result(called: Called) -> Result<String, RpcError> {
    let Called { result, failure, answer, .. } = called;
    if let Some(answer) = answer {
        return Ok(answer.into_json());
    }
    if let Some(answer) = result.answer {
        return Ok(answer);
    }
    match (result.code, failure) {
        // What the server says to a call it refuses is for the client, code and all.
        (Code::RpcError, Some(Failed { failure: Failure::Rpc(error), .. })) => Err(error),
        (Code::InvalidName | Code::UnknownServer | Code::UnknownTool | Code::NotAllowed, _) => {
            Err(RpcError::new(INVALID_PARAMS, result.text))
        }
        _ => Ok(json!({"content": [{"type": "text", "text": result.text}], "isError": true}).to_string()),
    }
}

/// The levels of logs, the least grave first.
pub(super) const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
