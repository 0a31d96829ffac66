//! Runs one call: the component decides each step, and this file carries it out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{Instrument, debug};

use super::call_runner::CallRunner;
use super::forwarded::ResultParts;
use super::observed_call::ObservedCall;
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

/// Asks a person whether a call may be made.
pub trait Approve: Send + Sync {
    /// Shows a person the whole question, as [`super::ApprovalText`] formats it, and returns the answer, which applies
    /// to this call alone.
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent>;
}

/// The outcome of an approval question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// The person approved this call.
    Yes,
    /// The person declined.
    No,
    /// Nobody can be asked.
    NoApprover,
    /// The answer comes with a repeated call: this one ends as [`GateError::Pending`], as if it had not been made.
    Pending,
}

/// Options of one call.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// How long to wait for a result, instead of the server's setting.
    pub timeout: Option<Duration>,
    /// How long the whole call may take, including connecting, queueing and a retry.
    pub deadline: Option<Duration>,
    /// Receives events while the call runs.
    pub events: Option<OnEvent>,
    /// Whether to leave servers' log messages out of the events.
    pub without_logs: bool,
    /// Asks a person where a rule requires approval.
    pub approve: Option<Arc<dyn Approve>>,
    /// The principal of the call, for the record.
    pub principal: Option<Arc<str>>,
    /// The caller: its trace context and log level go to servers, and it answers their questions.
    pub caller: Caller,
}

/// The outcome of a call.
#[derive(Debug)]
pub struct CallOutcome {
    /// The result for the model.
    pub result: ToolResult,
    /// How long the call took.
    pub latency: Duration,
    /// The last failure, with details that the result does not have.
    pub failure: Option<RequestError>,
    /// The server's own result if it did not pass through the component; its content blocks are then only here.
    pub answer: Option<Reply>,
}

impl CallOutcome {
    /// Returns the content blocks of the result, as JSON.
    pub fn content(&self) -> Vec<&str> {
        match &self.answer {
            Some(_) => self.parts().content.into_iter().map(RawValue::get).collect(),
            None => self.result.content.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the structured content of the result, as JSON.
    pub fn structured(&self) -> Option<&str> {
        match &self.answer {
            Some(_) => self.parts().structured_content.map(RawValue::get),
            None => self.result.structured.as_deref(),
        }
    }

    /// Returns all other members of the result, including `_meta`.
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

    /// Returns the complete result, including content that did not pass through the component.
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
    /// Calls a tool. A failed call is a result too; an error means that the gate is closed or the component failed.
    ///
    /// Dropping the future cancels the call, also at the server.
    pub async fn call(&self, call: ToolCall, options: &CallOptions) -> Result<CallOutcome, GateError> {
        let running = self.calls.enter(&call.id).ok_or(GateError::Closed)?;
        // At debug level only: the span costs a thirtieth of a call through the gateway.
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
        let result = async {
            loop {
                let event = match directive {
                    Directive::Done(result) => break Ok(result),
                    directive => tokio::select! {
                        biased;
                        () = running.cancelled() => Event::Cancelled,
                        event = runner.run(directive) => event,
                    },
                };
                if runner.approval_pending {
                    break Err(GateError::Pending);
                }
                let _decided = runner.trace.step("toolgate.next");
                directive = self.next(&end.call, event, runner.is_overdue())?;
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

    /// Begins a call. If its history is kept, somebody must take it when the call is over.
    fn begin(&self, call: ToolCall, keep: bool) -> LogicResult<(ComponentCall, Directive)> {
        let backend = self.sync();
        let (ticket, directive) = backend.pool.begin(&backend.gate_offers, call, keep)?;
        Ok((ComponentCall { core: backend, ticket }, directive))
    }

    /// Passes an event to the component. A call that is overdue ends here.
    fn next(&self, call: &ComponentCall, event: Event, is_overdue: bool) -> LogicResult<Directive> {
        let directive = match event {
            // A long result takes the component a while, so that uses the blocking runner.
            Event::Answered(json) if json.len() > LONG => {
                let (mut event, mut directive) = (Some(Event::Answered(json)), None);
                self.registry().blocking_runner()(&mut || directive = event.take().map(|event| call.next(event)));
                directive.unwrap_or_else(|| call.next(Event::Cancelled))?
            }
            event => call.next(event)?,
        };
        match directive {
            // A result that has already arrived may still be condensed.
            Directive::Done(_) | Directive::Condense(_) => Ok(directive),
            _ if is_overdue => call.core.pool.ask_call(&call.ticket, Supervisor::break_off).map(Directive::Done),
            _ => Ok(directive),
        }
    }

    /// Finds out what a call would do without making it; the servers it needs are connected.
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

/// A running call in an instance of the component.
struct ComponentCall {
    core: Arc<GateBackend>,
    ticket: CallTicket,
}

impl ComponentCall {
    fn next(&self, event: Event) -> LogicResult<Directive> {
        self.core.pool.next(&self.core.gate_offers, &self.ticket, event)
    }
}

/// Removes a call from the component when it ends or is dropped, and passes it to the observers.
struct CallGuard<'a> {
    call: ComponentCall,
    observed: Option<Box<ObservedCall>>,
    /// Receives `Abandoned` if the caller drops the call; with the start of the call.
    abandon_listener: Option<(&'a OnEvent, Instant)>,
    /// Whether the call counts as never made, because a question is pending.
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
            debug!("cannot end a call: {error}");
        }
        if let Some(watched) = self.observed.take().filter(|_| !self.is_discarded) {
            watched.end(past);
        }
    }
}
