//! What a pool needs of the instances that gates share: gates that are told of offers late, and memory that is given back.

use std::sync::Arc;

use super::super::LogicError;
use super::super::types::{Tool, execution};
use super::call::{CallRecord, Place, build_gate};
use super::{GateRecord, Offers, Servers, Supervisor};
use crate::decide::{Answer, ExecutionId, GateId};

impl Supervisor {
    /// Opens a gate of settings that the component has taken before, with all that was offered to it.
    pub(crate) fn open_shared(
        &mut self,
        settings: &Arc<execution::Settings>,
        servers: &Arc<Servers>,
        offers: &Offers,
    ) -> Answer<GateId> {
        let before = self.live()?.memory_bytes();
        let handle = Some(self.ask(|logic| build_gate(logic, settings, offers))?);
        self.floor += self.memory_bytes().saturating_sub(before);
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
    ) -> Answer<Vec<execution::OfferNote>> {
        let mut offers = (*self.gate(gate)?.offers).clone();
        match offers.iter_mut().find(|(known, _)| known == server) {
            Some((_, old)) => *old = Arc::clone(tools),
            None => offers.push((server.to_owned(), Arc::clone(tools))),
        }
        self.change_offers(gate, Arc::new(offers), |logic, gate| logic.offer(gate, server, tools))
    }

    /// What a gate has been offered.
    pub(crate) fn offers(&mut self, gate: GateId) -> Answer<Offers> {
        Ok(Arc::clone(&self.gate(gate)?.offers))
    }

    /// Brings a gate to these offers, by as many changes as they differ in.
    pub(crate) fn set_offers(&mut self, gate: GateId, offers: &Offers) -> Answer<()> {
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
    pub(crate) fn take_call(&mut self, execution: ExecutionId) -> Answer<Moved> {
        let mut call = self.calls.remove(&execution).ok_or(LogicError::ForeignHandle)?;
        if let Place::Running(running) = std::mem::replace(&mut call.place, Place::Nowhere) {
            // What the component says to this matters to nobody: the call is fed again elsewhere.
            drop(self.ask(|logic| running.leave(logic)));
        }
        Ok(Moved(call))
    }

    /// Takes in a call that was under way elsewhere, on a gate of the same settings; it is fed when it is next told something.
    pub(crate) fn put_call(&mut self, Moved(mut call): Moved, gate: GateId) -> ExecutionId {
        call.gate = gate;
        let id = ExecutionId(self.next_id);
        self.next_id += 1;
        self.calls.insert(id, call);
        id
    }

    /// What the instance and its gates need of memory, without calls.
    pub(crate) fn floor(&self) -> usize {
        self.floor
    }

    /// Whether any call is under way, or the story of one that is over waits to be taken.
    pub(crate) fn is_busy(&self) -> bool {
        !(self.calls.is_empty() && self.past.is_empty())
    }

    /// Whether a call of this gate is under way.
    pub(crate) fn has_calls(&self, gate: GateId) -> bool {
        self.calls.values().any(|call| call.gate == gate)
    }

    /// Gives an instance back that has grown far beyond what its gates and calls need, since its memory never shrinks. The
    /// next question starts another one, which is told of the calls that are under way. Says whether it did.
    pub(crate) fn shed(&mut self) -> bool {
        let grown = self.memory_bytes().saturating_sub(self.floor);
        let spare = SPARE.max(self.floor);
        if grown <= spare {
            return false;
        }
        let running = self.calls.values().filter(|call| matches!(call.place, Place::Running(_)));
        let inputs: usize = running.map(|call| call.call.arguments.len() + call.spent.bytes).sum();
        if grown <= spare.saturating_add(inputs.saturating_mul(PER_BYTE)) {
            return false;
        }
        self.calls.values_mut().for_each(|call| call.displace());
        self.gates.values_mut().for_each(|gate| gate.handle = None);
        (self.instance, self.shed) = (None, true);
        true
    }
}

/// A call on its way from one instance to another.
pub(crate) struct Moved(Box<CallRecord>);

/// How far an instance may grow beyond what its gates need, at the least.
const SPARE: usize = 8 << 20;
/// How much memory a byte of a call may take while it is under way.
const PER_BYTE: usize = 8;
