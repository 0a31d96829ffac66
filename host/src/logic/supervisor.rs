//! An instance that survives traps: its inputs are kept here and replayed in the next instance.
//!
//! A gate is its settings and its offers, a call is its beginning and its events. Only these inputs matter, so a new
//! instance with the same inputs reaches the same state. A call that crashes the component a second time is ended; all
//! others go on as if nothing had happened.

mod call;
mod checked;
mod decide;
mod sharing;
mod unmatched;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::state::MemoryBudget;
use super::types::{Annotations, Tool, ToolRef, execution, filtering, lifecycle};
use super::{Component, GateHandle, Instance, LogicError};
use crate::decide::{Decide, ExecutionId, GateId, LogicResult};
pub use call::CallHistory;
use call::{CallRecord, CallState, build_gate};
pub(crate) use call::{directive_bytes, event_bytes};
pub use checked::AllowedServers;

/// A component that is always ready to decide.
pub struct Supervisor {
    component: Component,
    /// `None` if the last one was released, or died and could not be replaced; the next question starts one.
    instance: Option<Instance>,
    /// The memory of the instance and its gates, without calls.
    base_memory: usize,
    /// Whether the last instance was released and did not crash.
    released: bool,
    /// The budget for the memory of its instances, shared with others.
    budget: Option<Arc<MemoryBudget>>,
    gates: BTreeMap<GateId, GateRecord>,
    /// Boxed, so that adding and removing calls moves little data.
    calls: BTreeMap<ExecutionId, Box<CallRecord>>,
    /// The histories of finished calls, until somebody takes them.
    histories: BTreeMap<ExecutionId, CallHistory>,
    keeps_history: bool,
    next_id: u64,
    replacements: u64,
    /// Why an instance was replaced, until somebody asks.
    fault: Option<LogicError>,
    /// Whether its replacements count as [`traps`].
    counted: bool,
}

/// Shows only the number of gates and calls, because arguments and results may contain secrets.
impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Supervisor");
        shown.field("component", &self.component).field("instance", &self.instance);
        shown.field("gates", &self.gates.len()).field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// The tools of servers, in the order in which the servers first offered any.
pub type OfferedTools = Arc<Vec<(String, Arc<[Tool]>)>>;

struct GateRecord {
    settings: Arc<execution::Settings>,
    /// The servers that its calls may name.
    servers: Arc<AllowedServers>,
    offers: OfferedTools,
    handle: Option<GateHandle>,
    /// Why it could not be rebuilt.
    broken: Option<String>,
}

/// Returns how often an instance had to be replaced in this process.
pub fn traps() -> u64 {
    TRAPS.load(Ordering::Relaxed)
}

static TRAPS: AtomicU64 = AtomicU64::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Supervisor {
    /// Starts an instance of the component.
    pub fn new(component: Component) -> LogicResult<Self> {
        Supervisor::with_budget(component, None)
    }

    /// Starts an instance of the component whose memory counts against a shared budget.
    pub(super) fn with_budget(component: Component, budget: Option<Arc<MemoryBudget>>) -> LogicResult<Self> {
        let instance = component.instantiate_with_budget(budget.clone())?;
        let base_memory = instance.memory_bytes();
        let (gates, calls, histories) = Default::default();
        Ok(Supervisor {
            component,
            instance: Some(instance),
            base_memory,
            released: false,
            budget,
            gates,
            calls,
            histories,
            keeps_history: false,
            // Ids are unique across supervisors, so an old id means nothing to a new one.
            next_id: STARTED.fetch_add(1, Ordering::Relaxed) << 32,
            replacements: 0,
            fault: None,
            counted: true,
        })
    }

    /// Starts an instance of a component that nothing depends on; its replacements do not count as [`traps`].
    pub fn new_uncounted(component: Component) -> LogicResult<Self> {
        Ok(Supervisor { counted: false, ..Supervisor::new(component)? })
    }

    /// Returns the component.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Returns how often an instance had to be replaced.
    pub fn replacements(&self) -> u64 {
        self.replacements
    }

    /// Returns why an instance was replaced since the last time this was asked, if one was.
    pub fn take_fault(&mut self) -> Option<LogicError> {
        self.fault.take()
    }

    /// Returns the linear memory of the current instance.
    pub fn memory_bytes(&self) -> usize {
        self.instance.as_ref().map_or(0, Instance::memory_bytes)
    }

    /// Reports whether a server counts as ready.
    pub fn counts_as_ready(&mut self, server: lifecycle::Server) -> LogicResult<bool> {
        self.ask(|logic| logic.counts_as_ready(server))
    }

    /// Decides on one tool by rules alone, given its annotations.
    pub fn decide(
        &mut self,
        policy: &filtering::Policy,
        tool: &ToolRef,
        annotations: Annotations,
    ) -> LogicResult<Result<filtering::Decision, filtering::PolicyError>> {
        self.ask(|logic| logic.decide(policy, tool, annotations))
    }

    /// Sets whether the histories of calls that begin from now on are kept until somebody takes them.
    pub fn keep_history(&mut self, keep: bool) {
        self.keeps_history = keep;
    }

    /// Returns the history of a finished call once, if it was kept.
    pub fn take_history(&mut self, execution: ExecutionId) -> Option<CallHistory> {
        self.histories.remove(&execution)
    }

    /// Ends a call that the component continues although its time is over, with a result from the host.
    pub fn break_off(&mut self, execution: ExecutionId) -> LogicResult<execution::ToolResult> {
        let call = self.calls.get_mut(&execution).ok_or(LogicError::ForeignHandle)?;
        let fault = LogicError::Contract { what: "the call does not end, though its time is over".to_owned() };
        let result = call.ended_result(&fault);
        if let Some(last) = call.directives.as_mut().and_then(|kept| kept.last_mut()) {
            *last = execution::Directive::Done(result.clone());
        }
        self.fault = Some(fault);
        drop(self.end(execution));
        Ok(result)
    }

    /// Asks the instance; if it crashes, returns the error, and the next question gets a new instance.
    fn ask<R>(&mut self, question: impl FnOnce(&mut Instance) -> LogicResult<R>) -> LogicResult<R> {
        let answer = question(self.ensure_instance()?);
        self.replace_if_dead();
        answer
    }

    /// Returns the instance, or a new one if the last has died.
    fn ensure_instance(&mut self) -> LogicResult<&mut Instance> {
        if self.instance.as_ref().is_none_or(Instance::is_dead) {
            self.replace()?;
        }
        self.instance.as_mut().ok_or(LogicError::Dead)
    }

    /// Replaces an instance that has just died, so that running calls go on at once. If that fails, the next question
    /// tries again and gets the error.
    fn replace_if_dead(&mut self) {
        if self.instance.as_ref().is_some_and(Instance::is_dead) {
            drop(self.replace());
        }
    }

    /// Starts a new instance and replays all gates and calls in it.
    fn replace(&mut self) -> LogicResult<()> {
        loop {
            self.calls.values_mut().for_each(|call| call.unload());
            if !std::mem::take(&mut self.released) {
                self.replacements += 1;
                TRAPS.fetch_add(u64::from(self.counted), Ordering::Relaxed);
                // Only the caller of that question got the reason.
                self.fault.get_or_insert(LogicError::Dead);
            }
            // Drop the dead one first: in a full pool, its slot is the only one.
            self.instance = None;
            let mut instance = self.component.instantiate_with_budget(self.budget.clone())?;
            // Inputs that crash the new instance are left out, so each round replays less.
            if !self.rebuild_gates(&mut instance) {
                continue;
            }
            self.base_memory = instance.memory_bytes();
            if self.replay_calls(&mut instance) {
                self.instance = Some(instance);
                return Ok(());
            }
        }
    }

    fn rebuild_gates(&mut self, instance: &mut Instance) -> bool {
        for gate in self.gates.values_mut().filter(|gate| gate.broken.is_none()) {
            gate.handle = None;
            match build_gate(instance, &gate.settings, &gate.offers) {
                Ok(handle) => gate.handle = Some(handle),
                Err(error) => {
                    gate.broken = Some(error.to_string());
                    return false;
                }
            }
        }
        true
    }

    fn replay_calls(&mut self, instance: &mut Instance) -> bool {
        for call in self.calls.values_mut().filter(|call| matches!(call.state, CallState::Unloaded)) {
            match call.replay(instance, self.gates.get(&call.gate)) {
                Ok(running) => call.state = CallState::Loaded(Box::new(running)),
                Err(error) => {
                    call.state = CallState::Broken(error.to_string());
                    return false;
                }
            }
        }
        true
    }

    fn gate(&mut self, id: GateId) -> LogicResult<&mut GateRecord> {
        match self.gates.get_mut(&id) {
            Some(GateRecord { broken: Some(reason), .. }) => Err(LogicError::Trap { reason: reason.clone() }),
            Some(gate) => Ok(gate),
            None => Err(LogicError::ForeignHandle),
        }
    }

    /// Changes the offers of a gate, first in the instance and then here: offers that crash the component are not
    /// taken, and the gate keeps its own.
    fn change_offers<R>(
        &mut self,
        id: GateId,
        offers: OfferedTools,
        change: impl FnOnce(&mut Instance, &GateHandle) -> LogicResult<R>,
    ) -> LogicResult<R> {
        self.ensure_instance()?;
        let handle = self.gate(id)?.handle.take().ok_or(LogicError::Dead)?;
        let before = self.memory_bytes();
        let answer = self.ensure_instance().and_then(|instance| change(instance, &handle));
        if answer.is_ok() {
            let grown = self.memory_bytes().saturating_sub(before);
            let gate = self.gate(id)?;
            if !Arc::ptr_eq(&gate.offers, &offers) {
                self.base_memory += grown;
            }
            let gate = self.gate(id)?;
            gate.handle = Some(handle);
            gate.offers = offers;
        }
        self.replace_if_dead();
        answer
    }

    /// Removes a call and returns its state; keeps its history if that is wanted.
    fn remove_call(&mut self, id: ExecutionId) -> Option<CallState> {
        let CallRecord { settings, call, offers, events, directives, state, .. } = *self.calls.remove(&id)?;
        if let Some(directives) = directives {
            self.histories.insert(id, CallHistory { settings, call, offers, events, directives });
        }
        Some(state)
    }

    /// Returns the next directive of a call, and forgets the call when it is over. The trace of a forwarded result stays
    /// here.
    fn directive(&mut self, id: ExecutionId) -> LogicResult<execution::Directive> {
        let call = self.calls.get_mut(&id).ok_or(LogicError::ForeignHandle)?;
        let mut directive = match &mut call.state {
            CallState::Loaded(running) => running.directive.take().ok_or(LogicError::Dead)?,
            CallState::Broken(reason) => {
                let reason = std::mem::take(reason);
                execution::Directive::Done(call.broken_result(&reason))
            }
            CallState::Unloaded => return Err(LogicError::Dead),
        };
        if let Err(fault) = call.check(&mut directive) {
            directive = execution::Directive::Done(call.ended_result(&fault));
            self.fault = Some(fault);
        }
        if let execution::Directive::Request(request) = &mut directive {
            call.usage.requests += 1;
            // The host needs the trace only here, so it is not copied.
            let trace = |end: &mut execution::Forward| std::mem::take(&mut end.trace);
            call.if_forwarded = request.forward.as_mut().map(|end| (request.tool.clone(), trace(end)));
        }
        if let Some(kept) = &mut call.directives {
            kept.push(directive.clone());
        }
        if let execution::Directive::Done(_) = directive {
            // The result counts, even if cleaning up crashes the component.
            drop(self.end(id));
        }
        Ok(directive)
    }
}
