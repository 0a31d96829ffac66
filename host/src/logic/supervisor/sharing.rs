//! Functions for a pool, whose gates share instances: late offers, moved calls, and released memory.

use std::sync::Arc;

use super::super::LogicError;
use super::super::types::{Tool, execution};
use super::call::{CallRecord, CallState, build_gate};
use super::{AllowedServers, GateRecord, OfferedTools, Supervisor};
use crate::decide::{ExecutionId, GateId, LogicResult};

impl Supervisor {
    /// Opens a gate with settings that the component has accepted before, and with all its offers.
    pub(crate) fn open_shared(
        &mut self,
        settings: &Arc<execution::Settings>,
        servers: &Arc<AllowedServers>,
        offers: &OfferedTools,
    ) -> LogicResult<GateId> {
        let before = self.ensure_instance()?.memory_bytes();
        let handle = Some(self.ask(|logic| build_gate(logic, settings, offers))?);
        self.base_memory += self.memory_bytes().saturating_sub(before);
        let id = GateId(self.next_id);
        self.next_id += 1;
        let (settings, servers, offers) = (Arc::clone(settings), Arc::clone(servers), Arc::clone(offers));
        self.gates.insert(id, GateRecord { settings, servers, offers, handle, broken: None });
        Ok(id)
    }

    /// Sets the tools that a server lists, without a copy.
    pub(crate) fn offer_shared(
        &mut self,
        gate: GateId,
        server: &str,
        tools: &Arc<[Tool]>,
    ) -> LogicResult<Vec<execution::OfferNote>> {
        let mut offers = (*self.gate(gate)?.offers).clone();
        match offers.iter_mut().find(|(known, _)| known == server) {
            Some((_, old)) => *old = Arc::clone(tools),
            None => offers.push((server.to_owned(), Arc::clone(tools))),
        }
        self.change_offers(gate, Arc::new(offers), |logic, gate| logic.offer(gate, server, tools))
    }

    /// Returns the offers of a gate.
    pub(crate) fn offers(&mut self, gate: GateId) -> LogicResult<OfferedTools> {
        Ok(Arc::clone(&self.gate(gate)?.offers))
    }

    /// Changes a gate's offers to these, by as few changes as possible.
    pub(crate) fn set_offers(&mut self, gate: GateId, offers: &OfferedTools) -> LogicResult<()> {
        let known = self.offers(gate)?;
        if Arc::ptr_eq(&known, offers) {
            return Ok(());
        }
        self.change_offers(gate, Arc::clone(offers), |logic, handle| {
            for (server, _) in known.iter().filter(|(server, _)| !offers.iter().any(|(other, _)| other == server)) {
                logic.withdraw(handle, server)?;
            }
            let is_known = |server: &str, tools: &Arc<[Tool]>| {
                known.iter().any(|(other, known)| other == server && Arc::ptr_eq(known, tools))
            };
            for (server, tools) in offers.iter().filter(|(server, tools)| !is_known(server, tools)) {
                logic.offer(handle, server, tools)?;
            }
            Ok(())
        })
    }

    /// Removes a running call, to continue it in another instance.
    pub(crate) fn take_call(&mut self, execution: ExecutionId) -> LogicResult<MovedCall> {
        let mut call = self.calls.remove(&execution).ok_or(LogicError::ForeignHandle)?;
        if let CallState::Loaded(running) = std::mem::replace(&mut call.state, CallState::Unloaded) {
            // The component's answer does not matter: the call is replayed elsewhere.
            drop(self.ask(|logic| running.drop_from(logic)));
        }
        Ok(MovedCall(call))
    }

    /// Adds a call that ran elsewhere to a gate with the same settings; it is replayed at its next event.
    pub(crate) fn put_call(&mut self, MovedCall(mut call): MovedCall, gate: GateId) -> ExecutionId {
        call.gate = gate;
        let id = ExecutionId(self.next_id);
        self.next_id += 1;
        self.calls.insert(id, call);
        id
    }

    /// Returns the memory of the instance and its gates, without calls.
    pub(crate) fn base_memory(&self) -> usize {
        self.base_memory
    }

    /// Reports whether a call is running, or the history of a finished one has not been taken.
    pub(crate) fn is_busy(&self) -> bool {
        !(self.calls.is_empty() && self.histories.is_empty())
    }

    /// Reports whether a call of this gate is running.
    pub(crate) fn has_calls(&self, gate: GateId) -> bool {
        self.calls.values().any(|call| call.gate == gate)
    }

    /// Releases an instance that has grown far beyond what its gates and calls need, because its memory never shrinks;
    /// returns whether it did. The next question starts another instance and replays the running calls.
    pub(crate) fn release_if_grown(&mut self) -> bool {
        let grown = self.memory_bytes().saturating_sub(self.base_memory);
        let spare = SPARE.max(self.base_memory);
        if grown <= spare {
            return false;
        }
        let running = self.calls.values().filter(|call| matches!(call.state, CallState::Loaded(_)));
        let inputs: usize = running.map(|call| call.call.arguments.len() + call.usage.bytes).sum();
        if grown <= spare.saturating_add(inputs.saturating_mul(PER_BYTE)) {
            return false;
        }
        self.calls.values_mut().for_each(|call| call.unload());
        self.gates.values_mut().for_each(|gate| gate.handle = None);
        (self.instance, self.released) = (None, true);
        true
    }
}

/// A call on its way from one instance to another.
pub(crate) struct MovedCall(Box<CallRecord>);

/// How far an instance may always grow beyond what its gates need.
const SPARE: usize = 8 << 20;
/// How much memory a running call may take per byte of its inputs.
const PER_BYTE: usize = 8;
