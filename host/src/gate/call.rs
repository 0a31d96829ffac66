//! Runs one call: the component decides each step, and this file carries it out.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument, debug, info};

use super::call_options::{AdminDecision, CallOptions, CallOutcome};
use super::call_runner::CallRunner;
use super::observed_call::ObservedCall;
use super::running_calls::EndReason;
use super::{CallEvent, Gate, GateError, OnEvent};
use crate::agent::CountMode;
use crate::decide::LogicResult;
use crate::logic::types::execution::{Directive, Event, ToolCall, ToolResult};
use crate::logic::{CallTicket, LONG, Supervisor};
use crate::plan::{self, CallPlan};
use crate::registry::GateBackend;
use crate::telemetry::Span;
use crate::visible::cut;
use crate::words::NamedCase;

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
        self.note_activity(options.caller.trace_id()).await;
        let (begun, mut directive) = {
            let _decided = trace.step("toolgate.begin");
            self.begin(call, observed.is_some())?
        };
        let decision = OnceLock::new();
        let mut runner = CallRunner::new(self, options, id, trace, &decision);
        let abandon_listener = options.events.as_ref().map(|tell| (tell, options, runner.started()));
        let mut end = CallGuard { call: begun, observed, abandon_listener, decision: &decision, is_discarded: false };
        let (mut is_stopped, caller) = (false, options.caller.trace_id());
        let work = async {
            loop {
                let event = match directive {
                    Directive::Done(result) => break Ok(result),
                    directive => {
                        let is_answered = matches!(directive, Directive::Condense(_));
                        tokio::select! {
                            biased;
                            reason = running.end_reason() => match reason {
                                EndReason::Stopped if !std::mem::replace(&mut is_stopped, true) => {
                                    runner.stop(is_answered)
                                }
                                // A component may go on after it was told to stop; cancelling always ends a call.
                                _ => Event::Cancelled,
                            },
                            event = runner.run(directive) => event,
                        }
                    }
                };
                if runner.approval_pending {
                    break Err(GateError::Pending);
                }
                let _decided = runner.trace.step("toolgate.next");
                directive = self.next(&end.call, event, runner.is_overdue())?;
            }
        }
        .instrument(span);
        let result = self.keep_active(caller, work).await;
        end.abandon_listener = None;
        if matches!(result, Err(GateError::Pending)) {
            end.is_discarded = true;
            runner.trace.pending();
            Box::pin(self.note_pending(caller)).await;
        }
        let called = runner.finish(result?).await;
        if let Some(watched) = &mut end.observed {
            watched.finish(&called);
        }
        Ok(called)
    }

    /// Begins a call. If its history is kept, somebody must take it when the call is over.
    fn begin(&self, call: ToolCall, keep: bool) -> LogicResult<(ComponentCall, Directive)> {
        let backend = self.sync();
        self.withdraw_outdated(&backend)?;
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
        self.plan_by(call, |_| None).await
    }

    /// Finds out what a call would do without making it, with other answers to some directives than those of now.
    pub(crate) async fn plan_by(
        &self,
        call: ToolCall,
        answer: impl Fn(&Directive) -> Option<Event>,
    ) -> Result<Result<CallPlan, ToolResult>, GateError> {
        let id = call.id.clone();
        let (call, mut directive) = self.begin(call, false)?;
        let decision = OnceLock::new();
        let end = CallGuard { call, observed: None, abandon_listener: None, decision: &decision, is_discarded: false };
        let options = CallOptions::default();
        let trace = Span::begin("toolgate.plan", &options.caller);
        let mut runner = CallRunner::new(self, &options, id, trace, &decision);
        runner.count_mode = CountMode::Foresee;
        while matches!(directive, Directive::Connect(_) | Directive::Circumstances(_) | Directive::Count(_)) {
            let event = match answer(&directive) {
                Some(event) => event,
                None => runner.run(directive).await,
            };
            directive = end.call.next(event)?;
        }
        let ComponentCall { core: backend, ticket } = &end.call;
        Ok(backend.pool.ask_call(ticket, |logic, execution| plan::plan_from(logic, execution, directive))?)
    }
}

/// Logs one line about a call that has ended, without its arguments and its answer.
pub(super) fn log_end(result: &ToolResult, principal: Option<&str>, latency: Duration) {
    let ToolResult { call_id, tool, code, .. } = result;
    let (server, tool) = tool.as_ref().map(|tool| (&*tool.server, &*tool.tool)).unzip();
    // Nothing of this is formatted unless the line is wanted.
    info!(
        target: "toolgate::calls",
        call = call_id,
        server,
        tool,
        name = tool.is_none().then(|| cut(&result.name, MOST_NAME)),
        principal,
        code = code.name(),
        took = format_args!("{latency:.1?}"),
        "the call ended"
    );
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
    /// Receives `Abandoned` if the caller drops the call; with the options and the start of the call.
    abandon_listener: Option<(&'a OnEvent, &'a CallOptions, Instant)>,
    /// What an admin decided about the call.
    decision: &'a OnceLock<AdminDecision>,
    /// Whether the call counts as never made, because a question is pending.
    is_discarded: bool,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Some((tell, options, since)) = self.abandon_listener.take()
            && let Ok(Directive::Done(mut result)) = self.call.next(Event::Cancelled)
        {
            result.trace.extend(self.decision.get().map(AdminDecision::note));
            let latency = since.elapsed();
            log_end(&result, options.principal.as_deref(), latency);
            tell(CallEvent::Abandoned { result: Box::new(result), latency });
        }
        let (ended, past) = self.call.core.pool.end(&self.call.ticket);
        if let Err(error) = ended {
            debug!("cannot end a call: {error}");
        }
        if let Some(watched) = self.observed.take().filter(|_| !self.is_discarded) {
            watched.end(past, self.decision.get().map(|decision| Arc::clone(&decision.admin)));
        }
    }
}

/// The most characters of a name that no tool has in the log.
const MOST_NAME: usize = 100;
