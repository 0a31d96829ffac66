//! A pool of a few instances that gates with equal settings share, created on demand and kept small.
//!
//! A gate is just its settings and its offers, so any instance can decide for it once it has both. Half of the
//! instances handle short inputs and half long ones, so that no call waits for another's megabyte: a call begins in one
//! of them, and moves once if its result is long. If an instance is busy, the next one is used. One that has grown is
//! released after the call that made it grow.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use super::state::MemoryBudget;
use super::types::{Tool, execution};
use super::{AllowedServers, CallHistory, Component, LogicError, OfferedTools, Supervisor};
use crate::decide::{Decide, ExecutionId, GateId, LogicResult};

/// The instances for gates with equal settings.
pub(crate) struct InstancePool {
    component: Component,
    settings: Arc<execution::Settings>,
    servers: Arc<AllowedServers>,
    slots: Vec<Mutex<Option<PooledInstance>>>,
    pool_set: Arc<PoolSet>,
    budget: Arc<MemoryBudget>,
    /// When it was last used, by the use counter of the pool set.
    last_used: AtomicU64,
}

/// All pools of a registry, with one limit for the instances of all of them.
pub(crate) struct PoolSet {
    pools: Mutex<Vec<Weak<InstancePool>>>,
    budget: Arc<MemoryBudget>,
    /// How many instances there are.
    instance_count: AtomicUsize,
    /// Counts uses, to find the pool that was unused for longest.
    use_counter: AtomicU64,
}

/// The offers of a gate; each instance gets them when it next decides for the gate.
#[derive(Default)]
pub(crate) struct GateOffers {
    offers: Mutex<OfferedTools>,
    /// Counts the changes of the offers.
    version: AtomicU64,
}

/// A running call and the slot of its instance, used only by the runner of the call.
#[derive(Debug)]
pub(crate) struct CallTicket {
    slot: AtomicUsize,
    execution: AtomicU64,
}

impl CallTicket {
    fn new(slot: usize, execution: ExecutionId) -> Self {
        CallTicket { slot: AtomicUsize::new(slot), execution: AtomicU64::new(execution.0) }
    }

    fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    fn execution(&self) -> ExecutionId {
        ExecutionId(self.execution.load(Ordering::Relaxed))
    }

    fn set(&self, slot: usize, execution: ExecutionId) {
        self.slot.store(slot, Ordering::Relaxed);
        self.execution.store(execution.0, Ordering::Relaxed);
    }
}

/// An instance in a pool.
struct PooledInstance {
    logic: Supervisor,
    gates: Vec<KnownGate>,
    pool_set: Arc<PoolSet>,
}

/// A gate that an instance knows.
struct KnownGate {
    opened: Weak<GateOffers>,
    id: GateId,
    /// The version of the offers that it has.
    version: u64,
}

impl GateOffers {
    fn offers(&self) -> MutexGuard<'_, OfferedTools> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of changes of the offers so far.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Returns the current offers and their version.
    fn current_offers(&self) -> (OfferedTools, u64) {
        let offers = self.offers();
        (Arc::clone(&offers), self.version.load(Ordering::SeqCst))
    }
}

impl InstancePool {
    /// Creates a pool for gates with these settings; an error if the component rejects them.
    pub(crate) fn open(
        pools: &Arc<PoolSet>,
        component: &Component,
        settings: execution::Settings,
    ) -> LogicResult<Result<Arc<Self>, execution::SettingsError>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (0..cores.clamp(MIN_INSTANCES, MAX_INSTANCES)).map(|_| Mutex::default()).collect();
        let (servers, settings) = (Arc::new(AllowedServers::of(&settings)), Arc::new(settings));
        let part = component.options().limits.memory_bytes.saturating_mul(INSTANCES_OF_ONE);
        let budget = MemoryBudget::new(part, Some(Arc::clone(&pools.budget)));
        let (component, pools, last_used) = (component.clone(), Arc::clone(pools), AtomicU64::new(0));
        let pool = Arc::new(InstancePool { component, settings, servers, slots, pool_set: pools, budget, last_used });
        {
            let (mut slot, _) = pool.acquire(0)?;
            match slot.logic().open_gate(&pool.settings)? {
                Ok(id) => slot.logic().close_gate(id)?,
                Err(error) => return Ok(Err(error)),
            }
        }
        let set = &pool.pool_set;
        let mut pools = set.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        drop(pools);
        Ok(Ok(pool))
    }

    /// Returns the settings of its gates.
    pub(crate) fn settings(&self) -> &Arc<execution::Settings> {
        &self.settings
    }

    /// Asks something that does not concern a gate, about this many bytes.
    pub(crate) fn ask<R>(
        &self,
        bytes: usize,
        question: impl FnOnce(&mut Supervisor) -> LogicResult<R>,
    ) -> LogicResult<R> {
        question(self.acquire(bytes)?.0.logic())
    }

    /// Asks something about a gate, concerning this many bytes.
    pub(crate) fn ask_gate<R>(
        &self,
        opened: &Arc<GateOffers>,
        bytes: usize,
        question: impl FnOnce(&mut Supervisor, GateId) -> LogicResult<R>,
    ) -> LogicResult<R> {
        let (mut slot, _) = self.acquire(bytes)?;
        let id = self.sync_gate(&mut slot, opened)?;
        question(slot.logic(), id)
    }

    /// Sets the tools that a server offers to a gate.
    pub(crate) fn offer(
        &self,
        opened: &Arc<GateOffers>,
        server: &str,
        tools: &Arc<[Tool]>,
    ) -> LogicResult<Vec<execution::OfferNote>> {
        self.change_offers(opened, |logic, id| logic.offer_shared(id, server, tools))
    }

    /// Removes the tools that a server offered to a gate.
    pub(crate) fn withdraw(&self, opened: &Arc<GateOffers>, server: &str) -> LogicResult<()> {
        self.change_offers(opened, |logic, id| logic.withdraw(id, server))
    }

    fn change_offers<R>(
        &self,
        opened: &Arc<GateOffers>,
        change: impl FnOnce(&mut Supervisor, GateId) -> LogicResult<R>,
    ) -> LogicResult<R> {
        let (mut slot, _) = self.acquire(0)?;
        let id = self.sync_gate(&mut slot, opened)?;
        let answer = change(slot.logic(), id)?;
        let changed = slot.logic().offers(id)?;
        let mut offers = opened.offers();
        *offers = changed;
        let version = opened.version.fetch_add(1, Ordering::SeqCst) + 1;
        drop(offers);
        if let Some(known) = slot.instance().gates.iter_mut().find(|known| known.id == id) {
            known.version = version;
        }
        Ok(answer)
    }

    /// Begins a call of a gate. If its history is kept, somebody must take it when the call is over.
    pub(crate) fn begin(
        &self,
        opened: &Arc<GateOffers>,
        call: execution::ToolCall,
        keep: bool,
    ) -> LogicResult<(CallTicket, execution::Directive)> {
        let (mut slot, index) = self.acquire(call.arguments.len())?;
        let id = self.sync_gate(&mut slot, opened)?;
        let logic = slot.logic();
        logic.keep_history(keep);
        let (execution, directive) = logic.begin(id, call)?;
        Ok((CallTicket::new(index, execution), directive))
    }

    /// Passes an event to a call, and returns the next directive.
    pub(crate) fn next(
        &self,
        opened: &Arc<GateOffers>,
        ticket: &CallTicket,
        event: execution::Event,
    ) -> LogicResult<execution::Directive> {
        if let execution::Event::Answered(json) = &event
            && json.len() > LONG
            && ticket.slot() < self.short_slots()
        {
            self.move_call(opened, ticket, json.len())?;
        }
        let mut slot = self.instance_of(ticket)?;
        // A call that waited for a server needs its new tools; other calls have decided on the earlier ones.
        if let execution::Event::Connected = event {
            self.sync_gate(&mut slot, opened)?;
        }
        slot.logic().next(ticket.execution(), event)
    }

    /// Moves a call to an instance for long inputs; if none is available, the call stays.
    fn move_call(&self, opened: &Arc<GateOffers>, ticket: &CallTicket, bytes: usize) -> LogicResult<()> {
        let Ok((mut other, index)) = self.acquire(bytes) else { return Ok(()) };
        let Ok(id) = self.sync_gate(&mut other, opened) else { return Ok(()) };
        // No deadlock: whoever holds an instance for short inputs never waits for one for long inputs.
        let call = self.instance_of(ticket)?.logic().take_call(ticket.execution())?;
        ticket.set(index, other.logic().put_call(call, id));
        Ok(())
    }

    /// Asks the instance of a call about it.
    pub(crate) fn ask_call<R>(
        &self,
        ticket: &CallTicket,
        question: impl FnOnce(&mut Supervisor, ExecutionId) -> LogicResult<R>,
    ) -> LogicResult<R> {
        question(self.instance_of(ticket)?.logic(), ticket.execution())
    }

    /// Forgets a call, and returns its history if that was kept.
    pub(crate) fn end(&self, ticket: &CallTicket) -> (LogicResult<()>, Option<CallHistory>) {
        match self.instance_of(ticket) {
            Ok(mut slot) => {
                let ended = slot.logic().end(ticket.execution());
                (ended, slot.logic().take_history(ticket.execution()))
            }
            Err(error) => (Err(error), None),
        }
    }

    /// Returns the linear memory of its instances.
    pub(crate) fn memory_bytes(&self) -> usize {
        let memory =
            |slot: &Mutex<Option<PooledInstance>>| lock(slot).as_ref().map_or(0, |slot| slot.logic.memory_bytes());
        self.slots.iter().map(memory).sum()
    }

    /// Returns the gate in an instance, after giving it the current offers.
    fn sync_gate(&self, slot: &mut InstanceGuard<'_>, opened: &Arc<GateOffers>) -> LogicResult<GateId> {
        let PooledInstance { logic, gates, .. } = slot.instance();
        let version = opened.version.load(Ordering::SeqCst);
        let is_it = |known: &KnownGate| std::ptr::eq(known.opened.as_ptr(), Arc::as_ptr(opened));
        if let Some(index) = gates.iter().position(is_it) {
            let known = &mut gates[index];
            if known.version != version {
                let (offers, version) = opened.current_offers();
                logic.set_offers(known.id, &offers)?;
                known.version = version;
            }
            let id = known.id;
            // Most recently used first.
            gates[..=index].rotate_right(1);
            return Ok(id);
        }
        let (offers, version) = opened.current_offers();
        // Close gates that no longer exist and, beyond a limit, those unused for longest.
        let most = if logic.base_memory() > LARGE_BASE { FEW_GATES } else { MOST_GATES };
        let mut index = 0;
        while index < gates.len() {
            let known = &gates[index];
            let unused = known.opened.strong_count() == 0 || index + 1 >= most;
            match unused && !logic.has_calls(known.id) {
                true => drop(logic.close_gate(gates.remove(index).id)),
                false => index += 1,
            }
        }
        let id = logic.open_shared(&self.settings, &self.servers, &offers)?;
        gates.insert(0, KnownGate { opened: Arc::downgrade(opened), id, version });
        Ok(id)
    }

    /// Returns how many instances handle short inputs.
    fn short_slots(&self) -> usize {
        self.slots.len() / 2
    }

    /// Returns a free instance for a question about this many bytes: an existing one, else a new one, else waits for a
    /// busy one.
    fn acquire(&self, bytes: usize) -> LogicResult<(InstanceGuard<'_>, usize)> {
        self.last_used.store(self.pool_set.use_counter.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let range = if bytes > LONG { self.short_slots()..self.slots.len() } else { 0..self.short_slots() };
        let mut empty = None;
        for index in range.clone() {
            let slot = &self.slots[index];
            let slot = match slot.try_lock() {
                Ok(slot) => slot,
                Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            if slot.is_some() {
                return Ok((InstanceGuard(slot), index));
            }
            empty.get_or_insert((slot, index));
        }
        let (mut slot, index) = empty.unwrap_or_else(|| {
            let index = range.start + self.last_used.load(Ordering::Relaxed) as usize % range.len();
            (lock(&self.slots[index]), index)
        });
        if slot.is_none() {
            let budget = Some(Arc::clone(&self.budget));
            let logic =
                self.pool_set.make_instance(self, || Supervisor::with_budget(self.component.clone(), budget))?;
            *slot = Some(PooledInstance { logic, gates: Vec::new(), pool_set: Arc::clone(&self.pool_set) });
        }
        Ok((InstanceGuard(slot), index))
    }

    fn instance_of(&self, ticket: &CallTicket) -> LogicResult<InstanceGuard<'_>> {
        let slot = lock(self.slots.get(ticket.slot()).ok_or(LogicError::ForeignHandle)?);
        if slot.is_none() { Err(LogicError::ForeignHandle) } else { Ok(InstanceGuard(slot)) }
    }

    /// Drops an instance without calls; returns whether there was one.
    fn drop_idle(&self) -> bool {
        let idle = |slot: &&Mutex<Option<PooledInstance>>| match slot.try_lock() {
            Ok(mut slot) => slot.take_if(|slot| !slot.logic.is_busy()).is_some(),
            Err(_) => false,
        };
        // From the end, because the first one is used most.
        self.slots.iter().rev().find(idle).is_some()
    }
}

impl PoolSet {
    /// Creates an empty set of pools for this component.
    pub(crate) fn new(component: &Component) -> Arc<Self> {
        let limit = component.options().limits.memory_bytes.saturating_mul(INSTANCES_OF_ALL);
        let (pools, instance_count, use_counter) = Default::default();
        Arc::new(PoolSet { pools, budget: MemoryBudget::new(limit, None), instance_count, use_counter })
    }

    /// Creates an instance for a pool, after dropping an idle one of another pool if there are too many.
    fn make_instance<R>(&self, asking: &InstancePool, make: impl FnOnce() -> LogicResult<R>) -> LogicResult<R> {
        if self.instance_count.fetch_add(1, Ordering::SeqCst) >= MAX_ALL_INSTANCES {
            let mut pools: Vec<_> = {
                let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
                pools.iter().filter_map(Weak::upgrade).collect()
            };
            pools.sort_by_key(|pool| pool.last_used.load(Ordering::Relaxed));
            let mut others = pools.iter().filter(|pool| !std::ptr::eq(&***pool, asking));
            // If none is idle, the limit is exceeded, because each pool needs at least one instance.
            others.find(|pool| pool.drop_idle());
        }
        make().inspect_err(|_| {
            self.instance_count.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

impl Drop for PooledInstance {
    fn drop(&mut self) {
        self.pool_set.instance_count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An instance in use, which releases excess memory afterwards.
struct InstanceGuard<'a>(MutexGuard<'a, Option<PooledInstance>>);

impl InstanceGuard<'_> {
    fn instance(&mut self) -> &mut PooledInstance {
        self.0.as_mut().expect("only slots with an instance are used")
    }

    fn logic(&mut self) -> &mut Supervisor {
        &mut self.instance().logic
    }
}

impl Drop for InstanceGuard<'_> {
    fn drop(&mut self) {
        let Some(PooledInstance { logic, gates, .. }) = &mut *self.0 else { return };
        if logic.release_if_grown() {
            // The next instance need not get gates that may not be used again.
            let mut first = true;
            gates.retain(|known| {
                let kept = std::mem::take(&mut first) || logic.has_calls(known.id);
                kept || logic.close_gate(known.id).is_err()
            });
        }
    }
}

fn lock(slot: &Mutex<Option<PooledInstance>>) -> MutexGuard<'_, Option<PooledInstance>> {
    // A panic while asking the component leaves the supervisor as usable as a trap does.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longer inputs take the component a millisecond or more.
pub(crate) const LONG: usize = 64 << 10;
/// The minimum and maximum number of instances of a pool; in between, one per core.
const MIN_INSTANCES: usize = 4;
const MAX_INSTANCES: usize = 8;
/// How many instances all pools of a registry have before a new one replaces an idle one.
const MAX_ALL_INSTANCES: usize = 32;
/// The memory of one pool and of all pools, as multiples of an instance's limit.
const INSTANCES_OF_ONE: usize = 2;
const INSTANCES_OF_ALL: usize = 4;
/// How many gates an instance keeps, because sessions with equal settings differ in what their own servers offer; and
/// how many if those take much memory.
const MOST_GATES: usize = 64;
const FEW_GATES: usize = 8;
/// How much memory the gates of an instance may use before only a few are kept.
const LARGE_BASE: usize = 64 << 20;

#[cfg(test)]
mod tests;
