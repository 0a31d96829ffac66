//! One call: the component says what to do, this does it and reports.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Either;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{Instrument, debug};

use super::call_runner::CallRunner;
use super::finished_call::ObservedCall;
use super::forwarded::ResultParts;
use super::{CallEvent, Gate, GateBackend, GateError, OnEvent};
use crate::decide::LogicResult;
use crate::failure::RequestError;
use crate::json::JsonObject;
use crate::logic::types::execution::{Directive, Event, Question, ToolCall, ToolResult};
use crate::logic::{CallTicket, LONG, Supervisor};
use crate::plan::{self, CallPlan};
use crate::session::{Caller, Reply};
use crate::telemetry::Span;
use crate::transport::BoxFuture;

/// Says yes or no to a call that a rule wants a person to see.
pub trait Approve: Send + Sync {
    /// What the person says. They must be shown all of the question, as [`super::ApprovalText`] puts it, and what they say
    /// counts for this call alone.
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent>;
}

/// What came of asking a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// The person said yes to this call.
    Yes,
    /// The person said no.
    No,
    /// There is nobody to ask.
    NoApprover,
    /// The answer comes with another call: this one ends as [`GateError::Pending`], as if it had never been made.
    Pending,
}

/// What one call may want beyond what is configured.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// How long to wait for an answer, in place of the server's setting.
    pub timeout: Option<Duration>,
    /// How long the call may take in all, with connecting, queueing and a second attempt.
    pub deadline: Option<Duration>,
    /// Who wants to know what happens to it on its way.
    pub events: Option<OnEvent>,
    /// What servers log while they work on it is not among the events.
    pub without_logs: bool,
    /// Who says yes or no where a person must.
    pub approve: Option<Arc<dyn Approve>>,
    /// Who makes the call, for the record.
    pub principal: Option<Arc<str>>,
    /// For whom the call is made: what servers are told of it (trace context, level of logs), and who answers them.
    pub caller: Caller,
}

/// What a call came to.
#[derive(Debug)]
pub struct CallOutcome {
    /// The result, for the model.
    pub result: ToolResult,
    /// How long it took.
    pub latency: Duration,
    /// The last failure on the way, with what the result has no place for.
    pub failure: Option<RequestError>,
    /// The answer as the server wrote it, where it did not go through the component; its blocks are then only here.
    pub answer: Option<Reply>,
}

impl CallOutcome {
    /// The content blocks of the answer, as JSON.
    pub fn content(&self) -> Vec<&str> {
        match &self.answer {
            Some(_) => self.parts().content.into_iter().map(RawValue::get).collect(),
            None => self.result.content.iter().map(String::as_str).collect(),
        }
    }

    /// The structured content of the answer, as JSON.
    pub fn structured(&self) -> Option<&str> {
        match &self.answer {
            Some(_) => self.parts().structured_content.map(RawValue::get),
            None => self.result.structured.as_deref(),
        }
    }

    /// Every other member of the answer, `_meta` among them.
    pub fn more(&self) -> JsonObject {
        match &self.answer {
            Some(reply) => {
                let mut more = JsonObject::read(reply.json()).unwrap_or_default();
                more.retain(|name| !matches!(name, "content" | "structuredContent" | "isError" | "resultType"));
                more
            }
            None => self.result.more.as_deref().and_then(JsonObject::read).unwrap_or_default(),
        }
    }

    /// The result with all that the answer has, also where that did not go through the component.
    pub fn into_result(self) -> ToolResult {
        if self.answer.is_none() {
            return self.result;
        }
        let content = self.content().into_iter().map(str::to_owned).collect();
        let structured = self.structured().map(str::to_owned);
        let more = Some(self.more()).filter(|more| !more.is_empty()).map(|more| more.to_text());
        ToolResult { content, structured, more, ..self.result }
    }

    fn parts(&self) -> ResultParts<'_> {
        self.answer.as_ref().and_then(|reply| serde_json::from_str(reply.json()).ok()).unwrap_or_default()
    }
}

impl Gate {
    /// Calls a tool. A call that fails is a result too; an error says that the gate is closed, or that the component
    /// is at fault.
    ///
    /// Dropping the future cancels the call, and tells the server so.
    pub async fn call(&self, call: ToolCall, options: &CallOptions) -> Result<CallOutcome, GateError> {
        let running = self.calls.enter(&call.id).ok_or(GateError::Closed)?;
        // Not for every level: it would be a thirtieth of what a call through the gateway costs.
        let span = tracing::debug_span!("call", call = call.id);
        let id = call.id.clone();
        let trace = Span::begin("tools/call", &options.caller);
        let observed = ObservedCall::begin(self, options);
        let (begun, mut directive) = {
            let _decided = trace.step("toolgate.begin");
            self.begin(call, observed.is_some())?
        };
        let mut runner = CallRunner::new(self, options, id, trace);
        let abandon_listener = options.events.as_ref().map(|tell| (tell, runner.started()));
        let mut end = CallGuard { call: begun, observed, abandon_listener, is_discarded: false };
        let begun = &end.call;
        let result = async {
            loop {
                let event = {
                    let mut work = pin!(match directive {
                        Directive::Done(result) => return Ok::<_, GateError>(result),
                        Directive::Request(request) if options.deadline.is_none() => {
                            Either::Left(runner.request(request))
                        }
                        // Apart, so that most calls have no room for it.
                        directive => Either::Right(Box::pin(runner.run(directive))),
                    });
                    let mut is_ready = false;
                    let work = poll_fn(|context| {
                        let event = work.as_mut().poll(context);
                        // What is to be sent is on its way by now, and its answer is not there yet.
                        if event.is_pending() && !std::mem::replace(&mut is_ready, true) {
                            begun.core.pool.prepare_result(&begun.ticket);
                        }
                        event
                    });
                    tokio::select! {
                        biased;
                        () = running.cancelled() => Event::Cancelled,
                        event = work => event,
                    }
                };
                if runner.approval_pending {
                    return Err(GateError::Pending);
                }
                let _decided = runner.trace.step("toolgate.next");
                directive = self.next(begun, event)?;
                // Only an answer that is there already may still be made shorter.
                if runner.is_overdue() && !matches!(directive, Directive::Done(_) | Directive::Condense(_)) {
                    directive = Directive::Done(begun.core.pool.ask_call(&begun.ticket, Supervisor::break_off)?);
                }
            }
        }
        .instrument(span)
        .await;
        end.abandon_listener = None;
        if matches!(result, Err(GateError::Pending)) {
            end.is_discarded = true;
            runner.trace.pending();
        }
        let called = runner.finish(result?);
        if let Some(watched) = &mut end.observed {
            watched.finish(&called);
        }
        Ok(called)
    }

    /// Begins a call. Where its story is to be kept, somebody must take it when it is over.
    fn begin(&self, call: ToolCall, keep: bool) -> LogicResult<(ComponentCall, Directive)> {
        let backend = self.sync();
        let (ticket, directive) = backend.pool.begin(&backend.gate_offers, call, keep)?;
        Ok((ComponentCall { core: backend, ticket }, directive))
    }

    /// What follows an event. A long answer takes the component a while to read.
    fn next(&self, call: &ComponentCall, event: Event) -> LogicResult<Directive> {
        let next = |event| call.next(event);
        match event {
            Event::Answered(json) if json.len() > LONG => {
                let (mut event, mut directive) = (Some(Event::Answered(json)), None);
                self.registry().blocking_runner()(&mut || directive = event.take().map(next));
                directive.unwrap_or_else(|| next(Event::Cancelled))
            }
            event => next(event),
        }
    }

    /// What a call would do, found out without doing it; servers that it needs are connected.
    pub async fn plan(&self, call: ToolCall) -> Result<Result<CallPlan, ToolResult>, GateError> {
        let id = call.id.clone();
        let (call, mut directive) = self.begin(call, false)?;
        let end = CallGuard { call, observed: None, abandon_listener: None, is_discarded: false };
        let options = CallOptions::default();
        let trace = Span::begin("toolgate.plan", &options.caller);
        let mut runner = CallRunner::new(self, &options, id, trace);
        while matches!(directive, Directive::Connect(_)) {
            let event = runner.run(directive).await;
            directive = end.call.next(event)?;
        }
        let ComponentCall { core: backend, ticket } = &end.call;
        Ok(backend.pool.ask_call(ticket, |logic, execution| plan::plan_from(logic, execution, directive))?)
    }
}

/// A call under way in an instance of the component.
struct ComponentCall {
    core: Arc<GateBackend>,
    ticket: CallTicket,
}

impl ComponentCall {
    fn next(&self, event: Event) -> LogicResult<Directive> {
        self.core.pool.next(&self.core.gate_offers, &self.ticket, event)
    }
}

/// Forgets a call when nobody waits for it any more, and has it looked at, however it ended.
struct CallGuard<'a> {
    call: ComponentCall,
    observed: Option<Box<ObservedCall>>,
    /// Who hears of it should nobody wait for its end, and since when somebody does.
    abandon_listener: Option<(&'a OnEvent, Instant)>,
    /// It counts as never made: a question that waits is no end of a call.
    is_discarded: bool,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Some((tell, since)) = self.abandon_listener.take()
            && let Ok(Directive::Done(result)) = self.call.next(Event::Cancelled)
        {
            tell(CallEvent::Abandoned { result: Box::new(result), latency: since.elapsed() });
        }
        let (ended, past) = self.call.core.pool.end(&self.call.ticket);
        if let Err(error) = ended {
            debug!("a call could not be ended: {error}");
        }
        if let Some(watched) = self.observed.take().filter(|_| !self.is_discarded) {
            watched.end(past);
        }
    }
}
