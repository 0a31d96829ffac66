//! An instance that outlives its traps: what the component knew is kept here and fed to the next instance.
//!
//! A gate is its settings and its offers, a call is its beginning and its events. Because nothing but its inputs
//! decides, a new instance that is fed the same inputs stands where the old one stood. A call that breaks the
//! component off a second time is ended; all others go on as if nothing had happened.

mod call;
mod unmatched;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::types::{
    Annotations, Failure, Json, Tool, ToolRef, arguments, catalog, content, execution, filtering, lifecycle, masking,
    naming, recovery,
};
use super::{Component, GateHandle, Instance, LogicError, Outlook};
use crate::decide::{Answer, Decide, ExecutionId, GateId};
pub use call::Past;
use call::{Ahead, CallRecord, Place, Running, build_gate};

/// A component that is always ready to decide.
pub struct Supervisor {
    component: Component,
    /// `None` only where the last one died and no other could be started; the next question tries again.
    instance: Option<Instance>,
    gates: BTreeMap<GateId, GateRecord>,
    /// Boxed, so that little is moved where one of them comes or goes.
    calls: BTreeMap<ExecutionId, Box<CallRecord>>,
    /// Calls that are over and whose story was wanted, until somebody takes it.
    past: BTreeMap<ExecutionId, Past>,
    keeps: bool,
    next_id: u64,
    replacements: u64,
    /// Why an instance was replaced, until somebody asks.
    fault: Option<LogicError>,
    /// Its replacements are among the [`traps`].
    counted: bool,
}

/// Arguments and answers under supervision may hold secrets, so they are only counted.
impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Supervisor");
        shown.field("component", &self.component).field("instance", &self.instance);
        shown.field("gates", &self.gates.len()).field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// What servers have offered, in the order in which they first did.
pub type Offers = Arc<Vec<(String, Arc<[Tool]>)>>;

struct GateRecord {
    settings: Arc<execution::Settings>,
    offers: Offers,
    handle: Option<GateHandle>,
    /// Why it could not be rebuilt.
    broken: Option<String>,
}

/// How often an instance had to be replaced in this process.
pub fn traps() -> u64 {
    TRAPS.load(Ordering::Relaxed)
}

static TRAPS: AtomicU64 = AtomicU64::new(0);

impl Supervisor {
    /// Starts an instance of the component.
    pub fn new(component: Component) -> Answer<Self> {
        let instance = Some(component.instantiate()?);
        let (gates, calls, past) = Default::default();
        Ok(Supervisor {
            component,
            instance,
            gates,
            calls,
            past,
            keeps: false,
            next_id: 0,
            replacements: 0,
            fault: None,
            counted: true,
        })
    }

    /// The same for a component on which nothing depends: its replacements are not among the [`traps`].
    pub fn beside(component: Component) -> Answer<Self> {
        Ok(Supervisor { counted: false, ..Supervisor::new(component)? })
    }

    /// The component that is supervised.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// How often an instance had to be replaced.
    pub fn replacements(&self) -> u64 {
        self.replacements
    }

    /// Why an instance had to be replaced since this was asked last, where one had to.
    pub fn take_fault(&mut self) -> Option<LogicError> {
        self.fault.take()
    }

    /// How much linear memory the present instance has.
    pub fn memory_bytes(&self) -> usize {
        self.instance.as_ref().map_or(0, Instance::memory_bytes)
    }

    /// Whether a server counts as ready.
    pub fn counts_as_ready(&mut self, server: lifecycle::Server) -> Answer<bool> {
        self.ask(|logic| logic.counts_as_ready(server))
    }

    /// Decides on one tool by rules alone, with what its server says of it.
    pub fn decide(
        &mut self,
        policy: &filtering::Policy,
        tool: &ToolRef,
        annotations: Annotations,
    ) -> Answer<Result<filtering::Decision, filtering::PolicyError>> {
        self.ask(|logic| logic.decide(policy, tool, annotations))
    }

    /// Whether the stories of calls that begin from now on are kept until somebody takes them.
    pub fn keep_calls(&mut self, keep: bool) {
        self.keeps = keep;
    }

    /// The host waits, and there is time to get ready for the end of a call.
    pub fn get_ready(&mut self, execution: ExecutionId) {
        if let Some(call) = self.calls.get_mut(&execution) {
            call.spell_out();
        }
    }

    /// The story of a call that is over, once, where it was to be kept.
    pub fn take_past(&mut self, execution: ExecutionId) -> Option<Past> {
        self.past.remove(&execution)
    }

    /// Asks the instance; if it breaks off, the answer is the error, and the next question finds a new instance.
    fn ask<R>(&mut self, question: impl FnOnce(&mut Instance) -> Answer<R>) -> Answer<R> {
        let answer = question(self.live()?);
        self.settle();
        answer
    }

    /// The instance, or a new one where the last has died.
    fn live(&mut self) -> Answer<&mut Instance> {
        if self.instance.as_ref().is_none_or(Instance::is_dead) {
            self.replace()?;
        }
        self.instance.as_mut().ok_or(LogicError::Dead)
    }

    /// Replaces an instance that has just died, so that calls under way go on at once. Where that fails, whoever asks
    /// next tries again and is told why it cannot be done.
    fn settle(&mut self) {
        if self.instance.as_ref().is_some_and(Instance::is_dead) {
            drop(self.replace());
        }
    }

    /// Starts a new instance and brings it to where the old one stood.
    fn replace(&mut self) -> Answer<()> {
        loop {
            self.calls.values_mut().for_each(|call| call.displace());
            self.replacements += 1;
            TRAPS.fetch_add(u64::from(self.counted), Ordering::Relaxed);
            // Whoever asked has been told why, but nobody else.
            self.fault.get_or_insert(LogicError::Dead);
            // The dead one goes first: in a pool that is full, its place is the only one.
            self.instance = None;
            let mut instance = self.component.instantiate()?;
            // What breaks the new instance off again is left behind, so each round has less to feed.
            if self.feed_gates(&mut instance) && self.feed_calls(&mut instance) {
                self.instance = Some(instance);
                return Ok(());
            }
        }
    }

    fn feed_gates(&mut self, instance: &mut Instance) -> bool {
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

    fn feed_calls(&mut self, instance: &mut Instance) -> bool {
        for call in self.calls.values_mut().filter(|call| matches!(call.place, Place::Nowhere)) {
            match call.feed(instance, self.gates.get(&call.gate)) {
                Ok(running) => call.place = Place::Running(Box::new(running)),
                Err(error) => {
                    call.place = Place::Broken(error.to_string());
                    return false;
                }
            }
        }
        true
    }

    fn gate(&mut self, id: GateId) -> Answer<&mut GateRecord> {
        match self.gates.get_mut(&id) {
            Some(GateRecord { broken: Some(reason), .. }) => Err(LogicError::Trap { reason: reason.clone() }),
            Some(gate) => Ok(gate),
            None => Err(LogicError::ForeignHandle),
        }
    }

    /// Changes what a gate has been offered, in the instance and then here: an offer that breaks the component off is
    /// not taken, and the gate keeps what it had.
    fn change_offers<R>(
        &mut self,
        id: GateId,
        offers: Offers,
        change: impl FnOnce(&mut Instance, &GateHandle) -> Answer<R>,
    ) -> Answer<R> {
        self.live()?;
        let handle = self.gate(id)?.handle.take().ok_or(LogicError::Dead)?;
        let answer = self.live().and_then(|instance| change(instance, &handle));
        if answer.is_ok() {
            let gate = self.gate(id)?;
            gate.handle = Some(handle);
            gate.offers = offers;
        }
        self.settle();
        answer
    }

    /// Lets a call go, but for its story where that is to be kept, and says where it stood.
    fn leave(&mut self, id: ExecutionId) -> Option<Place> {
        let CallRecord { settings, call, offers, events, said, place, .. } = *self.calls.remove(&id)?;
        if let Some(said) = said {
            self.past.insert(id, Past { settings, call, offers, events, said });
        }
        Some(place)
    }

    /// What the call is to do next, now that it has been fed; it is forgotten when it is over.
    fn directive(&mut self, id: ExecutionId) -> Answer<execution::Directive> {
        let call = self.calls.get_mut(&id).ok_or(LogicError::ForeignHandle)?;
        let directive = match &mut call.place {
            Place::Running(running) => running.directive.take().ok_or(LogicError::Dead)?,
            Place::Ahead(ahead) => execution::Directive::Request(ahead.request.take().ok_or(LogicError::Dead)?),
            Place::Broken(reason) => {
                let reason = std::mem::take(reason);
                execution::Directive::Done(call.broken_result(&reason))
            }
            Place::Nowhere => return Err(LogicError::Dead),
        };
        if let Some(said) = &mut call.said {
            said.push(directive.clone());
        }
        match directive {
            execution::Directive::Request(_) => call.requests += 1,
            // What the call came to stands, even if clearing up after it breaks the component off.
            execution::Directive::Done(_) => drop(self.end(id)),
            _ => {}
        }
        Ok(directive)
    }
}

impl Decide for Supervisor {
    fn normalize(&mut self, name: &str) -> Answer<String> {
        self.ask(|logic| logic.normalize(name))
    }

    fn split(&mut self, name: &str) -> Answer<Result<ToolRef, naming::NameError>> {
        self.ask(|logic| logic.split(name))
    }

    fn fit(
        &mut self,
        tools: &[naming::Candidate],
        audience: &naming::Audience,
    ) -> Answer<Result<Vec<naming::FittedTool>, naming::FitError>> {
        self.ask(|logic| logic.fit(tools, audience))
    }

    fn parse_arguments(
        &mut self,
        text: &str,
        schema: Option<&Json>,
    ) -> Answer<Result<arguments::Parsed, arguments::Refusal>> {
        self.ask(|logic| logic.parse_arguments(text, schema))
    }

    fn filter(&mut self, rules: &filtering::Rules, tools: &[String]) -> Answer<Vec<String>> {
        self.ask(|logic| logic.filter(rules, tools))
    }

    fn classify(&mut self, failure: &Failure, context: recovery::Context) -> Answer<recovery::Decision> {
        self.ask(|logic| logic.classify(failure, context))
    }

    fn restart_delay(&mut self, restarts: u32, schedule_ms: Option<&[u64]>) -> Answer<u64> {
        self.ask(|logic| logic.restart_delay(restarts, schedule_ms))
    }

    fn extract(&mut self, result: &Json) -> Answer<Result<content::Extracted, content::Unreadable>> {
        self.ask(|logic| logic.extract(result))
    }

    fn truncate(&mut self, text: &str, max_bytes: u64, why: &str) -> Answer<String> {
        self.ask(|logic| logic.truncate(text, max_bytes, why))
    }

    fn mask(&mut self, masks: &masking::Masks, text: &str) -> Answer<Result<String, masking::MaskError>> {
        self.ask(|logic| {
            let masker = match logic.new_masker(masks)? {
                Ok(masker) => masker,
                Err(error) => return Ok(Err(error)),
            };
            let masked = logic.mask(&masker, text)?;
            logic.drop_masker(masker)?;
            Ok(Ok(masked))
        })
    }

    fn expose(
        &mut self,
        offers: &[catalog::Offered],
        style: &naming::NamingStyle,
    ) -> Answer<Vec<catalog::ExposedTool>> {
        self.ask(|logic| {
            let catalog = logic.new_catalog(offers, false)?;
            let tools = logic.catalog_tools(&catalog, style)?;
            logic.drop_catalog(catalog)?;
            Ok(tools)
        })
    }

    fn instructions(&mut self, servers: &[catalog::ServerNotes], failed: &[catalog::FailedServer]) -> Answer<String> {
        self.ask(|logic| logic.instructions(servers, failed))
    }

    fn default_policy(&mut self) -> Answer<lifecycle::Policy> {
        self.ask(Instance::default_policy)
    }

    fn initial(&mut self, enabled: bool) -> Answer<lifecycle::Server> {
        self.ask(|logic| logic.initial(enabled))
    }

    fn step(
        &mut self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
        now_ms: u64,
    ) -> Answer<lifecycle::Transition> {
        self.ask(|logic| logic.step(server, event, policy, now_ms))
    }

    fn default_settings(&mut self, servers: &[String]) -> Answer<execution::Settings> {
        self.ask(|logic| logic.default_settings(servers))
    }

    fn open_gate(&mut self, settings: &execution::Settings) -> Answer<Result<GateId, execution::SettingsError>> {
        let handle = match self.ask(|logic| logic.new_gate(settings))? {
            Ok(handle) => handle,
            Err(error) => return Ok(Err(error)),
        };
        let id = GateId(self.next_id);
        self.next_id += 1;
        let settings = Arc::new(settings.clone());
        self.gates.insert(id, GateRecord { settings, offers: Offers::default(), handle: Some(handle), broken: None });
        Ok(Ok(id))
    }

    fn offer(&mut self, gate: GateId, server: &str, tools: &[Tool]) -> Answer<Vec<execution::OfferNote>> {
        let mut offers = (*self.gate(gate)?.offers).clone();
        let taken: Arc<[Tool]> = tools.into();
        match offers.iter_mut().find(|(known, _)| known == server) {
            Some((_, old)) => *old = taken,
            None => offers.push((server.to_owned(), taken)),
        }
        self.change_offers(gate, Arc::new(offers), |logic, gate| logic.offer(gate, server, tools))
    }

    fn withdraw(&mut self, gate: GateId, server: &str) -> Answer<()> {
        let mut offers = (*self.gate(gate)?.offers).clone();
        offers.retain(|(known, _)| known != server);
        self.change_offers(gate, Arc::new(offers), |logic, gate| logic.withdraw(gate, server))
    }

    fn tools(&mut self, gate: GateId, style: &naming::NamingStyle) -> Answer<Vec<catalog::ExposedTool>> {
        let offers = Arc::clone(&self.gate(gate)?.offers);
        self.change_offers(gate, offers, |logic, gate| logic.gate_tools(gate, style))
    }

    fn mask_json(&mut self, gate: GateId, server: &str, json: &str) -> Answer<String> {
        let (offers, json) = (Arc::clone(&self.gate(gate)?.offers), json.to_owned());
        self.change_offers(gate, offers, |logic, gate| logic.gate_mask_json(gate, server, &json))
    }

    fn admits(&mut self, gate: GateId, server: &str) -> Answer<bool> {
        let offers = Arc::clone(&self.gate(gate)?.offers);
        self.change_offers(gate, offers, |logic, gate| logic.gate_admits(gate, server))
    }

    fn begin(&mut self, gate: GateId, call: execution::ToolCall) -> Answer<(ExecutionId, execution::Directive)> {
        self.live()?;
        self.gate(gate)?;
        let record = self.gates.get(&gate).ok_or(LogicError::ForeignHandle)?;
        let (settings, offers) = (Arc::clone(&record.settings), Arc::clone(&record.offers));
        let (Some(instance), Some(handle)) = (&mut self.instance, &record.handle) else { return Err(LogicError::Dead) };
        let place = match instance.foresee(handle, &call) {
            Ok(Outlook::Foreseen(foreseen)) => Place::Ahead(Box::new(Ahead::new(foreseen))),
            Ok(Outlook::Started(handle, directive)) => {
                Place::Running(Box::new(Running { handle, directive: Some(directive), gate: None }))
            }
            Err(error) => {
                self.fault = Some(error);
                Place::Nowhere
            }
        };
        let id = ExecutionId(self.next_id);
        self.next_id += 1;
        let said = self.keeps.then(Vec::new);
        let call = CallRecord { gate, settings, call, offers, events: Vec::new(), requests: 0, place, said };
        self.calls.insert(id, Box::new(call));
        // If it has broken the component off, it is fed once more with all the others.
        self.live()?;
        Ok((id, self.directive(id)?))
    }

    fn next(&mut self, execution: ExecutionId, event: execution::Event) -> Answer<execution::Directive> {
        self.live()?;
        let call = self.calls.get_mut(&execution).ok_or(LogicError::ForeignHandle)?;
        let turned_out = call.turned_out(&event);
        let gate = self.gates.get(&call.gate);
        let offers = gate.map_or_else(Offers::default, |gate| Arc::clone(&gate.offers));
        if let Some(result) = turned_out {
            let directive = execution::Directive::Done(result);
            if let Some(said) = &mut call.said {
                said.push(directive.clone());
                call.events.push((offers, event));
            }
            self.leave(execution);
            return Ok(directive);
        }
        let (offers, event) = call.events.push_mut((offers, event));
        let instance = self.instance.as_mut().ok_or(LogicError::Dead)?;
        let told = match &mut call.place {
            Place::Running(running) => running.next(instance, offers, event),
            Place::Nowhere => call.feed(instance, gate).map(|running| call.place = Place::Running(Box::new(running))),
            Place::Ahead(_) | Place::Broken(_) => Ok(()),
        };
        if let Err(error) = told {
            self.fault = Some(error);
            self.replace()?;
        }
        self.directive(execution)
    }

    fn trace(&mut self, execution: ExecutionId) -> Answer<Vec<String>> {
        self.live()?;
        let call = self.calls.get_mut(&execution).ok_or(LogicError::ForeignHandle)?;
        let Some(instance) = &mut self.instance else { return Err(LogicError::Dead) };
        // What is foreseen goes further than the call has come.
        if let Place::Ahead(_) = call.place {
            let mut running = call.feed(instance, self.gates.get(&call.gate))?;
            running.directive = None;
            call.place = Place::Running(Box::new(running));
        }
        let Place::Running(running) = &call.place else { return Err(LogicError::Dead) };
        let trace = instance.trace(&running.handle);
        self.settle();
        trace
    }

    fn end(&mut self, execution: ExecutionId) -> Answer<()> {
        let Some(Place::Running(running)) = self.leave(execution) else { return Ok(()) };
        self.ask(|logic| running.leave(logic))
    }

    fn close_gate(&mut self, gate: GateId) -> Answer<()> {
        let calls: Vec<ExecutionId> =
            self.calls.iter().filter(|(_, call)| call.gate == gate).map(|(id, _)| *id).collect();
        calls.into_iter().try_for_each(|call| self.end(call))?;
        let handle = self.gates.remove(&gate).and_then(|gate| gate.handle);
        handle.map_or(Ok(()), |handle| self.ask(|logic| logic.drop_gate(handle)))
    }
}
