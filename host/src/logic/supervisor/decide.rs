//! Implements the crate's decisions with the current instance, and checks the answers before they are used.

use std::sync::Arc;

use super::super::types::{
    Failure, Json, Tool, ToolRef, arguments, catalog, content, execution, filtering, lifecycle, masking, naming,
    reading, recovery, rules, search,
};
use super::super::{Instance, LogicError};
use super::call::{CallRecord, CallState, CallUsage, LoadedCall, event_bytes};
use super::{AllowedServers, GateRecord, OfferedTools, Supervisor, checked};
use crate::decide::{Decide, ExecutionId, GateId, LogicResult};

impl Decide for Supervisor {
    fn normalize(&mut self, name: &str) -> LogicResult<String> {
        self.ask(|logic| logic.normalize(name))
    }

    fn split(&mut self, name: &str) -> LogicResult<Result<ToolRef, naming::NameError>> {
        self.ask(|logic| logic.split(name))
    }

    fn fit(
        &mut self,
        tools: &[naming::Candidate],
        audience: &naming::Audience,
    ) -> LogicResult<Result<Vec<naming::FittedTool>, naming::FitError>> {
        let fitted = self.ask(|logic| logic.fit(tools, audience))?;
        fitted.iter().try_for_each(|tools| checked::fitted(tools))?;
        Ok(fitted)
    }

    fn parse_arguments(
        &mut self,
        text: &str,
        schema: Option<&Json>,
    ) -> LogicResult<Result<arguments::Parsed, arguments::Refusal>> {
        let parsed = self.ask(|logic| logic.parse_arguments(text, schema))?;
        parsed.iter().try_for_each(checked::parsed)?;
        Ok(parsed)
    }

    fn filter(&mut self, rules: &filtering::Rules, tools: &[String]) -> LogicResult<Vec<String>> {
        self.ask(|logic| logic.filter(rules, tools))
    }

    fn classify(&mut self, failure: &Failure, context: recovery::Context) -> LogicResult<recovery::Decision> {
        self.ask(|logic| logic.classify(failure, context))
    }

    fn restart_delay(&mut self, restarts: u32, schedule_ms: Option<&[u64]>) -> LogicResult<u64> {
        self.ask(|logic| logic.restart_delay(restarts, schedule_ms))
    }

    fn extract(&mut self, result: &Json) -> LogicResult<Result<content::Extracted, content::Unreadable>> {
        let extracted = self.ask(|logic| logic.extract(result))?;
        extracted.iter().try_for_each(checked::extracted)?;
        Ok(extracted)
    }

    fn truncate(&mut self, text: &str, max_bytes: u64, why: &str) -> LogicResult<String> {
        self.ask(|logic| logic.truncate(text, max_bytes, why))
    }

    fn mask(&mut self, masks: &masking::Masks, text: &str) -> LogicResult<Result<String, masking::MaskError>> {
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
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        let tools = self.ask(|logic| {
            let catalog = logic.new_catalog(offers, false)?;
            let tools = logic.catalog_tools(&catalog, style)?;
            logic.drop_catalog(catalog)?;
            Ok(tools)
        })?;
        checked::tools(tools.iter())?;
        Ok(tools)
    }

    fn instructions(
        &mut self,
        servers: &[catalog::ServerNotes],
        failed: &[catalog::FailedServer],
    ) -> LogicResult<String> {
        self.ask(|logic| logic.instructions(servers, failed))
    }

    fn read_calls(
        &mut self,
        text: &str,
        tools: &[reading::KnownTool],
        loose: bool,
    ) -> LogicResult<Result<Vec<reading::ReadCall>, reading::ReadingError>> {
        let read = self.ask(|logic| logic.read_calls(text, tools, loose))?;
        read.iter().try_for_each(|calls| checked::calls(calls, text))?;
        Ok(read)
    }

    fn search(
        &mut self,
        tools: &[catalog::Offered],
        queries: &[String],
        limit: u32,
    ) -> LogicResult<Vec<Vec<search::SearchHit>>> {
        self.ask(|logic| logic.search(tools, queries, limit))
    }

    fn known_values(&mut self, texts: &[String]) -> LogicResult<Vec<rules::KnownValue>> {
        self.ask(|logic| logic.known_values(texts))
    }

    fn default_policy(&mut self) -> LogicResult<lifecycle::Policy> {
        self.ask(Instance::default_policy)
    }

    fn initial(&mut self, enabled: bool) -> LogicResult<lifecycle::Server> {
        self.ask(|logic| logic.initial(enabled))
    }

    fn step(
        &mut self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
        now_ms: u64,
    ) -> LogicResult<lifecycle::Transition> {
        self.ask(|logic| logic.step(server, event, policy, now_ms))
    }

    fn default_settings(&mut self, servers: &[String]) -> LogicResult<execution::Settings> {
        self.ask(|logic| logic.default_settings(servers))
    }

    fn open_gate(&mut self, settings: &execution::Settings) -> LogicResult<Result<GateId, execution::SettingsError>> {
        let before = self.ensure_instance()?.memory_bytes();
        let handle = match self.ask(|logic| logic.new_gate(settings))? {
            Ok(handle) => handle,
            Err(error) => return Ok(Err(error)),
        };
        self.base_memory += self.memory_bytes().saturating_sub(before);
        let id = GateId(self.next_id);
        self.next_id += 1;
        let (settings, servers) = (Arc::new(settings.clone()), Arc::new(AllowedServers::of(settings)));
        let (offers, handle) = (OfferedTools::default(), Some(handle));
        self.gates.insert(id, GateRecord { settings, servers, offers, handle, broken: None });
        Ok(Ok(id))
    }

    fn offer(&mut self, gate: GateId, server: &str, tools: &[Tool]) -> LogicResult<Vec<execution::OfferNote>> {
        self.offer_shared(gate, server, &tools.into())
    }

    fn withdraw(&mut self, gate: GateId, server: &str) -> LogicResult<()> {
        let mut offers = (*self.gate(gate)?.offers).clone();
        offers.retain(|(known, _)| known != server);
        self.change_offers(gate, Arc::new(offers), |logic, gate| logic.withdraw(gate, server))
    }

    fn tools(
        &mut self,
        gate: GateId,
        style: &naming::NamingStyle,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        let offers = Arc::clone(&self.gate(gate)?.offers);
        let tools = self.change_offers(gate, offers, |logic, gate| logic.gate_tools(gate, style, circumstances))?;
        checked::tools(tools.iter())?;
        Ok(tools)
    }

    fn find_tools(
        &mut self,
        gate: GateId,
        query: &str,
        limit: u32,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<search::FoundTool>> {
        let offers = Arc::clone(&self.gate(gate)?.offers);
        let found =
            self.change_offers(gate, offers, |logic, gate| logic.gate_search(gate, query, limit, circumstances))?;
        checked::tools(found.iter().map(|found| &found.tool))?;
        Ok(found)
    }

    fn foresee(
        &mut self,
        gate: GateId,
        tool: &ToolRef,
        circumstances: &rules::Circumstances,
    ) -> LogicResult<rules::Outlook> {
        let offers = Arc::clone(&self.gate(gate)?.offers);
        let mut outlook =
            self.change_offers(gate, offers, |logic, gate| logic.gate_foresee(gate, tool, circumstances))?;
        checked::notes(&mut outlook.trace);
        Ok(outlook)
    }

    fn check_rules(&mut self, gate: GateId) -> LogicResult<Vec<rules::RuleNote>> {
        let offers = Arc::clone(&self.gate(gate)?.offers);
        self.change_offers(gate, offers, |logic, gate| logic.gate_check_rules(gate))
    }

    fn mask_json(&mut self, gate: GateId, server: &str, json: &str) -> LogicResult<String> {
        let (offers, json) = (Arc::clone(&self.gate(gate)?.offers), json.to_owned());
        let masked = self.change_offers(gate, offers, |logic, gate| logic.gate_mask_json(gate, server, &json))?;
        checked::masked(&masked)?;
        Ok(masked)
    }

    fn selects(&mut self, gate: GateId, server: &str) -> LogicResult<bool> {
        let record = self.gate(gate)?;
        if !record.servers.has(server) {
            return Ok(false);
        }
        let offers = Arc::clone(&record.offers);
        self.change_offers(gate, offers, |logic, gate| logic.gate_selects(gate, server))
    }

    fn admits(&mut self, gate: GateId, server: &str) -> LogicResult<bool> {
        let record = self.gate(gate)?;
        if !record.servers.has(server) {
            return Ok(false);
        }
        let offers = Arc::clone(&record.offers);
        self.change_offers(gate, offers, |logic, gate| logic.gate_admits(gate, server))
    }

    fn begin(&mut self, gate: GateId, call: execution::ToolCall) -> LogicResult<(ExecutionId, execution::Directive)> {
        self.ensure_instance()?;
        self.gate(gate)?;
        let record = self.gates.get(&gate).ok_or(LogicError::ForeignHandle)?;
        let (settings, servers) = (Arc::clone(&record.settings), Arc::clone(&record.servers));
        let offers = Arc::clone(&record.offers);
        let (Some(instance), Some(handle)) = (&mut self.instance, &record.handle) else { return Err(LogicError::Dead) };
        let state = match instance.begin(handle, &call) {
            Ok((handle, directive)) => {
                CallState::Loaded(Box::new(LoadedCall { handle, directive: Some(directive), gate: None }))
            }
            Err(error) => {
                self.fault = Some(error);
                CallState::Unloaded
            }
        };
        let id = ExecutionId(self.next_id);
        self.next_id += 1;
        let directives = self.keeps_history.then(Vec::new);
        let (events, usage, if_forwarded) = (Vec::new(), CallUsage::default(), None);
        let call = CallRecord { gate, settings, servers, call, offers, events, usage, state, if_forwarded, directives };
        self.calls.insert(id, Box::new(call));
        // If it has crashed the component, it is replayed once more with all the others.
        self.ensure_instance()?;
        Ok((id, self.directive(id)?))
    }

    fn next(&mut self, execution: ExecutionId, event: execution::Event) -> LogicResult<execution::Directive> {
        self.ensure_instance()?;
        let call = self.calls.get_mut(&execution).ok_or(LogicError::ForeignHandle)?;
        let forwarded = call.forwarded(&event);
        let gate = self.gates.get(&call.gate);
        let offers = gate.map_or_else(OfferedTools::default, |gate| Arc::clone(&gate.offers));
        if let Some(result) = forwarded {
            let directive = execution::Directive::Done(result);
            if let Some(kept) = &mut call.directives {
                kept.push(directive.clone());
                call.events.push((offers, event));
            }
            // The result counts, even if cleaning up crashes the component.
            drop(self.end(execution));
            return Ok(directive);
        }
        call.usage.bytes += event_bytes(&event);
        let (offers, event) = call.events.push_mut((offers, event));
        let instance = self.instance.as_mut().ok_or(LogicError::Dead)?;
        let stepped = match &mut call.state {
            CallState::Loaded(running) => running.next(instance, offers, event),
            CallState::Unloaded => {
                call.replay(instance, gate).map(|running| call.state = CallState::Loaded(Box::new(running)))
            }
            CallState::Broken(_) => Ok(()),
        };
        if let Err(error) = stepped {
            self.fault = Some(error);
            self.replace()?;
        }
        self.directive(execution)
    }

    fn trace(&mut self, execution: ExecutionId) -> LogicResult<Vec<String>> {
        self.ensure_instance()?;
        let call = self.calls.get_mut(&execution).ok_or(LogicError::ForeignHandle)?;
        let Some(instance) = &mut self.instance else { return Err(LogicError::Dead) };
        let CallState::Loaded(running) = &call.state else { return Err(LogicError::Dead) };
        let mut trace = instance.trace(&running.handle);
        trace.iter_mut().for_each(checked::notes);
        self.replace_if_dead();
        trace
    }

    fn end(&mut self, execution: ExecutionId) -> LogicResult<()> {
        let Some(CallState::Loaded(running)) = self.remove_call(execution) else { return Ok(()) };
        self.ask(|logic| running.drop_from(logic))
    }

    fn close_gate(&mut self, gate: GateId) -> LogicResult<()> {
        let calls: Vec<ExecutionId> =
            self.calls.iter().filter(|(_, call)| call.gate == gate).map(|(id, _)| *id).collect();
        calls.into_iter().try_for_each(|call| self.end(call))?;
        let handle = self.gates.remove(&gate).and_then(|gate| gate.handle);
        handle.map_or(Ok(()), |handle| self.ask(|logic| logic.drop_gate(handle)))
    }
}
