//! One running component: a store, an instance in it, and limits for every call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::component::ResourceAny;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap};

use super::bindings::{Logic, LogicPre};
use super::error::LogicError;
use super::options::{Allocation, ComponentOptions, InstanceLimits};
use super::state::{MemoryBudget, MemoryExceeded, StoreState};

/// A component that is ready to decide, for one thread at a time.
pub struct Instance {
    logic: Logic,
    store: Store<StoreState>,
    limits: InstanceLimits,
    id: u64,
    dead: bool,
}

impl Instance {
    pub(super) fn new(
        pre: &LogicPre<StoreState>,
        options: &ComponentOptions,
        budget: Option<Arc<MemoryBudget>>,
    ) -> Result<Self, LogicError> {
        let limits = options.limits;
        let mut store = Store::new(pre.engine(), StoreState::new(limits.memory_bytes, budget));
        store.limiter(|state| state);
        // Data copied out of the component is limited like the memory it comes from; lists count with their size in the
        // host.
        store.set_hostcall_fuel(limits.memory_bytes / 2);
        let logic = refuel(&mut store, limits).and_then(|()| pre.instantiate(&mut store));
        let logic = logic.map_err(|error| match options.allocation {
            Allocation::Pooled { instances } if error.is::<PoolConcurrencyLimitError>() => {
                LogicError::PoolFull { instances }
            }
            _ => explain(&error, store.data(), limits),
        })?;
        Ok(Self { logic, store, limits, id: NEXT_ID.fetch_add(1, Ordering::Relaxed), dead: false })
    }

    /// Reports whether a call crashed, so that this instance no longer answers.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Returns the size of the component's linear memory, which never shrinks.
    pub fn memory_bytes(&self) -> usize {
        self.store.data().memory_used()
    }

    /// Makes one limited call; after any error the instance is dead, because its state may be inconsistent.
    pub(super) fn call<R>(
        &mut self,
        call: impl FnOnce(&Logic, &mut Store<StoreState>) -> wasmtime::Result<R>,
    ) -> Result<R, LogicError> {
        if self.dead {
            return Err(LogicError::Dead);
        }
        self.store.data_mut().begin_call();
        refuel(&mut self.store, self.limits).and_then(|()| call(&self.logic, &mut self.store)).map_err(|error| {
            self.dead = true;
            explain(&error, self.store.data(), self.limits)
        })
    }

    /// Wraps a resource of the component, so that no other instance accepts it.
    pub(super) fn handle(&self, resource: ResourceAny) -> ResourceHandle {
        ResourceHandle { instance: self.id, resource }
    }

    /// Returns the resource of a handle, if it belongs to this instance.
    pub(super) fn resource(&self, handle: &ResourceHandle) -> Result<ResourceAny, LogicError> {
        if handle.instance == self.id { Ok(handle.resource) } else { Err(LogicError::ForeignHandle) }
    }

    /// Frees the resource of a handle; a dead instance has nothing left to free.
    pub(super) fn drop_handle(&mut self, handle: &ResourceHandle) -> Result<(), LogicError> {
        let resource = self.resource(handle)?;
        if self.dead {
            return Ok(());
        }
        self.call(|_, store| resource.resource_drop(store))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("id", &self.id).field("dead", &self.dead).finish_non_exhaustive()
    }
}

/// A resource and its instance; not `Copy`, so that it is freed once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResourceHandle {
    instance: u64,
    resource: ResourceAny,
}

fn refuel(store: &mut Store<StoreState>, limits: InstanceLimits) -> wasmtime::Result<()> {
    limits.fuel.map_or(Ok(()), |fuel| store.set_fuel(fuel))
}

pub(super) fn explain(error: &wasmtime::Error, state: &StoreState, limits: InstanceLimits) -> LogicError {
    if let Some(MemoryExceeded { limit }) = error.downcast_ref() {
        return LogicError::Memory { limit: *limit };
    }
    match (error.downcast_ref::<Trap>(), limits.fuel) {
        (Some(Trap::OutOfFuel), Some(limit)) => LogicError::Fuel { limit },
        _ => LogicError::Trap { reason: state.last_words().unwrap_or_else(|| error.root_cause().to_string()) },
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);
