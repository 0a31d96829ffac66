//! One supervised call: its inputs, its state, and how it is replayed in a new instance.

use std::sync::Arc;

use super::super::types::{ToolRef, Trace, execution, masking};
use super::super::{ExecutionHandle, GateHandle, Instance, LogicError};
use super::{AllowedServers, GateRecord, OfferedTools, checked};
use crate::decide::{GateId, LogicResult};

/// The text that replaces a result that could not be masked.
const REDACTED: &str = "[REDACTED: data masking failure — tool result could not be safely processed]";

/// Everything about a call that is needed to begin it again.
pub(super) struct CallRecord {
    pub gate: GateId,
    pub settings: Arc<execution::Settings>,
    /// The servers that it may name.
    pub servers: Arc<AllowedServers>,
    pub call: execution::ToolCall,
    /// The offers when it began.
    pub offers: OfferedTools,
    /// Each event, with the offers when it came.
    pub events: Vec<(OfferedTools, execution::Event)>,
    pub usage: CallUsage,
    pub state: CallState,
    /// The tool and the trace of the call if the response to its last request is forwarded and is no error.
    pub if_forwarded: Option<(ToolRef, Trace)>,
    /// The directives, if the history of the call is kept.
    pub directives: Option<Vec<execution::Directive>>,
}

/// How much of its limits a call has used.
#[derive(Default)]
pub(super) struct CallUsage {
    /// The number of directives from the component.
    pub directives: u32,
    /// How many of them were requests.
    pub requests: u32,
    /// The approximate size of all directives and events in bytes.
    pub bytes: usize,
}

/// The history of a finished call: all inputs of its decisions, and the decisions.
#[derive(Clone)]
pub struct CallHistory {
    /// The settings of its gate.
    pub settings: Arc<execution::Settings>,
    /// The call.
    pub call: execution::ToolCall,
    /// The offers when it began.
    pub offers: OfferedTools,
    /// Each event, with the offers when it came.
    pub events: Vec<(OfferedTools, execution::Event)>,
    /// The directives: the first one, and one after each event.
    pub directives: Vec<execution::Directive>,
}

/// The state of a call in the current instance.
pub(super) enum CallState {
    /// It has not been replayed yet.
    Unloaded,
    /// It runs.
    Loaded(Box<LoadedCall>),
    /// Replaying it crashed the component; it is not replayed again.
    Broken(String),
}

/// A call in the current instance.
pub(super) struct LoadedCall {
    pub handle: ExecutionHandle,
    /// Its last directive, until the host has taken it.
    pub directive: Option<execution::Directive>,
    /// A gate of its own with its offers, if the call began on older offers than its gate has now.
    pub gate: Option<(GateHandle, OfferedTools)>,
}

impl CallRecord {
    /// Forgets the state in an instance that is gone.
    pub(super) fn unload(&mut self) {
        if let CallState::Loaded(_) = self.state {
            self.state = CallState::Unloaded;
        }
    }

    /// Returns the result if the last request said how the call ends after this event.
    pub(super) fn forwarded(&mut self, event: &execution::Event) -> Option<execution::ToolResult> {
        let (tool, trace) = self.if_forwarded.take()?;
        let execution::Event::Forwarded(execution::Summary { is_error: false }) = event else { return None };
        let result = execution::ToolResult::forwarded(&self.call, Some(tool), trace);
        Some(execution::ToolResult { attempts: self.usage.requests, ..result })
    }

    /// Begins the call in a new instance and replays all its events.
    pub(super) fn replay(&self, instance: &mut Instance, gate: Option<&GateRecord>) -> LogicResult<LoadedCall> {
        let current = gate.filter(|gate| Arc::ptr_eq(&gate.offers, &self.offers));
        let (started, gate) = match current.and_then(|gate| gate.handle.as_ref()) {
            Some(shared) => (instance.begin(shared, &self.call)?, None),
            None => {
                let own = build_gate(instance, &self.settings, &self.offers)?;
                (instance.begin(&own, &self.call)?, Some((own, Arc::clone(&self.offers))))
            }
        };
        let (handle, directive) = started;
        let mut running = LoadedCall { handle, directive: Some(directive), gate };
        for (offers, event) in &self.events {
            running.next(instance, offers, event)?;
        }
        Ok(running)
    }

    /// Checks the component's next directive: whether it keeps the contract, and whether the call may go on at all. The
    /// end of a call is always accepted if it can be read.
    pub(super) fn check(&mut self, directive: &mut execution::Directive) -> LogicResult<()> {
        let CallUsage { directives, requests, bytes } = &mut self.usage;
        *directives += 1;
        *bytes += directive_bytes(directive);
        let contract = |what: String| LogicError::Contract { what };
        if let execution::Directive::Done(result) = directive {
            // The component does not decide whose call it was.
            if result.call_id != self.call.id || result.name != self.call.name {
                result.call_id.clone_from(&self.call.id);
                result.name.clone_from(&self.call.name);
            }
            return checked::directive(&mut *directive, &self.servers).map_err(contract);
        }
        let is_request = matches!(directive, execution::Directive::Request(_));
        let too_many = match () {
            () if matches!(self.events.last(), Some((_, execution::Event::Cancelled))) => Some("it was cancelled"),
            () if *directives > MOST_DIRECTIVES => Some("it has had more directives than a call may have"),
            () if is_request && *requests == MOST_REQUESTS => Some("it has made more requests than a call may make"),
            () if *bytes > MOST_BYTES => Some("it has used more bytes than a call may use"),
            () => None,
        };
        match too_many {
            Some(why) => Err(contract(format!("the call does not end, though {why}"))),
            None => checked::directive(directive, &self.servers).map_err(contract),
        }
    }

    /// Builds the result of a call that the component does not end as it should.
    pub(super) fn ended_result(&self, fault: &LogicError) -> execution::ToolResult {
        if let Some((_, execution::Event::Cancelled)) = self.events.last() {
            let mut text = "the call was cancelled".to_owned();
            if self.usage.requests > 0 {
                text = format!("MCP tool execution failed: {text}");
            }
            let failed = execution::ToolResult::failed(&self.call, execution::Code::Cancelled, text, fault.to_string());
            return execution::ToolResult { attempts: self.usage.requests, ..failed };
        }
        self.broken_result(&fault.to_string())
    }

    /// Builds the result of a call that crashed the component twice, or that may not go on.
    pub(super) fn broken_result(&self, reason: &str) -> execution::ToolResult {
        use execution::Event::{Answered, Condensed, Forwarded};
        let answered = matches!(self.events.last(), Some((_, Answered(_) | Forwarded(_) | Condensed(_))));
        let masks =
            |masks: &masking::Masks| !(masks.groups.is_empty() && masks.patterns.is_empty() && masks.custom.is_empty());
        let masked =
            masks(&self.settings.masks) || self.settings.server_settings.iter().any(|server| masks(&server.masks));
        // A reason may quote the text that was being masked.
        let reason = if masked { "the component crashed" } else { reason };
        let (code, text) = match (self.usage.requests, answered) {
            (_, true) if masked => (execution::Code::MaskingFailed, REDACTED.to_owned()),
            (_, true) => (
                execution::Code::Internal,
                format!("MCP tool execution failed: the tool ran, but its answer could not be read: {reason}"),
            ),
            // Nothing was executed.
            (0, false) => (execution::Code::Internal, reason.to_owned()),
            (_, false) => (
                execution::Code::OutcomeUnknown,
                format!(
                    "MCP tool execution failed: outcome unknown: {reason}; the tool may have run, so check before \
                     calling it again"
                ),
            ),
        };
        let note = format!("the host ended the call: {reason}");
        let failed = execution::ToolResult::failed(&self.call, code, text, note);
        execution::ToolResult { attempts: self.usage.requests, ..failed }
    }
}

impl LoadedCall {
    /// Passes an event to the call, with the offers at that time.
    pub(super) fn next(
        &mut self,
        instance: &mut Instance,
        offers: &OfferedTools,
        event: &execution::Event,
    ) -> LogicResult<()> {
        if let Some((gate, known)) = &mut self.gate
            && !Arc::ptr_eq(known, offers)
        {
            for (server, _) in known.iter().filter(|(server, _)| !offers.iter().any(|(other, _)| other == server)) {
                instance.withdraw(gate, server)?;
            }
            for (server, tools) in offers.iter() {
                instance.offer(gate, server, tools)?;
            }
            *known = Arc::clone(offers);
        }
        self.directive = Some(instance.next(&self.handle, event)?);
        Ok(())
    }

    /// Frees the call's resources in the instance.
    pub(super) fn drop_from(self, instance: &mut Instance) -> LogicResult<()> {
        instance.drop_execution(self.handle)?;
        self.gate.map_or(Ok(()), |(gate, _)| instance.drop_gate(gate))
    }
}

/// Builds a gate again, with settings that the component has accepted before.
pub(super) fn build_gate(
    instance: &mut Instance,
    settings: &execution::Settings,
    offers: &OfferedTools,
) -> LogicResult<GateHandle> {
    let refused = |_| LogicError::Trap { reason: "the component rejects settings that it accepted before".to_owned() };
    let gate = instance.new_gate(settings)?.map_err(refused)?;
    for (server, tools) in offers.iter() {
        instance.offer(&gate, server, tools)?;
    }
    Ok(gate)
}

/// Returns the approximate size of an event in bytes.
pub(crate) fn event_bytes(event: &execution::Event) -> usize {
    match event {
        execution::Event::Answered(json) => json.len(),
        execution::Event::Condensed(condensed) => condensed.summary.as_ref().map_or(0, String::len),
        _ => 0,
    }
}

/// Returns the approximate size of a directive in bytes.
pub(crate) fn directive_bytes(directive: &execution::Directive) -> usize {
    let texts = |texts: &[String]| texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
    match directive {
        execution::Directive::Done(result) => {
            let parts = [&result.structured, &result.more, &result.answer].into_iter().flatten();
            let parts = result.text.len() + parts.map(String::len).sum::<usize>();
            parts + texts(&result.content) + texts(&result.trace)
        }
        execution::Directive::Request(request) => {
            request.arguments.len() + request.forward.as_ref().map_or(0, |forward| texts(&forward.trace))
        }
        execution::Directive::Connect(servers) => texts(servers),
        execution::Directive::Ask(question) => question.arguments.len() + question.reason.len(),
        execution::Directive::Condense(oversize) => oversize.text.len(),
        _ => 0,
    }
}

/// How many directives one call may have; the built-in component needs at most nine.
const MOST_DIRECTIVES: u32 = 32;
/// How many requests one call may make; the built-in component makes two.
const MOST_REQUESTS: u32 = 8;
/// The maximum size of all directives and events of one call, which are all kept for its record.
const MOST_BYTES: usize = 256 << 20;
