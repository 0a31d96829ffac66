//! Calls of tools: the gate decides and carries them out, and the answer passes as its server wrote it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::era::{Context, Era};
use super::labelled::{label_error, label_result, unlabel_answers};
use super::progress::Teller;
use super::stops::{Stop, Stoppable};
use super::{Asker, Front, INTERNAL_ERROR, INVALID_PARAMS, outcome, params_of};
use crate::failure::{Failed, Failure, RpcError};
use crate::gate::{CallEvent, CallOptions, Called, GateError};
use crate::gateway::Inside;
use crate::gateway::bounds;
use crate::gateway::client::{Incoming, Rest};
use crate::gateway::relay::Working;
use crate::json;
use crate::logic::types::execution::{Code, ToolCall, ToolResult};
use crate::session::{During, LogLevel, message};

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// A call that is over, with what it had; when this is dropped, it is kept and counted.
struct Over {
    inside: Arc<Inside>,
    principal: Arc<str>,
    result: Option<ToolResult>,
    latency: Duration,
    _options: CallOptions,
}

impl Drop for Over {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            self.inside.remember(&self.principal, result, self.latency);
        }
    }
}

/// Calls a tool; its name and its arguments may have been found in the params already. What is left to be done when the
/// client has the answer is put into `rest`.
pub(super) async fn call(
    front: &Front,
    context: &Context,
    id: &RawValue,
    params: &str,
    found: Option<(&str, Option<&str>)>,
    incoming: &Incoming,
    rest: &mut Option<Rest>,
) -> Result<String, RpcError> {
    let (name, arguments) = match found {
        Some((name, arguments)) => (Cow::Borrowed(name), arguments),
        None => {
            let Params { name, arguments } = params_of("tools/call", params)?;
            (name, arguments.map(RawValue::get))
        }
    };
    bounds::tool_name(&name)?;
    if let (Era::Modern, Some(headers)) = (context.era, &incoming.headers) {
        front.lists.check_headers(&name, arguments, &headers.params)?;
    }
    let make = || {
        let name = match front.exposed() {
            Some(server) => format!("{server}.{name}"),
            None => name.to_string(),
        };
        ToolCall::new(name, arguments.map_or_else(String::new, written))
    };
    let mut call = make();
    let _stoppable = Stoppable::new(front, id, Stop::Call(call.id.clone()));
    let asker = Asker::new(front, context, incoming);
    let mut caller = context.caller(&asker, params);
    asker.approval.take(&front.inside.seal, &mut caller.given);
    unlabel_answers(&mut caller.given);
    let options = CallOptions {
        events: Some(events(front, context, &asker, incoming)),
        without_logs: context.log_level.is_none(),
        approve: Some(Arc::clone(&asker) as _),
        principal: Some(Arc::clone(&front.name)),
        caller,
        ..CallOptions::default()
    };
    let mut called = loop {
        let id = call.id.clone();
        // In a place of its own: what is around it is moved several times before it runs, and would be ten times as large.
        match Box::pin(front.gate.call(call, &options)).await {
            Ok(called) => break called,
            Err(GateError::Pending) => {}
            Err(error) => return Err(RpcError::new(INTERNAL_ERROR, error.to_string())),
        }
        // A question is no end of the call, so nothing is left of this round.
        if let Some(question) = asker.approval.question() {
            return Ok(question.clone());
        }
        // The rules have changed while the person thought.
        front.follow();
        call = ToolCall { id, ..make() };
    };
    let told = outcome::is_wanted(params).then(|| outcome::of(front, &called));
    let answer = answer_of(front, &mut called).map(|answer| label_result(asker.server(), answer));
    let answer = asker.settle(answer).map(|answer| asker.approval.dress(front, answer));
    if let Ok(answer) = &answer {
        front.linked.learn(asker.server(), answer);
    }
    let Called { result, latency, .. } = called;
    let (inside, principal) = (Arc::clone(&front.inside), Arc::clone(&front.name));
    *rest = Some(Box::new(Over { inside, principal, result: Some(result), latency, _options: options }));
    let answer = match told {
        Some(told) => Ok(outcome::add(answer, &told)),
        None => answer,
    };
    answer.map(|answer| context.dress(answer))
}

/// The arguments as text. Some clients write the object into a string, and a person may write anything there: that is
/// for the component to read.
fn written(arguments: &str) -> String {
    json::text_of(arguments).unwrap_or_else(|| arguments.to_owned())
}

/// Tells the client what happens to its call, as far as it wants to know.
fn events(front: &Front, context: &Context, asker: &Arc<Asker>, incoming: &Incoming) -> crate::gate::OnEvent {
    let outlet = Arc::clone(&incoming.outlet);
    let teller = Teller::new(front, context, asker, incoming);
    let level = context.log_level;
    let (asker, me) = (Arc::clone(asker), front.me.clone());
    let working: Mutex<Option<Working>> = Mutex::default();
    Arc::new(move |event| match event {
        CallEvent::Requesting { server, connection } => {
            let now = me.upgrade().map(|front| asker.work(&front, &server, connection));
            *working.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        CallEvent::Answered => {
            let over = working.lock().unwrap_or_else(PoisonError::into_inner).take();
            over.into_iter().for_each(Working::end);
        }
        CallEvent::Progress(progress) => {
            if let Some(teller) = &teller {
                teller.tell(&progress);
            }
        }
        CallEvent::Log { level: grave, logger, data, during, number } => {
            let Some(front) = me.upgrade().filter(|_| is_wanted(&grave, level)) else { return };
            // What may be of somebody else's call is for nobody.
            let own = matches!(during, During::One(principal) if principal == front.name);
            // Clients that share a front have a way for each call, and nothing comes on two of them.
            if own
                && (front.is_shared() || front.is_untold(number))
                && let Some(line) = log_line(&front, &grave, logger.as_deref(), data)
            {
                outlet.tell(line);
            }
        }
        CallEvent::Abandoned { result, latency } => {
            if let Some(front) = me.upgrade() {
                front.inside.remember(&front.name, *result, latency);
            }
        }
        _ => {}
    })
}

/// A line of a server's log, as clients get it: no longer than a result may be.
pub(super) fn log_line(front: &Front, level: &str, logger: Option<&str>, data: Box<RawValue>) -> Option<String> {
    let data = front.gate.fit_value(data).ok()?;
    let level = beginning(level);
    let logger = logger.map(beginning);
    let logger = logger.map(|logger| format!(r#""logger":{},"#, message::quote(logger))).unwrap_or_default();
    let params = format!(r#"{{"level":{},{logger}"data":{data}}}"#, message::quote(level));
    Some(message::notification("notifications/message", Some(&params)))
}

fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_LABEL)]
}

/// Whether a line of this level is grave enough for a client that wants those of at least that level.
pub(super) fn is_wanted(level: &str, least: Option<LogLevel>) -> bool {
    // What nobody knows may be grave.
    least.is_some_and(|least| LogLevel::of(level).is_none_or(|level| level >= least))
}

/// The answer as the client gets it, taken from what the call came to.
fn answer_of(front: &Front, called: &mut Called) -> Result<String, RpcError> {
    let Called { result, failure, answer, .. } = called;
    if let Some(answer) = answer.take() {
        return Ok(answer.into_json());
    }
    if let Some(answer) = result.answer.take() {
        return Ok(answer);
    }
    match (result.code, failure.take()) {
        // What the server says to a call it refuses is for the client, code and all.
        (Code::RpcError, Some(Failed { failure: Failure::Rpc(error), .. })) => {
            let server = result.tool.as_ref().map_or("", |tool| &tool.server);
            Err(label_error(server, front.gate.mask_error(server, error)))
        }
        (Code::InvalidName | Code::UnknownServer | Code::UnknownTool | Code::NotAllowed, _) => {
            Err(RpcError::new(INVALID_PARAMS, &*result.text))
        }
        _ => Ok(json!({"content": [{"type": "text", "text": result.text}], "isError": true}).to_string()),
    }
}

/// How long the name of a level, or of a part of a server, may be.
const MOST_LABEL: usize = 1 << 10;
