//! The engine that compiles and runs the component, without threads, async and other features that it does not need.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use super::error::LogicError;
use super::options::{Allocation, ComponentOptions};
use super::state::TABLE_ELEMENTS;

/// Creates an engine for these options.
pub(super) fn engine(options: &ComponentOptions) -> Result<Engine, LogicError> {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::Speed).parallel_compilation(true);
    config.consume_fuel(options.limits.fuel.is_some());
    // A trap's reason is on stderr; backtraces of a stripped component would say nothing and take space.
    config.wasm_backtrace_max_frames(None).generate_address_map(false).native_unwind_info(false);
    config.concurrency_support(false);
    if let Allocation::Pooled { instances } = options.allocation {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(instances, options.limits.memory_bytes)));
    }
    Engine::new(&config).map_err(|error| LogicError::Engine { reason: format!("{error:#}") })
}

fn pool(instances: u32, memory_bytes: usize) -> PoolingAllocationConfig {
    let parts = instances.saturating_mul(PARTS);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances).total_core_instances(parts).total_tables(parts);
    pool.total_memories(instances).max_memories_per_component(1).max_memory_size(memory_bytes);
    pool.max_tables_per_component(PARTS).table_elements(TABLE_ELEMENTS);
    pool
}

/// A component is several core instances with a table each: the program, and the glue for its imports.
const PARTS: u32 = 6;
