//! What a pool needs of the instances that gates share: gates that are told of offers late, and memory that is given back.

use std::sync::Arc;

use super::super::LogicError;
use super::super::types::{Tool, execution};
use super::call::{CallRecord, CallState, build_gate};
use super::{AllowedServers, GateRecord, OfferedTools, Supervisor};
use crate::decide::{ExecutionId, GateId, LogicResult};

impl Supervisor {
    /// Opens a gate of settings that the component has taken before, with all that was offered to it.
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

    /// Takes what `tools/list` of a server said, without a copy.
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

    /// What a gate has been offered.
    pub(crate) fn offers(&mut self, gate: GateId) -> LogicResult<OfferedTools> {
        Ok(Arc::clone(&self.gate(gate)?.offers))
    }

    /// Brings a gate to these offers, by as many changes as they differ in.
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

    /// Takes a call that is under way out, to go on in another instance.
    pub(crate) fn take_call(&mut self, execution: ExecutionId) -> LogicResult<MovedCall> {
        let mut call = self.calls.remove(&execution).ok_or(LogicError::ForeignHandle)?;
        if let CallState::Loaded(running) = std::mem::replace(&mut call.state, CallState::Unloaded) {
            // What the component says to this matters to nobody: the call is fed again elsewhere.
            drop(self.ask(|logic| running.drop_from(logic)));
        }
        Ok(MovedCall(call))
    }

    /// Takes in a call that was under way elsewhere, on a gate of the same settings; it is fed when it is next told something.
    pub(crate) fn put_call(&mut self, MovedCall(mut call): MovedCall, gate: GateId) -> ExecutionId {
        call.gate = gate;
        let id = ExecutionId(self.next_id);
        self.next_id += 1;
        self.calls.insert(id, call);
        id
    }

    /// What the instance and its gates need of memory, without calls.
    pub(crate) fn base_memory(&self) -> usize {
        self.base_memory
    }

    /// Whether any call is under way, or the story of one that is over waits to be taken.
    pub(crate) fn is_busy(&self) -> bool {
        !(self.calls.is_empty() && self.histories.is_empty())
    }

    /// Whether a call of this gate is under way.
    pub(crate) fn has_calls(&self, gate: GateId) -> bool {
        self.calls.values().any(|call| call.gate == gate)
    }

    /// Gives an instance back that has grown far beyond what its gates and calls need, since its memory never shrinks. The
    /// next question starts another one, which is told of the calls that are under way. Says whether it did.
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

/// How far an instance may grow beyond what its gates need, at the least.
const SPARE: usize = 8 << 20;
/// How much memory a byte of a call may take while it is under way.
const PER_BYTE: usize = 8;
